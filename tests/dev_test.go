package tests

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/internal/devserver"
	"github.com/everturn/everturn/internal/statedir"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/workflows"
)

// The tests of this file start whole stacks, as `everturn run --dev` and `everturn dev` do for a user.

func TestDevAnswersAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	h := newDevUserFolder(t)
	first := h.everturn("run", "--dev", "-s", "one", "Who is in notes.txt?").exits(0)
	assert.Contains(t, first.out.String(), "The lighthouse keeper is called Ottoline.")
	assert.Contains(t, first.err.String(), "started a Temporal server on "+h.address)
	h.deserted()
	entries, err := os.ReadDir(h.dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	assert.Equal(t, []string{".everturn", "agent.toml", "notes.txt"}, names)
	ignored, err := os.ReadFile(h.path(".everturn/.gitignore"))
	require.NoError(t, err)
	assert.Equal(t, "*\n", string(ignored))

	second := h.everturn("run", "--dev", "-q", "-c", "And again, notes.txt?").exits(0)
	assert.Contains(t, second.out.String(), "Ottoline")
	assert.Empty(t, second.err.String(), "quiet is quiet")
	h.deserted()
	assert.Regexp(t, `one +2 +\$0\.00 +completed`, h.everturn("list").exits(0).out.String())
}

func TestDevIsSharedAndTheLastOneOutStopsIt(t *testing.T) {
	t.Parallel()
	h := newDevUserFolder(t)
	a, b := h.begin(nil, "dev", "--no-worker"), h.begin(nil, "dev")
	a.says("press Ctrl-C to exit")
	b.says("press Ctrl-C to exit")
	_, server := h.up()
	checkNamespace(t, h)

	a.signal(syscall.SIGINT)
	a.exits(0)
	run := h.everturn("run", "Who is in notes.txt?").exits(0)
	assert.Contains(t, run.out.String(), "Ottoline", "the other one's worker answers")
	joined := h.everturn("run", "--dev", "Who is in notes.txt?").exits(0)
	assert.Contains(t, joined.err.String(), "that already listens on "+h.address)
	_, still := h.up()
	assert.Equal(t, server, still)

	b.signal(syscall.SIGKILL)
	h.deserted()
}

// checkNamespace checks the namespace settings that turns need from the server that --dev starts.
func checkNamespace(t *testing.T, h *userFolder) {
	t.Helper()
	c := h.dial()
	d, err := c.WorkflowService().DescribeNamespace(t.Context(),
		&workflowservice.DescribeNamespaceRequest{Namespace: "default"})
	require.NoError(t, err)
	assert.Equal(t, 30*24*time.Hour, d.Config.WorkflowExecutionRetentionTtl.AsDuration())
	have, err := c.OperatorService().ListSearchAttributes(t.Context(),
		&operatorservice.ListSearchAttributesRequest{Namespace: "default"})
	require.NoError(t, err)
	for _, key := range workflows.SearchAttributes() {
		assert.Equal(t, key.GetValueType(), have.CustomAttributes[key.GetName()], key.GetName())
	}
	other := temporal.NewSearchAttributeKeyInt64(workflows.AttrSession.GetName())
	err = temporalconn.EnsureAttributes(t.Context(), c, "default", []temporal.SearchAttributeKey{other})
	assert.ErrorContains(t, err, "temporal operator search-attribute remove",
		"a name that is taken is not used with another type")
}

func TestDevServerDiesWithItsSupervisorAndIsStartedAgain(t *testing.T) {
	t.Parallel()
	h := newDevUserFolder(t)
	dev := h.begin(nil, "dev", "--no-worker")
	dev.says("press Ctrl-C to exit")
	supervisor, server := h.up()
	require.NoError(t, syscall.Kill(supervisor, syscall.SIGKILL))
	gone(t, server)
	h.deserted()
	again := h.everturn("run", "--dev", "Who is in notes.txt?").exits(0)
	assert.Contains(t, again.out.String(), "Ottoline")
	assert.Contains(t, again.err.String(), "started a Temporal server")
	h.up() // the first command still uses the stack
	dev.signal(syscall.SIGTERM)
	dev.exits(0)
}

func TestDevRefusesWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	stranger, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer stranger.Close()
	go func() {
		for {
			conn, err := stranger.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	h := newDevUserFolderAt(t, stranger.Addr().String())
	other := h.everturn("run", "--dev", "hello").exits(3)
	assert.Contains(t, other.err.String(), "something that is not Temporal listens on "+h.address)
	h.environ = append(h.environ, "TEMPORAL_TLS=false")
	elsewhere := h.everturn("run", "--dev", "--set", "temporal.address=192.0.2.1:7233", "hello").exits(3)
	assert.Contains(t, elsewhere.err.String(), "--dev never uses a Temporal that is not on this machine")

	h = newDevUserFolder(t)
	require.NoError(t, statedir.Secure(h.path(".everturn")))
	h.write(".everturn/temporal.version", "1.19.0\n")
	h.write(".everturn/temporal.db", "of another version")
	older := h.everturn("run", "--dev", "hello").exits(3)
	assert.Contains(t, older.err.String(), "was written by Temporal server 1.19.0 and this one is 1.")
	assert.Contains(t, older.err.String(), "move "+".everturn/temporal.db* away")

	h = newDevUserFolder(t)
	h.environ = []string{"PATH=/nowhere", "HOME=" + h.dir}
	missing := h.everturn("run", "--dev", "hello").exits(5)
	assert.Contains(t, missing.err.String(), "install the Temporal CLI")
	h.environ[0] = "PATH=" + h.dir
	h.write("temporal", "#!/bin/sh\necho 'temporal version 0.1 (Server 1.20.0)'\n")
	require.NoError(t, os.Chmod(h.path("temporal"), 0o700))
	old := h.everturn("run", "--dev", "hello").exits(5)
	assert.Contains(t, old.err.String(), "is not used (its server is 1.20.0)")
}

func TestDevSaysWhyTheServerDidNotStart(t *testing.T) {
	t.Parallel()
	h := newDevUserFolder(t)
	ui := devserver.UIAddress(h.address)
	taken, err := net.Listen("tcp", ui)
	require.NoError(t, err)
	defer taken.Close()
	got := h.everturn("run", "--dev", "hello").exits(5)
	assert.Contains(t, got.err.String(), "the Temporal server did not start")
	assert.Contains(t, got.err.String(), ui[len("127.0.0.1:"):], "the server's own words")
}

func TestDevUsesATemporalThatIsThereAndLeavesItRunning(t *testing.T) {
	t.Parallel()
	h := newDevUserFolderAt(t, stack.Address)
	got := h.everturn("run", "--dev", "--set", fmt.Sprintf("temporal.task_queue=guest-%d", time.Now().UnixNano()),
		"Who is in notes.txt?").exits(0)
	assert.Contains(t, got.out.String(), "Ottoline")
	assert.Contains(t, got.err.String(), "that already listens on "+stack.Address)
	h.dial()
}

// TestDevTakesFreePortsInASecondFolder checks that two folders whose settings name no address each get a server: the
// second one picks free ports and keeps them.
func TestDevTakesFreePortsInASecondFolder(t *testing.T) {
	t.Parallel()
	folder := func() *userFolder {
		h := newDevUserFolderAt(t, "")
		h.write("agent.toml", "[llm]\nprovider = \"demo\"\n")
		return h
	}
	first, second := folder(), folder()
	first.begin(nil, "dev").says("press Ctrl-C to exit")
	got := second.everturn("run", "--dev", "Who is in notes.txt?").exits(0)
	assert.Contains(t, got.out.String(), "Ottoline")
	at := regexp.MustCompile(`started a Temporal server on (\S+)`)
	address := at.FindStringSubmatch(got.err.String())
	require.Len(t, address, 2, got.err.String())
	second.deserted()

	again := second.begin(nil, "dev")
	again.says("press Ctrl-C to exit")
	assert.Equal(t, address, at.FindStringSubmatch(again.err.String()), "the ports are kept")
	assert.Regexp(t, `Temporal  `+address[1]+` .*\nWeb UI    http://127\.0\.0\.1:\d+`, again.err.String())
	for _, h := range []*userFolder{first, second} {
		output := h.everturn("run", "Who is in notes.txt?").exits(0)
		assert.Contains(t, output.out.String(), "Ottoline", "without --dev a folder's commands find its own server")
		assert.Contains(t, h.everturn("list").exits(0).out.String(), "completed")
	}
}

func TestDevStaysUpOnATerminalUntilCtrlC(t *testing.T) {
	t.Parallel()
	h := newDevUserFolder(t)
	c, terminal := h.onTerminal("run", "--dev", "Who is in notes.txt?")
	c.says("press Ctrl-C to exit")
	assert.Contains(t, c.out.String(), "Ottoline")
	assert.Contains(t, c.out.String(), "→ read notes.txt", "what happens on the way is shown on a terminal")
	h.up()
	h.dial()
	_, err := terminal.WriteString("\x03")
	require.NoError(t, err)
	c.exits(0)
	h.deserted()

	c, _ = h.onTerminal("run", "--dev", "--exit", "Who is in notes.txt?")
	c.exits(0)
}
