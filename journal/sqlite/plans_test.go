package sqlite

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/journaltest"
)

// TestNoStatementScans: a session of 10,000 turns, and a journal of many sessions, stay fast only while every statement
// finds its rows by an index. The statements are those that the conformance suite has made stores prepare.
func TestNoStatementScans(t *testing.T) {
	statements := map[string]bool{}
	t.Run("suite", func(t *testing.T) {
		journaltest.Run(t, func(t *testing.T) journal.Store {
			s, err := openFile(t.Context(), filepath.Join(t.TempDir(), "journal.db"), Options{Synchronous: "normal"})
			require.NoError(t, err)
			t.Cleanup(func() {
				collect(statements, s)
				assert.NoError(t, s.Close())
			})
			return journal.New(s)
		})
	})
	require.Greater(t, len(statements), 50)
	s := openHere(t)
	for _, query := range slices.Sorted(maps.Keys(statements)) {
		for _, step := range plan(t, s, query) {
			assert.False(t, scans(step), "%s\nin\n%s", step, query)
		}
	}
}

// collect notes all statements that a store's connections have prepared.
func collect(statements map[string]bool, s *database) {
	note := func(c *conn) {
		if c != nil {
			for query := range c.statements {
				statements[query] = true
			}
		}
	}
	note(s.writer)
	for range cap(s.readers.slots) {
		c := <-s.readers.slots
		note(c)
		s.readers.slots <- c
	}
}

// scans reports whether a step of a plan goes through a whole table. The few that are small by their nature, or that
// come in the order of an index and end with a LIMIT, may.
func scans(step string) bool {
	rest, found := strings.CutPrefix(step, "SCAN ")
	if !found {
		return false
	}
	for _, fine := range []string{
		"CONSTANT ROW", "line", "catalogues", // made up by the statement itself, or a row a server
		"s USING INDEX sessions_updated", "w USING INDEX requests_oldest", // the latest, and what is open
	} {
		if strings.HasPrefix(rest, fine) {
			return false
		}
	}
	return true
}

func plan(t *testing.T, s *database, query string) (steps []string) {
	t.Helper()
	if !strings.HasPrefix(strings.TrimSpace(query), "SELECT") && !strings.Contains(query, "WHERE") {
		return nil
	}
	var args []any
	for range strings.Count(query, "?") {
		args = append(args, 0)
	}
	rows, err := s.readDB.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	require.NoError(t, err, query)
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		steps = append(steps, detail)
	}
	require.NoError(t, rows.Err())
	return steps
}
