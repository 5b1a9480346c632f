package tests

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/fakellm"
)

const askingToRead = "[policy]\nask = [\"local/read_file\"]\n"

// readAndAnswer reads a file, which needs an approval, and then answers.
func readAndAnswer() fakellm.Script {
	return fakellm.Steps(fakellm.Call("local_read_file", `{"path":"agent.toml"}`), fakellm.Text("It is read."))
}

func TestCLIAsksOnATerminal(t *testing.T) {
	t.Parallel()
	h := newHome(t, asking(fakellm.Start(t, fakellm.Cases(
		fakellm.When("blue", fakellm.Text("Blue it is.")),
		fakellm.When("both", fakellm.Steps(fakellm.Calls(fakellm.ToolCall{Name: "local_read_file", Arguments: `{"path":"agent.toml"}`},
			fakellm.ToolCall{Name: "local_read_file", Arguments: `{"path":"./agent.toml"}`}), fakellm.Text("Both are read."))),
		fakellm.When("colour", fakellm.Call("ask_user", `{"question":"Which \u001b[31mcolour?"}`)),
		fakellm.When("", readAndAnswer()),
	)))+askingToRead)
	h.worker()

	c, keys := h.onTerminal("run", "-s", "yes", "Read it.")
	c.says("approval 1.0 of session yes: call local/read_file")
	c.says("always this [t]ool: ")
	typeIn(t, keys, "perhaps\n")
	require.Eventually(t, func() bool { return strings.Count(c.out.String(), "[y]es") == 2 }, within, 5*time.Millisecond,
		"what is no word of these is asked again")
	typeIn(t, keys, "y\n")
	c.exits(0).says("It is read.")
	assert.Contains(t, h.starter("show", "yes").exits(0).out.String(),
		"? 1.0 local/read_file {\"path\":\"agent.toml\"} · allowed by ")

	c, keys = h.onTerminal("run", "-s", "no", "Read it.")
	c.says("[y]es")
	typeIn(t, keys, "n not today\n")
	c.exits(0)
	assert.Regexp(t, `denied by .*: not today`, h.starter("show", "no").exits(0).out.String())

	c, keys = h.onTerminal("run", "-s", "always", "Read it.")
	c.says("[y]es")
	typeIn(t, keys, "t\n")
	c.exits(0)
	c, _ = h.onTerminal("run", "-s", "always", "Read it again.")
	c.exits(0).says("It is read.")
	assert.NotContains(t, c.out.String(), "[y]es", "the tool was allowed for good")

	c, keys = h.onTerminal("run", "-s", "siblings", "Read both.")
	c.says("[y]es")
	typeIn(t, keys, "t\n")
	c.exits(0).says("Both are read.")
	assert.Equal(t, 1, strings.Count(c.out.String(), "[y]es"), "the grant allows the call that waited, too")
	h.starter("run", "-s", "siblings-later", "Read both.").exits(6)
	later := h.starter("approve", "siblings-later", "1.0", "-y", "--always", "tool").exits(0)
	assert.Contains(t, later.err.String(), "allowed 1.1, too")
	h.starter("attach", "siblings-later").exits(0)

	c, keys = h.onTerminal("run", "-s", "asked-here", "My colour?")
	c.says(`Which \x1b[31mcolour?`)
	typeIn(t, keys, "\nblue, please\n")
	c.exits(0).says("Blue it is.")
}

func TestCLIApprovesOnATerminal(t *testing.T) {
	t.Parallel()
	h := newHome(t, asking(fakellm.Start(t, readAndAnswer()))+askingToRead)
	h.worker()
	h.starter("run", "-s", "seen", "Read it.").exits(6)
	c, keys := h.onTerminal("approve", "seen")
	c.says(`  │ {"path":"agent.toml"}`)
	c.says("allow it?")
	typeIn(t, keys, "\n")
	c.exits(0).says("1.0 is not decided")
	h.starter("attach", "--no-wait", "seen").exits(6)
	c, keys = h.onTerminal("approve", "seen", "1.0")
	c.says("allow it?")
	typeIn(t, keys, "yes\n")
	c.exits(0).says("allowed 1.0 local/read_file")
	assert.Equal(t, "It is read.\n", h.starter("attach", "-q", "seen").exits(0).out.String())
}

// TestCLIShowsAllOfACallBeforeItAsks makes a call with about 100,000 bytes of arguments whose last bytes matter.
func TestCLIShowsAllOfACallBeforeItAsks(t *testing.T) {
	t.Parallel()
	arguments := `{"path":"` + strings.Repeat("notes/", 17000) + `../../etc/shadow"}`
	h := newHome(t, asking(fakellm.Start(t, fakellm.Steps(fakellm.Call("local_read_file", arguments),
		fakellm.Text("It is read."))))+askingToRead)
	h.worker()
	h.starter("run", "-s", "tail", "Read it.").exits(6)

	assert.True(t, strings.Contains(h.starter("approvals", "tail").exits(0).out.String(), "/etc/shadow"), "the list")
	listed := decoded[[]journal.RequestRecord](h.starter("approvals", "tail", "-o", "json").exits(0))
	require.Len(t, listed, 1)
	assert.True(t, listed[0].Arguments == arguments, "%d bytes", len(listed[0].Arguments))
	assert.Equal(t, journal.HashOf([]byte(arguments)), listed[0].ArgumentsHash)
	assert.True(t, strings.Contains(h.starter("show", "tail", "-o", "json").exits(0).out.String(), "/etc/shadow"), "show")

	c, keys := h.onTerminal("approve", "tail")
	leafThrough(t, c, keys, "allow it?")
	assert.True(t, strings.Contains(c.out.String(), "/etc/shadow"), "the prompt")
	typeIn(t, keys, "n\n")
	c.exits(0)

	c, keys = h.onTerminal("attach", "tail")
	leafThrough(t, c, keys, "[y]es")
	assert.True(t, strings.Contains(c.out.String(), "/etc/shadow"), "the prompt")
	typeIn(t, keys, "n\n")
	c.exits(0)
}

// leafThrough shows page after page until the command asks the question.
func leafThrough(t *testing.T, c *command, keys io.Writer, question string) {
	t.Helper()
	for pages := 1; ; pages++ {
		require.Eventually(t, func() bool {
			said := c.out.String()
			return strings.Count(said, "more; Enter shows them") >= pages || strings.Contains(said, question)
		}, within, 5*time.Millisecond)
		if strings.Contains(c.out.String(), question) {
			return
		}
		typeIn(t, keys, "\n")
	}
}

func TestCLIDoesNotTakeWhatWasTypedBeforeItAsked(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	h := newHome(t, asking(fakellm.Start(t, fakellm.Steps(
		fakellm.Call("local_read_file", `{"path":"agent.toml"}`).Hold(1, gate), fakellm.Text("It is read."),
	)))+askingToRead)
	h.worker()
	c, keys := h.onTerminal("run", "-s", "early", "Read it.")
	awaitGate(t, gate)
	typeIn(t, keys, "y\n")
	c.says("y\r\n") // the terminal has received the key
	gate.Release()
	c.says("[y]es")
	h.starter("attach", "--no-wait", "early").exits(6)
	typeIn(t, keys, "n\n")
	c.exits(0)
	assert.Contains(t, h.starter("show", "early").out.String(), "· denied by ")
}

func TestCLICtrlCWhileAQuestionIsShown(t *testing.T) {
	t.Parallel()
	h := newHome(t, asking(fakellm.Start(t, readAndAnswer()))+askingToRead)
	h.worker()
	c, keys := h.onTerminal("run", "-s", "left", "Read it.")
	c.says("[y]es")
	typeIn(t, keys, "\x03")
	c.exits(0).says("Follow it with `starter attach left`")
	h.starter("attach", "--no-wait", "left").exits(6)

	c, keys = h.onTerminal("attach", "left")
	c.says("[y]es")
	typeIn(t, keys, "\x03")
	c.says("press Ctrl-C again to stop it")
	c.pressedUntilItEnds(func() { _, _ = io.WriteString(keys, "\x03") }) // the command may have exited meanwhile
	c.exits(2)
	assert.Contains(t, h.starter("show", "left").out.String(), "· cancelled (")
	h.starter("approve", "left", "1.0").exits(3)
}

func TestCLIIsToldWhatWasDecidedElsewhere(t *testing.T) {
	t.Parallel()
	h := newHome(t, asking(fakellm.Start(t, readAndAnswer()))+askingToRead)
	h.worker()
	c, _ := h.onTerminal("run", "-s", "elsewhere", "Read it.")
	c.says("[y]es")
	h.starter("approve", "elsewhere", "1.0", "-y").exits(0)
	c.says("decided elsewhere")
	c.exits(0).says("It is read.")
}

// TestCLITakesOneOfTwoDecisions makes two operators decide at the same time, repeatedly.
func TestCLITakesOneOfTwoDecisions(t *testing.T) {
	t.Parallel()
	h := newHome(t, asking(fakellm.Start(t, readAndAnswer()))+askingToRead)
	h.worker()
	for i := range 3 {
		session := fmt.Sprintf("conflict-%d", i)
		h.starter("run", "-s", session, "Read it.").exits(6)
		var wg sync.WaitGroup
		var allow, deny *command
		wg.Go(func() { allow = h.starter("approve", session, "1.0", "-y") })
		wg.Go(func() { deny = h.starter("deny", session, "1.0") })
		wg.Wait()
		assert.ElementsMatch(t, []int{0, 3}, []int{allow.code(), deny.code()}, "%s\n%s", allow.err.String(),
			deny.err.String())
		taken, refused, outcome := allow, deny, "allowed by"
		if deny.code() == 0 {
			taken, refused, outcome = deny, allow, "denied by"
		}
		assert.Contains(t, refused.err.String(), "already")
		assert.Contains(t, refused.err.String(), "the first decision stands")
		assert.NotContains(t, taken.err.String(), "already")
		h.starter("attach", session).exits(0)
		assert.Contains(t, h.starter("show", session).out.String(), outcome)
	}
}

func TestCLIApprovesTooLate(t *testing.T) {
	t.Parallel()
	h := newHome(t, asking(fakellm.Start(t, readAndAnswer()))+askingToRead+"[approvals]\napproval_expiry = \"1s\"\n")
	h.worker()
	late := h.starter("run", "--wait", "-s", "late", "Read it.").exits(0)
	assert.Contains(t, late.err.String(), "expires ")
	refused := h.starter("approve", "late", "1.0").exits(3)
	assert.Contains(t, refused.err.String(), "already decided: expired")
	assert.Contains(t, h.starter("show", "late").out.String(), "local/read_file {\"path\":\"agent.toml\"} · expired (")
}

// TestCLIDecidesWhileNoWorkerRuns checks that the command soon reports that no worker runs, and that the decision
// counts once one does.
func TestCLIDecidesWhileNoWorkerRuns(t *testing.T) {
	t.Parallel()
	h := newHome(t, asking(fakellm.Start(t, readAndAnswer()))+askingToRead)
	w := h.worker()
	h.starter("run", "-s", "unattended", "Read it.").exits(6)
	h.starter("run", "-s", "unattended-stop", "Read it.").exits(6)
	w.signal(syscall.SIGTERM)
	w.exits(0)
	approve := h.begin(nil, "approve", "unattended", "--all", "-y")
	stop := h.begin(nil, "stop", "unattended-stop")
	approve.says("no worker has answered yet")
	stop.says("no worker has answered yet")
	h.worker()
	approve.exits(0).says("allowed 1.0")
	stop.exits(0).says("is cancelled")
	assert.Equal(t, "It is read.\n", h.starter("attach", "-q", "unattended").exits(0).out.String())
}

func TestCLIDetachesFromATurnThatItOnlyWatches(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	h := newHome(t, asking(fakellm.Start(t, fakellm.Text("It takes its time.").Hold(2, gate))))
	h.worker()
	run := h.begin(nil, "run", "-q", "-s", "watched", "Slowly.")
	awaitGate(t, gate)
	away := h.begin(nil, "attach", "--set", "temporal.address=127.0.0.1:1", "watched")
	away.says("Temporal is unreachable")
	left := h.begin(nil, "attach", "--set", "temporal.address=127.0.0.1:1", "-o", "jsonl", "watched")
	left.says("turn_started")
	left.signal(syscall.SIGINT)
	assert.NotContains(t, left.exits(0).err.String(), "to stop it")
	gate.Release()
	assert.Equal(t, "It takes its time.\n", run.exits(0).out.String())
	assert.Equal(t, "It takes its time.\n", away.exits(0).out.String(),
		"the journal is enough to follow a turn to its end")
}

// TestCLISendsForATurnOfItsOwn closes a run as continued: a client that follows the first turn sees its end and nothing
// more.
func TestCLISendsForATurnOfItsOwn(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	h := newHome(t, asking(fakellm.Start(t, fakellm.Cases(
		fakellm.When("first", fakellm.Text("One.").Hold(1, gate)), fakellm.When("second", fakellm.Text("Two.")),
	))))
	h.worker()
	first := h.begin(nil, "run", "-q", "-s", "turns", "first")
	awaitGate(t, gate)
	reader := h.begin(nil, "attach", "-o", "jsonl", "turns")
	reader.says("turn_started")
	sent := decoded[ids](h.starter("send", "-o", "json", "--queue", "turns", "second").exits(0))
	gate.Release()
	assert.Equal(t, "One.\n", first.exits(0).out.String())
	for _, e := range decodedLines[event](reader.exits(0)) {
		assert.Equal(t, sent.Turn, e.Turn)
	}
	assert.Equal(t, "Two.\n", h.starter("attach", "-q", "turns").exits(0).out.String(),
		"the session's next turn, which Temporal knows before the journal does")
	assert.Equal(t, "One.\n", h.starter("attach", "-q", "--turn", sent.Turn, "turns").exits(0).out.String())
}

func typeIn(t *testing.T, keys io.Writer, text string) {
	t.Helper()
	_, err := io.WriteString(keys, text)
	require.NoError(t, err)
}
