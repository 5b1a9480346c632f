package tests

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// details returns what the Web UI shows as a run's current details.
func (e *env) details(session, run string) string {
	e.t.Helper()
	value, err := e.client.QueryWorkflow(e.t.Context(), session, run, "__temporal_workflow_metadata")
	require.NoError(e.t, err)
	var metadata sdkpb.WorkflowMetadata
	require.NoError(e.t, value.Get(&metadata))
	return metadata.CurrentDetails
}

// summaries returns the lines that the Web UI shows for activities, in order; those of local activities are at their
// markers.
func summaries(t *testing.T, events []*historypb.HistoryEvent) []string {
	t.Helper()
	var out []string
	for _, e := range events {
		switch e.EventType {
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, enumspb.EVENT_TYPE_MARKER_RECORDED:
			var s string
			require.NotNil(t, e.GetUserMetadata().GetSummary(), "event %d has no summary", e.EventId)
			require.NoError(t, converter.GetDefaultDataConverter().FromPayload(e.UserMetadata.Summary, &s))
			out = append(out, s)
		}
	}
	return out
}

func attributes(t *testing.T, fields map[string]*commonpb.Payload) map[string]any {
	t.Helper()
	out := map[string]any{}
	for name, payload := range fields {
		if strings.HasPrefix(name, "Everturn") {
			var v any
			require.NoError(t, json.Unmarshal(payload.Data, &v))
			out[name] = v
		}
	}
	return out
}

func TestATurnCanBeWatchedInTheWebUI(t *testing.T) {
	t.Parallel()
	const secret = "sk-test-0123456789abcdefghij"
	gate := fakellm.NewGate()
	te := newEnv(t, fakellm.Steps(
		fakellm.Calls(fakellm.ToolCall{Name: "local_echo", Arguments: `{"text":"a|b"}`},
			fakellm.ToolCall{Name: "local_quick_echo", Arguments: `{"text":"<b>"}`}).
			WithText("Let me *see*.").Usage(100, 10, 0),
		fakellm.Text("There it is.").Hold(2, gate).Usage(120, 5, 0),
	), func(c *config.Config) { c.LLM.APIKey = secret })
	te.work(withEcho()...)
	id := session(t)
	run := te.begin(id, "Find the marzipan.", nil)
	awaitGate(t, gate)

	shown := te.details(id, run.GetRunID())
	t.Logf("current details:\n%s", shown)
	for _, row := range []string{"| state | LlmInfer |", "| model | scripted |", "| steps | 2 of 12 |",
		"| tool calls | 2 of 8 |",
		`local/quick\_echo`, "| tokens | 100 in, 10 out |", `| said | Let me \*see\*. |`} {
		assert.Contains(t, shown, row)
	}
	value, err := te.client.QueryWorkflow(t.Context(), id, "", workflows.StateQuery)
	require.NoError(t, err)
	var snapshot workflows.Snapshot
	require.NoError(t, value.Get(&snapshot))
	assert.Equal(t, turn.PhaseLlmInfer, snapshot.Phase)
	assert.Equal(t, id, snapshot.Session)
	assert.Equal(t, run.GetRunID(), snapshot.Turn)
	assert.Equal(t, 2, snapshot.Counters.Step)
	assert.Equal(t, 2, snapshot.Counters.ToolCalls)
	assert.Equal(t, "scripted", snapshot.Model)
	assert.Equal(t, int64(2), snapshot.Head.Seq, "the request and the first answer; results go in with the next inference")

	gate.Release()
	assert.Equal(t, "There it is.", te.result(run).Answer)
	shown = te.details(id, run.GetRunID())
	assert.Contains(t, shown, "| state | completed (answered) |")
	assert.LessOrEqual(t, len(shown), 3<<10)

	events := te.events(id, run.GetRunID())
	lines := summaries(t, events)
	t.Logf("summaries: %q", lines)
	assert.ElementsMatch(t, []string{"take the message", "scripted · step 1", `local/echo {"text":"a|b"}`,
		`local/quick_echo {"text":"<b>"}`,
		"scripted · step 2", "settle the turn: answered"}, lines)

	want := map[string]any{
		"EverturnSession": id, "EverturnAgent": "default", "EverturnModel": "scripted", "EverturnState": "completed",
		"EverturnFinishReason": "answered", "EverturnTools": []any{"local/quick_echo", "local/echo"}, "EverturnTokens": 235.0,
	}
	described, err := te.client.DescribeWorkflowExecution(t.Context(), id, run.GetRunID())
	require.NoError(t, err)
	info := described.WorkflowExecutionInfo
	assert.Equal(t, want, attributes(t, info.GetSearchAttributes().GetIndexedFields()))
	te.searched(`EverturnState = 'completed' AND EverturnTools = 'local/echo' AND EverturnTokens > 200 AND EverturnSession = '`+id+`'`, run.GetRunID())
	for _, spot := range []string{"marzipan", "There it is", secret} {
		assert.NotContains(t, protojson.Format(info), spot, "search attributes, memo and IDs are seen by everyone")
	}
	for _, e := range events {
		assert.NotContains(t, protojson.Format(e), secret)
		assert.NotContains(t, e.String(), secret)
	}
}

// searched waits until the visibility store finds exactly this run, because it lags behind the event.
func (e *env) searched(query, run string) {
	e.t.Helper()
	require.Eventually(e.t, func() bool {
		list, err := e.client.ListWorkflow(e.t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		return err == nil && len(list.Executions) == 1 && list.Executions[0].Execution.RunId == run
	}, within, 50*time.Millisecond, query)
}
