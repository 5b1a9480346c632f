package tests

import (
	"fmt"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal/postgres/pgtest"
	"github.com/everturn/everturn/tests/fakellm"
)

// silent listens, accepts connections and never says anything.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	return l.Addr().String()
}

// refusing is an address at which nothing listens.
const refusing = "127.0.0.1:1"

// soon bounds commands that give up within ten seconds, on a machine that is busy.
const soon = 30 * time.Second

// down returns a home in which Temporal, the model and the journal in Postgres are at an address, and the tool server
// hangs.
func down(t *testing.T, address string) *userFolder {
	t.Helper()
	h := newUserFolder(t, fmt.Sprintf("[llm]\nprovider = \"openai\"\nbase_url = \"http://%s/v1\"\nmodel = \"scripted\"\n"+
		"[journal]\nurl = \"postgres://nobody@%s/nothing\"\n"+
		"[[mcp.servers]]\nid = \"hangs\"\ncommand = \"sleep\"\nargs = [\"600\"]\n", address, address))
	h.environ = append(h.environ, "EVERTURN_TEMPORAL_ADDRESS="+address)
	return h
}

// checked is a row of doctor -o json.
type checked struct {
	Check, State, Text string
	Exit               int
}

func statesOf(c *command) map[string]string {
	states := map[string]string{}
	for _, row := range decoded[[]checked](c) {
		states[row.Check] = row.State
	}
	return states
}

func TestCLIDoctorEndsWhateverIsDown(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"refused": refusing, "silent": silent(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doctor := down(t, address).ends("doctor", "-o", "json")
			assert.Equal(t, map[string]string{"configuration": "ok", "journal": "fail", "model": "fail", "limits": "warn",
				"tools": "fail", "Temporal": "fail", "worker": "warn", "history": "warn"}, statesOf(doctor))
		})
	}
}

func TestCLICommandsEndWhenTemporalOrTheJournalIsDown(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"refused": refusing, "silent": silent(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			away, noJournal := down(t, address), down(t, address)
			away.write("agent.toml", fmt.Sprintf("[temporal]\naddress = %q\n[llm]\nprovider = \"demo\"\n", address))
			noJournal.environ[len(noJournal.environ)-1] = "EVERTURN_TEMPORAL_ADDRESS=" + stack.Address
			for _, h := range []*userFolder{away, noJournal} {
				for _, args := range [][]string{{"run", "hello"}, {"send", "s", "hello"}} {
					h.ends(args...)
				}
			}
			for _, args := range [][]string{{"list"}, {"show", "s"}, {"stop", "s"}, {"approvals"}, {"attach", "s"}} {
				noJournal.ends(args...)
			}
		})
	}
}

// ends runs a command, which must give up soon because something that it needs is down.
func (h *userFolder) ends(args ...string) *command {
	h.t.Helper()
	binary(h.t, "./starter") // builds it, once
	began := time.Now()
	c := h.everturn(args...).exits(5)
	assert.Less(h.t, time.Since(began), soon, "%v", args)
	return c
}

// in runs the command line in a mount namespace of its own, in which a script mounts something first.
func (h *userFolder) in(script string, args ...string) *command {
	h.t.Helper()
	if err := exec.Command("unshare", "-rm", "true").Run(); err != nil {
		h.t.Skipf("this user cannot make mount namespaces: %v", err)
	}
	all := append([]string{"-rm", "sh", "-ec", script + "\nexec \"$@\"", "sh", binary(h.t, "./starter")}, args...)
	return h.launch(exec.Command("unshare", all...)).wait()
}

func TestCLIReadsAJournalOnAReadOnlyDisk(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, asking(fakellm.Start(t, fakellm.Text("Hello back."))))
	worker := h.worker()
	h.everturn("run", "-s", "read-only-disk", "hello").exits(0)
	const readOnly = `mount --bind "$PWD" "$PWD"; mount -o remount,bind,ro "$PWD"; cd "$PWD"`
	assert.Contains(t, h.in(readOnly, "show", "read-only-disk").exits(0).out.String(), "Hello back.", "a worker has it open")
	worker.end()
	assert.Contains(t, h.in(readOnly, "show", "read-only-disk").exits(0).out.String(), "Hello back.")
	for _, args := range [][]string{{"list"}, {"usage"}, {"export", "read-only-disk"}, {"approvals"}} {
		h.in(readOnly, args...).exits(0)
	}
	assert.Contains(t, h.in(readOnly, "fork", "read-only-disk").exits(5).err.String(), "the journal is read-only")
	assert.Equal(t, "fail", statesOf(h.in(readOnly, "doctor", "-o", "json").exits(5))["journal"])
}

// TestCLIReadsAJournalOnAFullDisk has a disk without room for the files that SQLite makes beside a journal.
func TestCLIReadsAJournalOnAFullDisk(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, asking(fakellm.Start(t, fakellm.Text("Hello back."))))
	worker := h.worker()
	h.everturn("run", "-s", "full-disk", "hello").exits(0)
	worker.end()
	full := fmt.Sprintf(`disk=%s; mount -t tmpfs -o size=8m none $disk; cp .everturn/journal.db $disk
trust=$("$1" list --set journal.path=$disk/journal.db 2>&1 || true); sh -c "${trust##*trust it with: }"
set -- "$@" --set journal.path=$disk/journal.db; cat /dev/zero >$disk/fill 2>/dev/null || true`, t.TempDir())
	assert.Contains(t, h.in(full, "list").exits(0).out.String(), "full-disk")
	assert.Equal(t, "fail", statesOf(h.in(full, "doctor", "-o", "json").exits(5))["journal"])
}

// TestCLISaysThatTheJournalTakesNoWrites limits the size of the files that a command may write, as a full disk does,
// while a worker has the journal open.
func TestCLISaysThatTheJournalTakesNoWrites(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, asking(fakellm.Start(t, fakellm.Text("Hello back."))))
	worker := h.worker()
	h.everturn("run", "-s", "no-writes", "hello").exits(0)
	worker.end()
	h.worker("--set", "temporal.task_queue=another-"+t.Name()).says("worker polls") // has the journal open
	full := func(args ...string) *command {
		all := append([]string{"-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "bash", binary(t, "./starter")}, args...)
		return h.launch(exec.Command("bash", all...))
	}
	full("show", "no-writes").exits(0)
	assert.Equal(t, "fail", statesOf(full("doctor", "-o", "json").exits(5))["journal"])
	full("run", "-s", "no-writes", "hello").says("the journal cannot be written")
	h.worker() // answers the message
	h.everturn("attach", "no-writes").exits(0)
}

func TestCLIReadsAReadOnlyPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := server.Empty(t)
	h := newUserFolder(t, asking(fakellm.Start(t, fakellm.Text("Hello back.")))+
		fmt.Sprintf("[journal]\nurl = %q\n", url))
	h.everturn("journal", "migrate").exits(0)
	worker := h.worker()
	h.everturn("run", "-s", "read-only-postgres", "hello").exits(0)
	worker.end()
	readOnly := "journal.url=" + url + "&default_transaction_read_only=on"
	assert.Contains(t, h.everturn("show", "read-only-postgres", "--set", readOnly).exits(0).out.String(), "Hello back.")
	assert.Contains(t, h.everturn("fork", "read-only-postgres", "--set", readOnly).exits(5).err.String(), "the journal is read-only")
	assert.Equal(t, "fail", statesOf(h.everturn("doctor", "-o", "json", "--set", readOnly).exits(5))["journal"])
}

// TestCLIFailsIfItsOutputCannotBeWritten has a full disk as standard output: a script must not go on with half an
// answer.
func TestCLIFailsIfItsOutputCannotBeWritten(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, asking(fakellm.Start(t, fakellm.Text("Hello back."))))
	h.worker()
	for _, args := range []string{"run -s full hello", "attach full", "show full", "run -q -s full hello", "run -o jsonl -s full hello"} {
		c := h.launch(exec.Command("sh", "-c", `exec "$0" `+args+` >/dev/full`, binary(t, "./starter"))).wait().exits(1)
		assert.Contains(t, c.err.String(), "no space left on device", args)
	}
}
