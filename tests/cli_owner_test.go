package tests

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/fakellm"
)

// TestDevCarriesNoTurnsIntoAnotherJournal checks that a worker refuses to start if it would write a development
// server's turns to another journal, because clients would not find them in the journal they read.
func TestDevCarriesNoTurnsIntoAnotherJournal(t *testing.T) {
	t.Parallel()
	h := newDevUserFolder(t)
	require.NoError(t, os.Mkdir(h.path("data"), 0o700))
	settings, err := os.ReadFile(h.path("agent.toml"))
	require.NoError(t, err)
	h.write("agent.toml", string(settings)+"[journal]\npath = \"data/kept.db\"\n")
	h.begin(nil, "dev", "--no-worker").says("press Ctrl-C to exit")
	alone := h.everturn("doctor").exits(0)
	assert.Contains(t, alone.out.String(), "ok    Temporal: server 1.")
	assert.Contains(t, alone.out.String(), "warn  worker: none polls task queue everturn")

	guest := newDevUserFolderAt(t, h.address)
	refused := guest.worker().wait()
	assert.Equal(t, 3, refused.code())
	assert.Contains(t, refused.err.String(),
		"is the development server of "+h.dir+", whose turns are kept in "+h.path("data/kept.db"))
	assert.Contains(t, refused.err.String(),
		"give this folder ports of its own with [temporal] address in agent.toml")
	ill := guest.everturn("doctor").exits(3)
	assert.Contains(t, ill.out.String(), "FAIL  Temporal: the Temporal on "+h.address+" is the development server of "+
		h.dir)
	for _, args := range [][]string{{"schedule", "list"}, {"stop", "guest"}, {"attach", "guest"},
		{"approve", "guest", "--all"}} {
		assert.Contains(t, guest.everturn(args...).exits(3).err.String(), "is the development server of "+h.dir, "%v", args)
	}
	other := h.worker("-set", "journal.path=other.db").wait()
	assert.Equal(t, 3, other.code())
	assert.Contains(t, other.err.String(), "and not in "+h.path("other.db"))

	require.NoError(t, os.Symlink(h.path("data"), guest.path("linked")))
	guest.worker("-set", "journal.path=linked/kept.db").says("worker polls")
	assert.Contains(t, h.everturn("run", "Who is in notes.txt?").exits(0).out.String(), "Ottoline",
		"another way to the same journal is the same journal")
	assert.Contains(t, h.everturn("doctor").exits(0).out.String(), "ok    worker: 1 polling task queue everturn")
}

// TestCLIWarnsOfAWorkerThatKeepsAnotherJournal checks the warning on a Temporal server that is not a development
// server: such a server does not record which journal it belongs to, but its workers say which one they use.
func TestCLIWarnsOfAWorkerThatKeepsAnotherJournal(t *testing.T) {
	t.Parallel()
	model := fakellm.Start(t, fakellm.Text("Hello."))
	h := newUserFolder(t, asking(model))
	h.worker().says("worker polls")
	h.everturn("run", "-s", "one-journal", "hello").exits(0)
	assert.Contains(t, h.everturn("doctor").exits(0).out.String(), "ok    worker: 1 polling task queue")
	same := h.worker()
	same.says("worker polls")
	assert.NotContains(t, same.err.String(), "keeps another journal")
	other := h.worker("-set", "journal.path=other.db")
	other.says("worker polls")
	assert.Contains(t, other.err.String(), "another worker polls this task queue, or did a minute ago, and keeps "+
		"another journal: turns of a session would be in both")
	var ill *command
	require.Eventually(t, func() bool { ill = h.everturn("doctor"); return ill.code() != 0 }, within, 100*time.Millisecond,
		"its polls are never seen")
	ill.exits(3)
	assert.Regexp(t, `FAIL  worker: \d+@\S+ polls task queue \S+ .* uses another journal than \.everturn/journal\.db`,
		ill.out.String())

	stranger := newUserFolder(t, "")
	settings, err := os.ReadFile(h.path("agent.toml"))
	require.NoError(t, err)
	stranger.write("agent.toml", string(settings))
	assert.Contains(t, stranger.everturn("doctor").exits(3).out.String(), "uses another journal than",
		"a journal that is not there yet is nobody's")
}
