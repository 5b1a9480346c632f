package call

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/activities/authorize"
	"github.com/everturn/everturn/activities/frozen"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// wholeJournal is the journal of a Runner and of what it uses.
type wholeJournal interface {
	Journal
	attempt.Journal
	frozen.Journal
	authorize.Journal
}

// newRunner returns a Runner with this journal.
func newRunner(t *testing.T, j wholeJournal, o Options) *Runner {
	t.Helper()
	cache, err := frozen.New(j, 1)
	require.NoError(t, err)
	o.Journal, o.Frozen, o.Attempts = j, cache, attempt.New(j, 0)
	o.Authorizer = authorize.New(authorize.Options{Journal: j, Frozen: cache,
		Offers: func() map[string]string { return nil }})
	r, err := New(o)
	require.NoError(t, err)
	return r
}

// allowing is a journal in which the turn of a call has a policy that allows every tool.
type allowing struct {
	wholeJournal
	in workflows.CallInput
}

func (a allowing) TurnConfig(context.Context, string) (journal.TurnConfig, error) {
	return journal.TurnConfig{Session: a.in.Session, Tenant: a.in.Tenant, Config: json.RawMessage(`{}`)}, nil
}

func (a allowing) GetBlob(context.Context, string) ([]byte, error) {
	return json.Marshal(turn.PromptConfig{Descriptors: []turn.Descriptor{{ID: a.in.Tool.ID}},
		Policy: turn.Policy{Allow: []string{"*"}}})
}
