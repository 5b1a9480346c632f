package tests

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/docs"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// published returns the schema of events as the command prints it.
func published(t *testing.T, h *userFolder) *jsonschema.Resolved {
	t.Helper()
	printed := h.everturn("events", "schema").exits(0).out.String()
	require.Equal(t, string(docs.EventsSchema), printed)
	var s jsonschema.Schema
	require.NoError(t, json.Unmarshal([]byte(printed), &s))
	resolved, err := s.Resolve(nil)
	require.NoError(t, err)
	return resolved
}

// valid checks every line of a command's output and returns the number of events of each kind. A stream ends with its
// turn.
func valid(t *testing.T, schema *jsonschema.Resolved, c *command) map[turn.EventKind]int {
	t.Helper()
	kinds, last := map[turn.EventKind]int{}, turn.EventKind("")
	for _, e := range decodedLines[map[string]any](c) {
		assert.NoError(t, schema.Validate(e), "%v", e)
		last = turn.EventKind(e["kind"].(string))
		kinds[last]++
	}
	assert.Equal(t, turn.EventTurnCompleted, last)
	return kinds
}

// TestCLIEventsOfAnInferenceKeepToTheirSchema has the events of a fallback and of a compaction.
func TestCLIEventsOfAnInferenceKeepToTheirSchema(t *testing.T) {
	t.Parallel()
	m := fakellm.Start(t, byModel(map[string]fakellm.Script{
		"scripted": fakellm.Status(404, "model_not_found", "no such model"),
		"second": fakellm.Func(func(q fakellm.Request) fakellm.Reply {
			if len(q.Chat.Tools) == 0 {
				return fakellm.Text("A summary.").Reply(q)
			}
			return fakellm.Text("Counted.").Reply(q)
		}),
	}))
	h := newUserFolder(t, strings.Replace(asking(m), "[runtime]", "fallback = [\"openai:second\"]\n[runtime]", 1)+
		"[[models]]\nname = \"second\"\ncontext_tokens = 8000\n[[models]]\nname = \"scripted\"\ncontext_tokens = 8000\n")
	h.worker()
	schema := published(t, h)
	kinds := valid(t, schema, h.everturn("run", "-o", "jsonl", "-s", "counted", strings.Repeat("Count this. ", 1500)).exits(0))
	assert.Equal(t, 1, kinds[turn.EventModelChanged])
	kinds = valid(t, schema, h.everturn("run", "-o", "jsonl", "-s", "counted", strings.Repeat("And this. ", 1500)).exits(0))
	assert.Equal(t, 1, kinds[turn.EventCompacted])
}

func TestCLIEventsKeepToTheirSchema(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	t.Cleanup(gate.Release)
	h := newUserFolder(t, asking(fakellm.Start(t, fakellm.Cases(
		fakellm.When("blue", fakellm.Text("Blue it is.")),
		fakellm.When("", fakellm.Steps(
			fakellm.Attempts(fakellm.Text("I read the file now.").Reasoning("Hm.").Hold(6, gate).CutAfter(7),
				fakellm.Call("local_read_file", `{"path":"agent.toml"}`).Reasoning("Hm.")),
			fakellm.Call("ask_user", `{"question":"Which colour?"}`),
		)),
	)))+askingToRead)
	h.worker()
	schema := published(t, h)
	begun := h.begin(nil, "run", "-o", "jsonl", "-s", "all", "Begin.")
	begun.says(string(turn.EventTextDelta)) // of the attempt that is cut
	gate.Release()
	begun.exits(6)
	h.everturn("approve", "all", "1.0", "--always", "call", "-y").exits(0)
	h.everturn("attach", "--no-wait", "all").exits(6)
	h.everturn("send", "all", "blue").exits(0)
	whole := h.everturn("attach", "-o", "jsonl", "all").exits(0)
	kinds := valid(t, schema, whole)
	for _, k := range []turn.EventKind{
		turn.EventTurnStarted, turn.EventTextDelta, turn.EventReasoningDelta, turn.EventToolCallStarted,
		turn.EventToolCallCompleted, turn.EventMessageAdded,
		turn.EventApprovalRequested, turn.EventApprovalDecided, turn.EventQuestionAsked, turn.EventQuestionAnswered,
		turn.EventAttemptRestarted, turn.EventTurnCompleted,
		turn.EventPhase, turn.EventInferenceWaiting,
	} {
		assert.NotZero(t, kinds[k], k)
	}
	for session, end := range map[string][]string{"denied": {"deny", "denied", "1.0", "--reason", "no"},
		"stopped": {"stop", "stopped"}} {
		h.everturn("run", "-s", session, "Begin.").exits(6)
		h.everturn(end...).exits(0)
		h.everturn("attach", "--no-wait", session)
		h.everturn("stop", session).exits(0)
		kinds := valid(t, schema, h.everturn("attach", "-o", "jsonl", session).exits(2))
		assert.NotZero(t, kinds[turn.EventApprovalDecided], session)
	}
	for _, wrong := range []func(e map[string]any){
		func(e map[string]any) { delete(e, "turn") },
		func(e map[string]any) { e["v"] = 2 },
		func(e map[string]any) { e["index"] = -1 },
		func(e map[string]any) { e["kind"] = string(turn.EventApprovalRequested) },
	} {
		e := decodedLines[map[string]any](whole)[0]
		wrong(e)
		assert.Error(t, schema.Validate(e), "%v", e)
	}
}

// TestCLIEventsEndForTurnsThatTheJournalDoesNotEnd follows turns that never reach the journal, or have no end in it.
func TestCLIEventsEndForTurnsThatTheJournalDoesNotEnd(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	h := newUserFolder(t, asking(fakellm.Start(t, fakellm.Text("never").Hold(0, gate))))
	h.worker()
	schema := published(t, h)
	loaded, err := config.Load(config.LoadOptions{Path: h.path("agent.toml")})
	require.NoError(t, err)
	c := h.dial()

	h.everturn("run", "--detach", "-s", "terminated", "Hang.").exits(0)
	awaitGate(t, gate)
	follower := h.begin(nil, "attach", "-o", "jsonl", "terminated")
	follower.says("turn_started")
	require.NoError(t, c.TerminateWorkflow(t.Context(), "terminated", "", "a test"))
	valid(t, schema, follower.exits(1))
	again := h.everturn("attach", "-o", "jsonl", "terminated").exits(1)
	valid(t, schema, again)
	assert.Equal(t, shorn(follower), shorn(again))
	output := h.everturn("attach", "terminated").exits(1)
	assert.Contains(t, output.err.String(), "terminated: the turn was ended from outside; its work so far is kept")

	_, err = c.ExecuteWorkflow(t.Context(),
		client.StartWorkflowOptions{ID: "malformed", TaskQueue: loaded.Config.Temporal.TaskQueue}, workflows.TurnWorkflow,
		workflows.Input{Message: &workflows.Message{Text: " "}})
	require.NoError(t, err)
	valid(t, schema, h.everturn("attach", "-o", "jsonl", "malformed").exits(3))
	assert.Contains(t, h.everturn("attach", "malformed").exits(3).err.String(), "the message is empty")
}

// shorn returns the events of a stream without their times: the client makes an end that the journal lacks when it
// observes it.
func shorn(c *command) []string {
	var lines []string
	for _, e := range decodedLines[map[string]any](c) {
		delete(e, "at")
		b, _ := json.Marshal(e)
		lines = append(lines, string(b))
	}
	return strings.Fields(strings.Join(lines, "\n"))
}
