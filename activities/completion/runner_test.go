package completion

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/activities/authorize"
	"github.com/everturn/everturn/activities/frozen"
)

// wholeJournal is the journal of a Runner and of what it uses.
type wholeJournal interface {
	Journal
	attempt.Journal
	frozen.Journal
	authorize.Journal
}

// newRunner returns a Runner with this journal and model, and no room for windows of transcripts.
func newRunner(t *testing.T, j wholeJournal, m Model) *Runner {
	t.Helper()
	cache, err := frozen.New(j, 1)
	require.NoError(t, err)
	r, err := New(Options{Journal: j, Model: m, Frozen: cache, Attempts: attempt.New(j, 0),
		Authorizer: authorize.New(authorize.Options{Journal: j, Frozen: cache})})
	require.NoError(t, err)
	return r
}
