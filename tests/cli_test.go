package tests

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// The tests of these files run the real commands as processes and check their output.

// event is a line of -o jsonl, as a client program decodes it.
type event struct {
	Version int            `json:"v"`
	Turn    string         `json:"turn"`
	Index   int64          `json:"index"`
	Kind    turn.EventKind `json:"kind"`
	Step    int            `json:"step"`
	Text    string         `json:"text"`
}

// ids is what --detach -o json prints.
type ids struct{ Session, Turn, Link string }

func lookAndAnswer(answer fakellm.Reply) fakellm.Script {
	return fakellm.Steps(fakellm.Call("local_list_files", `{}`).WithText("I look.").Usage(10, 3, 0), answer)
}

func TestCLIAnswersInEveryFormat(t *testing.T) {
	t.Parallel()
	model := fakellm.Start(t, lookAndAnswer(fakellm.Text("It is \x1b[2Ja test.").Usage(20, 5, 0)))
	h := newUserFolder(t, asking(model))
	h.worker()

	text := h.everturn("run", "What is this?").exits(0)
	assert.Equal(t, "It is [2Ja test.\n", text.out.String(),
		"only the answer goes to stdout, and nothing of it moves a terminal")
	assert.Contains(t, text.err.String(), "/namespaces/default/workflows/s-")
	assert.Contains(t, text.err.String(), "2 steps · 1 tool call · 30 tokens in, 8 out")

	quiet := h.everturn("run", "-q", "--output-last", "last.txt", "What is this?").exits(0)
	assert.Equal(t, "It is [2Ja test.\n", quiet.out.String())
	assert.Empty(t, quiet.err.String())
	b, err := os.ReadFile(h.path("last.txt"))
	require.NoError(t, err)
	assert.Equal(t, "It is \x1b[2Ja test.", string(b), "a file gets the answer as it is")

	result := decoded[workflows.Result](h.everturn("run", "-o", "json", "What is this?").exits(0))
	assert.Equal(t, workflows.Result{
		Version: 1, Session: result.Session, Turn: result.Turn, State: turn.StateCompleted, FinishReason: turn.FinishAnswered,
		Answer: "It is \x1b[2Ja test.", Usage: turn.Usage{InputTokens: 30, OutputTokens: 8, Unpriced: true}, Steps: 2,
		ToolCalls: 1,
		Model:     "scripted",
	}, result)

	none := h.everturn("run", "-o", "none", "What is this?").exits(0)
	assert.Empty(t, none.out.String()+none.err.String())
	checkEvents(t, decodedLines[event](h.everturn("run", "-o", "jsonl", "What is this?").exits(0)))
}

// checkEvents checks the events of a turn that lookAndAnswer answered.
func checkEvents(t *testing.T, events []event) {
	t.Helper()
	kinds, answer := map[turn.EventKind]int{}, ""
	for i, e := range events {
		assert.Equal(t, 1, e.Version)
		assert.EqualValues(t, i, e.Index)
		assert.Equal(t, events[0].Turn, e.Turn)
		kinds[e.Kind]++
		if e.Kind == turn.EventTextDelta && e.Step == 2 {
			answer += e.Text
		}
	}
	assert.Equal(t, "It is \x1b[2Ja test.", answer)
	assert.Equal(t, turn.EventTurnStarted, events[0].Kind)
	assert.Equal(t, turn.EventTurnCompleted, events[len(events)-1].Kind)
	assert.Equal(t, 1, kinds[turn.EventToolCallStarted])
	assert.Equal(t, 1, kinds[turn.EventToolCallCompleted])
}

func TestCLIDetachesAndAttaches(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	model := fakellm.Start(t, lookAndAnswer(fakellm.Text("It is \x1b[2Ja test.").Hold(3, gate)))
	h := newUserFolder(t, asking(model))
	h.worker()
	plain := h.everturn("run", "--detach", "-s", "detached", "What is this?").exits(0)
	assert.True(t, strings.HasPrefix(plain.out.String(), "session detached\nturn    "), plain.out.String())
	assert.Contains(t, plain.err.String(), "everturn attach detached")
	live := h.begin(nil, "attach", "-o", "jsonl", "detached")
	live.says("tool_call_completed")
	awaitGate(t, gate)
	gate.Release()
	events := decodedLines[event](live.exits(0))
	checkEvents(t, events)

	again := decodedLines[event](h.everturn("attach", "-o", "jsonl", "detached").exits(0))
	assert.Equal(t, events, again, "from the start it is the same, however late")
	rest := decodedLines[event](h.everturn("attach", "-o", "jsonl", "--after-event", "2").exits(0))
	assert.Equal(t, events[3:], rest, "the last session, from an event on")
	late := h.everturn("attach", "--after-event", strconv.FormatInt(events[len(events)-1].Index, 10), "detached").exits(0)
	assert.Equal(t, "It is [2Ja test.\n", late.out.String(), "the answer is there for who has seen everything")
	beyond := h.everturn("attach", "-o", "jsonl", "--after-event", "999999", "detached").exits(3)
	assert.Contains(t, beyond.err.String(), fmt.Sprintf("use --after-event %d or less", len(events)-1))

	started := decoded[ids](h.everturn("run", "--detach", "-o", "json", "And this?").exits(0))
	assert.NotEqual(t, "detached", started.Session)
	assert.Contains(t, started.Link, started.Turn)
	h.everturn("attach", started.Session).exits(0)
	unknown := h.everturn("attach", "nowhere").exits(3)
	assert.Contains(t, unknown.err.String(), `Temporal has no session "nowhere"`)
}

func TestCLIGoesOnWithASession(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	model := fakellm.Start(t, fakellm.Cases(
		fakellm.When("slowly", fakellm.Text("Now.").Hold(1, gate)),
		fakellm.When("", fakellm.Text("Yes.")),
	))
	h := newUserFolder(t, asking(model))
	h.worker()
	none := h.everturn("run", "-c", "hello").exits(3)
	assert.Contains(t, none.err.String(), "the journal has no sessions yet")
	h.everturn("run", "-s", "talk", "first").exits(0)
	h.everturn("run", "-s", "other", "aside").exits(0)
	h.everturn("run", "-s", "talk", "second").exits(0)
	h.everturn("run", "-c", "third").exits(0)
	requests := model.Requests()
	assert.Equal(t, []string{"first", "Yes.", "second", "Yes.", "third"}, textsOf(requests[len(requests)-1].Chat))

	slow := h.begin(nil, "run", "-s", "talk", "slowly")
	awaitGate(t, gate)
	busy := h.everturn("run", "-s", "talk", "--alone", "at once").exits(1)
	assert.Contains(t, busy.err.String(), `session "talk" has a running turn: follow it with `+"`everturn attach talk`")
	gate.Release()
	assert.Equal(t, "Now.\n", slow.exits(0).out.String())

	h.everturn("run", "-s", "talk", "--message-id", "m1", "once").exits(0)
	n := len(model.Requests())
	twice := h.everturn("run", "-s", "talk", "--message-id", "m1", "once").exits(0)
	assert.Equal(t, "Yes.\n", twice.out.String())
	assert.Len(t, model.Requests(), n, "the same message is not asked twice")
}

// textsOf returns the texts of a conversation without its system prompt.
func textsOf(c fakellm.Chat) []string {
	var out []string
	for _, m := range c.Messages {
		if m.Role != "system" {
			out = append(out, m.Content)
		}
	}
	return out
}

func TestCLITakesALongMessageFromStandardInput(t *testing.T) {
	t.Parallel()
	model := fakellm.Start(t, fakellm.Text("Long."))
	h := newUserFolder(t, asking(model))
	h.worker()
	long := strings.Repeat("0123456789abcde\n", 5<<20/16)
	assert.Equal(t, "Long.\n", h.begin(strings.NewReader(long), "run").exits(0).out.String())
	assert.Equal(t, long, model.Requests()[0].Chat.Last("user").Content)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	silent := h.begin(r, "run", "a prompt beside a pipe that stays open")
	silent.says("standard input")
	require.NoError(t, w.Close())
	silent.exits(0)
}

func TestCLISignalsDetachAndThenStop(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	model := fakellm.Start(t, fakellm.Text("It takes its time.").Hold(2, gate))
	h := newUserFolder(t, asking(model))
	h.worker()
	one := h.begin(nil, "run", "-s", "left-running", "Slowly.")
	awaitGate(t, gate)
	one.signal(syscall.SIGINT)
	assert.Contains(t, one.exits(0).err.String(), "Follow it with `everturn attach left-running`")

	two := h.begin(nil, "attach", "left-running")
	two.says("/namespaces/")
	two.signal(syscall.SIGINT)
	two.says("press Ctrl-C again to stop it")
	two.pressedUntilItEnds(func() { _ = two.cmd.Process.Signal(syscall.SIGINT) }) // the command may have exited meanwhile
	assert.Contains(t, two.exits(2).err.String(), "stopped")
	c, err := client.Dial(client.Options{HostPort: stack.Address, Logger: quiet})
	require.NoError(t, err)
	defer c.Close()
	d, err := c.DescribeWorkflowExecution(t.Context(), "left-running", "")
	require.NoError(t, err)
	assert.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, d.WorkflowExecutionInfo.Status)
	h.everturn("attach", "left-running").exits(2)
	over := h.everturn("stop", "left-running").exits(0)
	assert.Contains(t, over.err.String(), "is cancelled", "stopping what is over is no error")
}
