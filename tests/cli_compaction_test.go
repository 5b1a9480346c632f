package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// TestCLIShowsTheContextAndCompacts checks that show says how full the context window is and when prompts are
// compacted, and that compact compacts at once, and does not deny that a worker runs while the model is slow.
func TestCLIShowsTheContextAndCompacts(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	t.Cleanup(gate.Release)
	m := &reader{script: fakellm.Text(strings.Repeat("A long answer. ", 100)),
		summary: fakellm.Text("They talked.").Hold(1, gate)}
	h := newUserFolder(t, strings.Replace(asking(fakellm.Start(t, m)), "[runtime]",
		"[[models]]\nname = \"scripted\"\ncontext_tokens = 20000\n[runtime]", 1))
	h.worker()
	for range 2 {
		h.everturn("run", "-s", "s", strings.Repeat("Tell me. ", 100)).exits(0)
	}
	assert.Contains(t, h.everturn("show", "s").exits(0).out.String(), " %, compacts at 75 % of 20000 tokens")
	compact := h.begin(nil, "compact", "s", "-o", "json")
	compact.says("no answer yet: worker ")
	gate.Release()
	res := decodedLines[workflows.CompactResult](compact.exits(0))
	require.Len(t, res, 1)
	assert.Equal(t, turn.CompactionManual, res[0].Reason)
	assert.NotContains(t, compact.err.String(), "no worker")
	shown := h.everturn("show", "s").exits(0).out.String()
	assert.Contains(t, shown, "messages 1 to 3 summarized by scripted")
	h.everturn("compact", "nowhere").exits(1)
}
