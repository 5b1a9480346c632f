package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestManyOpenANewJournal(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "journal.db")
		opened := make(chan error)
		for range 6 {
			go func() {
				db, err := Open(t.Context(), path, Options{})
				if err == nil {
					err = db.Close()
				}
				opened <- err
			}()
		}
		for range 6 {
			assert.NoError(t, <-opened)
		}
	}
}
