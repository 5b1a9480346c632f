package tests

import (
	"database/sql"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/everturn/everturn/journal"
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

func TestCLISaysWhatIsWrongWithAJournal(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, "")
	h.write("notes.txt", strings.Repeat("this is not a database\n", 100))
	newer, locked := h.path("newer.db"), h.path("locked.db")
	h.write("empty.jsonl", "")
	for _, path := range []string{newer, locked} {
		h.everturn("import", "--set", "journal.path="+path, "empty.jsonl") // creates the file
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
	assert.Contains(t, waiting.exits(5).err.String(), "another program has held")
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
