package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/tests/script"
	"github.com/everturn/everturn/workflows/turn"
)

// A person at a terminal, or at several commands, sees exactly what a server wants to ask the model, and nothing that would
// spare the question.
func TestCLIShowsWhatAServerAsksTheModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := newHome(t, asking(script.Start(t, summarising(`{"text":"x\u001b[31m"}`, "Short.")))+
		hosting(t, "ledger", "sampling = \"ask\"\nsampling_max_tokens = 50\n", "-ledger", dir+"/effects"))
	h.worker()
	assert.Contains(t, h.starter("config", "show").exits(0).out.String(), `sampling = 'ask'`)

	asks := h.starter("run", "-s", "lent", "Summarise it.").exits(6).err.String()
	for _, said := range []string{
		"approval s1.0.1.1 of session lent: the server ledger wants to ask the model, in the middle of a call of mcp/ledger/summarise (1.0)",
		"because the server of this call wants the model's answer to 3 messages, of 50 tokens at most",
		"the model is sent exactly this (", "and what it answers goes to this server:",
		`  │   "system": "You summarise.",`, `      "text": "Summarise, round 1: x"`, "starter approve lent s1.0.1.1 --hash ",
	} {
		assert.Contains(t, asks, said)
	}
	assert.NotContains(t, asks, "\x1b")
	assert.Contains(t, h.starter("approve", "lent", "s1.0.1.1", "--always", "tool").exits(3).err.String(), "allowed one by one")
	h.starter("approve", "lent", "s1.0.1.1").exits(0)
	h.starter("attach", "-q", "lent").exits(0)
	shows := h.starter("show", "lent").exits(0).out.String()
	assert.Contains(t, shows, "? s1.0.1.1 the server ledger asks the model: ")
	assert.Contains(t, shows, "sample s1.0.1.1 of call 1.0 scripted: settled once, ")
	assert.Contains(t, shows, "mcp/ledger/summarise: ok, ran 1 time, went on 1 time after it had asked, ", "it was not begun twice")
	kinds := valid(t, published(t, h), h.starter("attach", "-o", "jsonl", "lent").exits(0))
	assert.Equal(t, 1, kinds[turn.ChunkSampleMade])

	c, keys := h.onTerminal("run", "-s", "lent-live", "Summarise it.")
	c.says("the server ledger wants to ask the model")
	c.says("rows more; Enter shows them")
	typeIn(t, keys, "\n")
	c.says("[y]es, [n]o")
	assert.NotContains(t, c.out.String(), "[a]lways")
	typeIn(t, keys, "n not this\n")
	c.exits(0).says("what the server ledger asks the model: denied by ")
	assert.Regexp(t, `sample s1\.0\.1\.1 of call 1\.0: denied by .*: not this, 0 attempts`, h.starter("show", "lent-live").exits(0).out.String())

	// The approval moves with its session. What the model was asked does not: nobody goes on with that elsewhere.
	exported := h.starter("export", "lent").exits(0).out.String()
	other := newHome(t, "")
	other.begin(strings.NewReader(exported), "import", "-").exits(0)
	assert.Contains(t, other.starter("show", "lent").exits(0).out.String(), "? s1.0.1.1 the server ledger asks the model: ")
	assert.Contains(t, other.starter("export", "lent").exits(0).out.String(), `"verdict":"allowed"`)
}
