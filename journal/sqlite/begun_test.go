package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Two processes open a new journal: one looks at it while the other has only begun, and again when it is there.
func TestAJournalThatSomebodyMakesMeanwhileIsNobodyElses(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	begun, err := s.begun(t.Context(), s.readDB)
	require.NoError(t, err)
	assert.True(t, begun)
}

func TestManyOpenANewJournal(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "journal.db")
		opened := make(chan error)
		for range 6 {
			go func() {
				s, err := Open(t.Context(), path, Options{})
				if err == nil {
					err = s.Close()
				}
				opened <- err
			}()
		}
		for range 6 {
			assert.NoError(t, <-opened)
		}
	}
}
