package authorize

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/frozen"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

func (s *shelf) CallContext(context.Context, journal.CallContextInput) (journal.CallContext, error) {
	return journal.CallContext{}, nil
}

// TestARefusalSaysWhoRefuses checks that the model does not read of a policy if the policy permits the call.
func TestARefusalSaysWhoRefuses(t *testing.T) {
	cache, err := frozen.New(nil, 1<<20)
	require.NoError(t, err)
	cache.AddTurn("t", frozen.Turn{Session: "s", PromptConfig: "h"})
	cache.AddPromptConfig("h", turn.PromptConfig{
		Policy:      turn.Policy{Allow: []string{"local/*"}, Taint: turn.TaintOff},
		Descriptors: []turn.Descriptor{described("local/a", "1"), described("mcp/git/push", "1")},
	})
	a := New(Options{Journal: tools(), Frozen: cache, Offers: func() map[string]string { return nil }})
	for _, c := range []struct{ called, scheduled, says string }{
		{"local/a", "local/a", ""},
		{"local/gone", "local/gone", "no running worker offers this tool"},
		{"local/a", "local/b", "another tool"},
		{"mcp/git/push", "mcp/git/push", "the turn's policy denies this call"},
	} {
		in := workflows.CallInput{Session: "s", Turn: "t", Step: 1, Tool: turn.Tool{ID: c.scheduled}}
		_, _, err := a.Authorize(t.Context(), in, turn.ToolCall{ID: "1.0", Tool: c.called, Arguments: "{}"})
		if c.says == "" {
			assert.NoError(t, err)
			continue
		}
		assert.ErrorContains(t, err, c.says)
	}
}
