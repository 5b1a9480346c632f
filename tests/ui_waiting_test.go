package tests

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
)

// TestTheWebUIShowsAWaitingTurn reads what the Web UI shows of a turn that waits for an approval: the question as the
// workflow's summary, the arguments as code, a timer with a name, and a state to filter the list by.
func TestTheWebUIShowsAWaitingTurn(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	te := newEnv(t, fakellm.Steps(fakellm.Call("local_touch", "{\"text\":\"a```b\"}"), fakellm.Text("Done.")), askToTouch,
		func(c *config.Config) { c.Approvals.Expiry = 24 * time.Hour })
	te.work(touching(&effects))
	id := session(t)
	begun := te.say(id, workflows.Message{Text: "Touch\n[the](x) \x1b[31mvase\u202e."})
	request := te.waits(begun.ID, 1)[0]
	te.searched(`EverturnState = 'waiting' AND EverturnSession = '`+id+`'`, begun.ID)

	described, err := te.client.DescribeWorkflowExecution(t.Context(), id, begun.ID)
	require.NoError(t, err)
	var summary string
	metadata := described.GetExecutionConfig().GetUserMetadata()
	require.NoError(t, converter.GetDefaultDataConverter().FromPayload(metadata.GetSummary(), &summary))
	assert.Equal(t, `Touch \[the\](x) vase .`, summary)
	shown := te.details(id, begun.ID)
	assert.Contains(t, shown, "waits for **approval** of call 1.0, local/touch:\n\n````json\n{\"text\":\"a```b\"}\n````\n")

	te.allow(id, request, "")
	te.ended(begun.ID)
	assert.NotContains(t, te.details(id, begun.ID), "waits for")
	var timers []string
	for _, e := range te.events(id, begun.ID) {
		if e.EventType == enumspb.EVENT_TYPE_TIMER_STARTED {
			var name string
			require.NoError(t, converter.GetDefaultDataConverter().FromPayload(e.GetUserMetadata().GetSummary(), &name))
			timers = append(timers, name)
		}
	}
	assert.Equal(t, []string{"expiry of approval 1.0"}, timers)
}
