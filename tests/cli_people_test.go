package tests

import (
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/fakellm"
)

const askingToRead = "[policy]\nask = [\"local/read_file\"]\n"

// readAndAnswer reads a file, which needs an approval, and then answers.
func readAndAnswer() fakellm.Script {
	return fakellm.Steps(fakellm.Call("local_read_file", `{"path":"agent.toml"}`), fakellm.Text("It is read."))
}

func TestCLIAsksOnATerminal(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, asking(fakellm.Start(t, fakellm.Cases(
		fakellm.When("blue", fakellm.Text("Blue it is.")),
		fakellm.When("both",
			fakellm.Steps(fakellm.Calls(fakellm.ToolCall{Name: "local_read_file", Arguments: `{"path":"agent.toml"}`},
				fakellm.ToolCall{Name: "local_read_file", Arguments: `{"path":"./agent.toml"}`}), fakellm.Text("Both are read."))),
		fakellm.When("colour", fakellm.Call("ask_user", `{"question":"Which \u001b[31mcolour?"}`)),
		fakellm.When("", readAndAnswer()),
	)))+askingToRead)
	h.worker()

	c, keys := h.onTerminal("run", "-s", "yes", "Read it.")
	c.says("approval 1.0 of session yes: call local/read_file")
	c.says("[t] always this tool: ")
	typeIn(t, keys, "perhaps\n")
	require.Eventually(t, func() bool { return strings.Count(c.out.String(), "[y] allow") == 2 }, within,
		5*time.Millisecond,
		"what is no word of these is asked again")
	typeIn(t, keys, "y\n")
	c.exits(0).says("It is read.")
	assert.Contains(t, h.everturn("show", "yes").exits(0).out.String(),
		"? 1.0 read agent.toml · allowed by ")

	c, keys = h.onTerminal("run", "-s", "no", "Read it.")
	c.says("[y] allow")
	typeIn(t, keys, "n not today\n")
	c.exits(0)
	assert.Regexp(t, `denied by .*: not today`, h.everturn("show", "no").exits(0).out.String())

	c, keys = h.onTerminal("run", "-s", "always", "Read it.")
	c.says("[y] allow")
	typeIn(t, keys, "t\n")
	c.exits(0)
	c, _ = h.onTerminal("run", "-s", "always", "Read it again.")
	c.exits(0).says("It is read.")
	assert.NotContains(t, c.out.String(), "[y] allow", "the tool was allowed for good")

	c, keys = h.onTerminal("run", "-s", "siblings", "Read both.")
	c.says("[y] allow")
	typeIn(t, keys, "t\n")
	c.exits(0).says("Both are read.")
	assert.Equal(t, 1, strings.Count(c.out.String(), "[y] allow"), "the grant allows the call that waited, too")
	h.everturn("run", "-s", "siblings-later", "Read both.").exits(6)
	later := h.everturn("approve", "siblings-later", "1.0", "-y", "--always", "tool").exits(0)
	assert.Contains(t, later.err.String(), "allowed 1.1, too")
	h.everturn("attach", "siblings-later").exits(0)

	c, keys = h.onTerminal("run", "-s", "asked-here", "My colour?")
	c.says(`Which \x1b[31mcolour?`)
	typeIn(t, keys, "\nblue, please\n")
	c.exits(0).says("Blue it is.")
}

func TestCLIApprovesOnATerminal(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, asking(fakellm.Start(t, readAndAnswer()))+askingToRead)
	h.worker()
	h.everturn("run", "-s", "seen", "Read it.").exits(6)
	c, keys := h.onTerminal("approve", "seen")
	c.says(`  │ {"path":"agent.toml"}`)
	c.says("allow it?")
	typeIn(t, keys, "\n")
	c.exits(0).says("1.0 is not decided")
	h.everturn("attach", "--no-wait", "seen").exits(6)
	c, keys = h.onTerminal("approve", "seen", "1.0")
	c.says("allow it?")
	typeIn(t, keys, "yes\n")
	c.exits(0).says("allowed 1.0 local/read_file")
	assert.Equal(t, "It is read.\n", h.everturn("attach", "-q", "seen").exits(0).out.String())
}

func TestCLIDoesNotTakeWhatWasTypedBeforeItAsked(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	h := newUserFolder(t, asking(fakellm.Start(t, fakellm.Steps(
		fakellm.Call("local_read_file", `{"path":"agent.toml"}`).Hold(1, gate), fakellm.Text("It is read."),
	)))+askingToRead)
	h.worker()
	c, keys := h.onTerminal("run", "-s", "early", "Read it.")
	awaitGate(t, gate)
	typeIn(t, keys, "y\n")
	c.says("y\r\n") // the terminal has received the key
	gate.Release()
	c.says("[y] allow")
	h.everturn("attach", "--no-wait", "early").exits(6)
	typeIn(t, keys, "n\n")
	c.exits(0)
	assert.Contains(t, h.everturn("show", "early").out.String(), "· denied by ")
}

func TestCLICtrlCWhileAQuestionIsShown(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, asking(fakellm.Start(t, readAndAnswer()))+askingToRead)
	h.worker()
	c, keys := h.onTerminal("run", "-s", "left", "Read it.")
	c.says("[y] allow")
	typeIn(t, keys, "\x03")
	c.exits(0).says("Follow it with `everturn attach left`")
	h.everturn("attach", "--no-wait", "left").exits(6)

	c, keys = h.onTerminal("attach", "left")
	c.says("[y] allow")
	typeIn(t, keys, "\x03")
	c.says("press Ctrl-C again to stop it")
	c.pressedUntilItEnds(func() { _, _ = io.WriteString(keys, "\x03") }) // the command may have exited meanwhile
	c.exits(2)
	assert.Contains(t, h.everturn("show", "left").out.String(), "· cancelled (")
	h.everturn("approve", "left", "1.0").exits(3)
}

// TestCLIDecidesWhileNoWorkerRuns checks that the command soon reports that no worker runs, and that the decision
// counts once one does.
func TestCLIDecidesWhileNoWorkerRuns(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, asking(fakellm.Start(t, readAndAnswer()))+askingToRead)
	w := h.worker()
	h.everturn("run", "-s", "unattended", "Read it.").exits(6)
	h.everturn("run", "-s", "unattended-stop", "Read it.").exits(6)
	w.signal(syscall.SIGTERM)
	w.exits(0)
	approve := h.begin(nil, "approve", "unattended", "--all", "-y")
	stop := h.begin(nil, "stop", "unattended-stop")
	approve.says("no worker has answered yet")
	stop.says("no worker has answered yet")
	h.worker()
	approve.exits(0).says("allowed 1.0")
	stop.exits(0).says("is cancelled")
	assert.Equal(t, "It is read.\n", h.everturn("attach", "-q", "unattended").exits(0).out.String())
}

func typeIn(t *testing.T, keys io.Writer, text string) {
	t.Helper()
	_, err := io.WriteString(keys, text)
	require.NoError(t, err)
}

// TestCLISendsResults runs a turn with a tool of agent.toml that a client runs.
func TestCLISendsResults(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, asking(fakellm.Start(t, fakellm.Steps(fakellm.Call("client_ticket", `{"title":"Lamp"}`),
		fakellm.Text("It is open."))))+
		"[[client_tools]]\nname = \"ticket\"\nschema = "+
		"'{\"type\":\"object\",\"properties\":{\"title\":{\"type\":\"string\"}}}'\n")
	h.worker()
	h.everturn("run", "-s", "ticket", "Open a ticket.").exits(6).says("everturn result ticket 1.0")
	h.everturn("approvals").exits(0).says(`{"title":"Lamp"}`)
	h.everturn("result", "ticket", "2.0", "no").exits(3)
	h.everturn("result", "ticket", "1.0", "Number 4711").exits(0)
	h.everturn("attach", "ticket").exits(0).says("It is open.")
	h.everturn("result", "ticket", "1.0", "Number 4711").exits(0)
	h.everturn("result", "ticket", "1.0", "Number 4712").exits(3)
}
