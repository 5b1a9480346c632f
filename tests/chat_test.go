package tests

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/fakellm"
)

// The tests of this file run the real chat in real terminals and look at them.

// named returns a session ID that no other run of the test has used, because all runs share the server.
func named(session string) string { return fmt.Sprintf("%s-%d", session, time.Now().UnixNano()%1e9) }

const styledAnswer = "# Report\n\nIt is **good** \x1b[2Jand &#27;[31mred\x1b]0;title\x07.\n\n- one\n- two\n\n```go\nfmt.Println(\"\\*\")\n```\n"

func TestChatAnswers(t *testing.T) {
	t.Parallel()
	h := newHome(t, asking(fakellm.Start(t, lookAndAnswer(fakellm.Text(styledAnswer).Usage(20, 5, 0)))))
	h.worker()
	id := named("talk")
	s := h.chat(80, 40, nil, "-s", id)
	s.ready()
	s.says("What is this?")
	s.shows("2 steps · 1 tool call · 30 tokens in, 8 out · cost unknown")
	s.ready()
	s.fits()
	s.shows("new session "+id, "› What is this?", "I look.", "✓ local/list_files {}", "· ok ·", "Report",
		"[2Jand &#27;[31mred]0;title.", "• one • two", `fmt.Println("\*")`)
	s.press("C-d")
	s.leaves(0)
	s.shows("resume with `starter chat -s " + id + "`")
	again := h.chat(80, 40, nil, "-c")
	again.shows(`fmt.Println("\*")`)
	again.ready()
	again.says("/quit")
	again.leaves(0)
}

func TestChatIsCleanWithoutColour(t *testing.T) {
	t.Parallel()
	h := newHome(t, asking(fakellm.Start(t, lookAndAnswer(fakellm.Text(styledAnswer)))))
	h.worker()
	captured := func(settings []string, args ...string) string {
		s := h.chat(80, 24, settings, args...)
		s.ready()
		s.says("What is this?")
		s.shows("2 steps · 1 tool call")
		s.ready()
		return s.tmux("capture-pane", "-p", "-e")
	}
	assert.Contains(t, captured(nil), "\x1b[", "the check below would notice")
	assert.NotContains(t, captured([]string{"NO_COLOR=1"}), "\x1b")
	assert.NotContains(t, captured(nil, "--color", "never"), "\x1b")
}

// approving returns a home whose ledger tool needs an approval. The model calls it with arguments that could mislead
// the operator.
func approving(t *testing.T, effects string) (*home, *fakellm.Server) {
	t.Helper()
	arguments := "{\"text\":\"one \\u001b[2J \u202etwo\u009b31m \u200b" + strings.Repeat("and so on ", 60) + "the end\"}"
	model := fakellm.Start(t, fakellm.Steps(fakellm.Call("mcp_ledger_append", arguments).WithText("I write."),
		fakellm.Text("Done with it.")))
	h := newHome(t, asking(model)+"[policy]\nask = [\"mcp/ledger/append\"]\n"+hosting(t, "ledger", "", "-ledger", effects))
	h.worker()
	return h, model
}

func TestChatAsksBeforeACall(t *testing.T) {
	t.Parallel()
	effects := t.TempDir() + "/effects"
	h, _ := approving(t, effects)
	s := h.chat(60, 15, nil)
	s.ready()
	s.says("Write it.")
	s.shows("Allow mcp/ledger/append?", "y")
	s.shows(`\u202e`)
	s.awaitKeys()
	s.press("End")
	s.shows(`the end"}`)
	s.press("Home")
	s.shows(`{"text":"one \u001b[2J`)
	s.shows("Allow mcp/ledger/append?")
	require.NoFileExists(t, effects)
	s.allows()
	s.shows("Done with it.")
	s.shows("allowed by")
	s.ready()
	b, err := os.ReadFile(effects)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(b), "effect"), "%s", b)
}

func TestChatAnswersAToolsServer(t *testing.T) {
	t.Parallel()
	effects := t.TempDir() + "/effects"
	h := newHome(t, asking(fakellm.Start(t, confirming("gift")))+hosting(t, "ledger", "", "-ledger", effects))
	h.worker()
	s := h.chat(60, 15, nil)
	s.ready()
	s.says("Confirm it.")
	s.shows("1/2 note (text)")
	s.awaitKeys()
	s.says("for Ann")
	s.shows("2/2 sure (yes or")
	s.press("Home", "Enter")
	s.shows("send it?")
	s.press("Enter")
	s.shows("It is confirmed.")
	s.shows("· answered by")
	s.ready()
	b, err := os.ReadFile(effects)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(b), `"effect"`), "%s", b)
}

func TestChatDeniesWithAReasonAndKeepsRules(t *testing.T) {
	t.Parallel()
	call := fakellm.Call("mcp_ledger_append", `{"text":"x"}`)
	model := fakellm.Start(t, fakellm.Cases(
		fakellm.When("first", fakellm.Steps(call, fakellm.Text("So be it."))),
		fakellm.When("second", fakellm.Steps(call, fakellm.Text("Written."))),
		fakellm.When("third", fakellm.Steps(call, fakellm.Text("Written again."))),
	))
	h := newHome(t, asking(model)+"[policy]\nask = [\"mcp/ledger/append\"]\n"+hosting(t, "ledger", "trust = true"))
	h.worker()
	s := h.chat(80, 40, nil)
	s.ready()
	s.says("the first")
	s.awaitKeys()
	s.press("r")
	s.shows("type the reason")
	s.says("not on a Friday")
	s.shows("So be it.")
	s.shows("· denied by", "not on a Friday")
	s.ready()
	requests := model.Requests()
	assert.Contains(t, requests[len(requests)-1].Chat.Last("tool").Content, "not on a Friday", "the model is told why")
	s.says("the second")
	s.awaitKeys()
	s.press("t")
	s.shows("Written.")
	s.shows("every later call of this tool")
	s.ready()
	s.says("the third")
	s.shows("Written again.")
	assert.Equal(t, 2, s.times("· denied by")+s.times("· allowed by"), "the third was not asked for")
}

func TestChatTakesAnAnswer(t *testing.T) {
	t.Parallel()
	h := newHome(t, asking(fakellm.Start(t, fakellm.Cases(
		fakellm.When("blue", fakellm.Text("Blue it is.")),
		fakellm.When("", fakellm.Call("ask_user", `{"question":"Which \u001b[2Jcolour?"}`)),
	))))
	h.worker()
	s := h.chat(60, 15, nil)
	s.ready()
	s.says("Paint it.")
	s.shows("Which [2Jcolour?", "question:")
	s.says("blue")
	s.shows("Blue it is.")
	s.ready()
	s.shows("› blue", "answered")
}

func TestChatStopsATurn(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	model := fakellm.Start(t, fakellm.Cases(fakellm.When("again", fakellm.Text("Gladly.")),
		fakellm.When("", fakellm.Text("It takes its time.").Hold(3, gate))))
	h := newHome(t, asking(model))
	h.worker()
	s := h.chat(60, 15, nil)
	s.ready()
	s.says("Slowly.")
	s.shows("It takes")
	s.press("C-c")
	s.shows("press Ctrl-C again")
	s.press("C-c")
	s.shows("cancelled")
	s.ready()
	s.shows("It takes")
	s.says("And again.")
	s.shows("Gladly.")
	s.ready()
	s.press("C-c")
	s.shows("press Ctrl-C again")
	s.press("C-c")
	s.leaves(0)
}

func TestChatLeavesATurnRunning(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	h := newHome(t, asking(fakellm.Start(t, fakellm.Text("It takes its time.").Hold(3, gate))))
	h.worker()
	id := named("left-running")
	s := h.chat(80, 24, nil, "-s", id)
	s.ready()
	s.says("Slowly.")
	s.shows("It takes")
	s.press("C-d")
	s.leaves(0)
	s.shows("the turn continues; resume with `starter chat -s " + id + "`")
	again := h.chat(80, 24, nil, "-s", id)
	again.shows("It takes", "answering")
	gate.Release()
	again.shows("It takes its time.")
	again.ready()
}

func TestTwoChatsShareASession(t *testing.T) {
	t.Parallel()
	effects := t.TempDir() + "/effects"
	h, _ := approving(t, effects)
	id := named("shared")
	one := h.chat(80, 24, nil, "-s", id)
	one.ready()
	two := h.chat(60, 20, nil, "-s", id)
	two.ready()
	one.says("Write it.")
	two.shows("» Write it.", "Allow mcp/ledger/append?")
	one.awaitKeys()
	two.allows()
	for _, s := range []*screen{one, two} {
		s.shows("Done with it.")
		s.ready()
		s.shows("· allowed by")
		assert.Zero(t, s.times("Allow mcp/ledger/append?"))
	}
	two.says("And thank you.")
	one.shows("» And thank you.")
	b, err := os.ReadFile(effects)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(b), "effect"), "%s", b)
}

func TestChatSteersAndQueues(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	model := fakellm.Start(t, fakellm.Cases(
		fakellm.When("later", fakellm.Text("Now to the later one.")),
		fakellm.When("steer", fakellm.Text("Steered.")),
		fakellm.When("", fakellm.Steps(fakellm.Call("local_list_files", `{}`).WithText("I look around.").Hold(3, gate),
			fakellm.Text("Unsteered."))),
	))
	h := newHome(t, asking(model))
	h.worker()
	s := h.chat(80, 24, nil)
	s.ready()
	s.says("Begin.")
	s.shows("I look")
	s.says("/queue the later one")
	s.shows("the later one · queued")
	s.says("please steer left")
	s.shows("please steer left · accepted")
	gate.Release()
	s.shows("Steered.")
	s.shows("Now to the later one.")
	s.ready()
	all := s.visible()
	assert.Less(t, strings.Index(all, "› please steer left"), strings.Index(all, "Steered."))
	assert.Less(t, strings.Index(all, "Steered."), strings.Index(all, "› the later one"))
	assert.NotContains(t, all, "Unsteered.")
}

func TestChatCommands(t *testing.T) {
	t.Parallel()
	h := newHome(t, asking(fakellm.Start(t, lookAndAnswer(fakellm.Text("It is a test.").Usage(20, 5, 0)))))
	h.worker()
	id := named("commands")
	s := h.chat(80, 40, nil, "-s", id)
	s.ready()
	s.says("/fork")
	s.shows("this session has no messages yet")
	s.says("What is this?")
	s.shows("It is a test.")
	s.ready()
	for command, answer := range map[string]string{
		"/toolz":         "there is no command /toolz; /help lists them",
		"/tools":         "local/list_files · low risk",
		"/model":         "model: scripted; new turns use scripted",
		"/open":          "/namespaces/default/workflows/" + id + "/",
		"/stop":          "no turn is running",
		"/fork 2":        "the session cannot be forked there",
		"/fork x":        `"x" is not a message number`,
		"/sessions gone": `the journal has no session "gone"`,
		"/help":          "continue in a new session",
		"/stop now":      "/stop takes no argument",
	} {
		s.press("C-u")
		s.says(command)
		s.shows(answer)
	}
	s.press("C-u")
	s.says("/fork")
	s.shows("forked " + id + " at message 4")
	s.says("/sessions")
	s.shows("/sessions N switches to one")
	s.says("/sessions " + id)
	s.shows("session " + id + ", 1 turn")
	s.fits()
}

func TestChatKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	model := fakellm.Start(t, fakellm.Text("Yes."))
	h := newHome(t, asking(model))
	h.worker()
	s := h.chat(80, 24, nil)
	s.ready()
	s.types("one")
	s.press("C-j")
	s.types("two")
	s.press("M-Enter")
	s.says("three")
	s.shows("Yes.")
	s.ready()
	s.pastes("pasted\nlines")
	s.shows("> pasted")
	s.press("Enter")
	s.shows("› pasted")
	s.ready()
	long := strings.Repeat("a long line of a paste\tand its end\n", 400)
	s.pastes(long + "last")
	s.shows("[paste 1: 401 lines]")
	s.press("Enter")
	s.shows("and its end")
	s.ready()
	said := said(model.Requests()[2].Chat)
	assert.Equal(t, []string{"one\ntwo\nthree", "Yes.", "pasted\nlines", "Yes.", long + "last"}, said)
	s.press("C-d")
	s.leaves(0)
	again := h.chat(80, 24, nil)
	again.ready()
	again.press("Up")
	again.shows("> [paste 1: 401 lines]")
	again.press("C-c") // the chat keeps the cleared input in its history
	again.shows("input cleared")
	again.press("Up", "Up")
	again.shows("> pasted")
	again.press("Up", "Up")
	again.shows("> one > two > three")
}

func TestChatNeedsATerminal(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	c := h.starter("chat").exits(3)
	assert.Contains(t, c.err.String(), "use `starter run")
	both := h.starter("chat", "-c", "-s", "x").exits(3)
	assert.Contains(t, both.err.String(), "use one of them")
	s := h.chat(80, 24, []string{"TERM=dumb"})
	s.leaves(3)
	s.shows("move its cursor", "use `starter run")
}

func TestChatRunsWithItsOwnWorker(t *testing.T) {
	h := newDevHome(t)
	s := h.chat(80, 24, nil, "--dev")
	s.ready()
	s.says("Who is the lighthouse keeper?")
	s.shows("The lighthouse keeper is called Ottoline.")
	s.ready()
	s.press("C-d")
	s.leaves(0)
	s.shows("starter chat --dev -s")
}
