package tests

import (
	"bytes"
	"database/sql"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// shown is what show --json prints.
type shown struct {
	Session  journal.SessionRecord
	Messages []turn.Message
	Turns    []struct {
		Turn       journal.TurnRecord
		Inferences []journal.Inference
		Calls      []journal.CallRecord
	}
}

func TestCLIShowsAndMovesSessions(t *testing.T) {
	t.Parallel()
	h := newHome(t, asking(fakellm.Start(t, lookAndAnswer(fakellm.Text("Two files.")))))
	h.worker()
	h.starter("run", "-s", "first", "Which files?").exits(0)
	h.starter("run", "-s", "second", "Which \x1b[2Jfiles?").exits(0)

	list := h.starter("list").exits(0)
	assert.Regexp(t, `(?s)^SESSION.*\nsecond +1 +completed +- .* Which \[2Jfiles\?\nfirst +1 +completed`,
		list.out.String())
	sessions := decoded[[]journal.SessionRecord](h.starter("list", "-o", "json", "-n", "1").exits(0))
	require.Len(t, sessions, 1)
	assert.Equal(t, "second", sessions[0].ID)

	plain := h.starter("show", "first").exits(0)
	for _, line := range []string{"session first · 4 messages", "user      Which files?", "→ local/list_files {}",
		"assistant Two files.",
		"step 1  call ", "local/list_files: ok, ran 1 time, 0 late results",
		"step 2  inference scripted: settled once, 1 attempt, 0 failures"} {
		assert.Contains(t, plain.out.String(), line)
	}
	unknown := h.starter("show", "third").exits(3)
	assert.Contains(t, unknown.err.String(), `the journal has no session "third"`)

	assert.Contains(t, h.starter("open", "third").exits(3).err.String(), `Temporal has no session "third"`)
	h.starter("open", "first").exits(0)

	exported := h.starter("export", "first").exits(0)
	h.starter("export", "-f", "first.jsonl", "first").exits(0)
	b, err := os.ReadFile(h.path("first.jsonl"))
	require.NoError(t, err)
	assert.Equal(t, exported.out.String(), string(b))
	h.starter("export", "-f", "first.jsonl", "first").exits(3)

	other := newHome(t, "")
	imported := other.begin(strings.NewReader(string(b)), "import", "-").exits(0)
	assert.Regexp(t, "^session first · 4 messages · 1 turn\ntainted: .*\n$", imported.out.String())
	assert.Contains(t, other.starter("import", h.path("first.jsonl")).exits(0).out.String(), "\nunchanged: ")
	was, is := decoded[shown](h.starter("show", "-o", "json", "first")),
		decoded[shown](other.starter("show", "-o", "json", "first"))
	assert.Equal(t, was.Messages, is.Messages)
	assert.Equal(t, was.Session.Head, is.Session.Head)
	assert.Equal(t, was.Turns, is.Turns)

	forged := bytes.Replace(b, []byte("Two files."), []byte("No files at all."), 1)
	refused := newHome(t, "").begin(bytes.NewReader(forged), "import", "-").exits(3)
	assert.Contains(t, refused.err.String(), "nothing was changed")
}

func TestCLISaysWhatIsWrongWithAJournal(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	h.write("notes.txt", strings.Repeat("this is not a database\n", 100))
	newer, locked := h.path("newer.db"), h.path("locked.db")
	h.write("empty.jsonl", "")
	for _, path := range []string{newer, locked} {
		h.starter("import", "--set", "journal.path="+path, "empty.jsonl") // creates the file
	}
	edit(t, newer, "UPDATE journal SET schema_version = 99, min_program = 99")
	edit(t, locked, "BEGIN EXCLUSIVE")
	importInto := func(path string) *command {
		return h.begin(nil, "import", "--set", "journal.path="+path, "empty.jsonl")
	}
	kept, err := os.Open("../journal/testdata/session.jsonl")
	require.NoError(t, err)
	defer kept.Close()
	waiting := h.begin(kept, "import", "--set", "journal.path="+locked, "-")
	for path, says := range map[string]string{
		"notes.txt": "not a SQLite database", h.dir: "choose another path",
		"notes.txt/journal.db": "choose a folder that can be created", newer: "newer version",
	} {
		assert.Contains(t, importInto(path).exits(3).err.String(), says)
	}
	assert.Contains(t, waiting.exits(1).err.String(), "another program has held")
}

// edit changes a database without the journal. A transaction that it begins stays open until the test ends.
func edit(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	for _, s := range statements {
		_, err = db.Exec(s)
		require.NoError(t, err)
	}
}
