package tests

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/internal/devserver"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/loopback"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// away is a journal that is unavailable for the first left calls of the methods that have a function.
type away struct {
	engine.Journal
	begin, claim, finish func(context.Context) error

	mu   sync.Mutex
	left int
}

func (a *away) wrap(s engine.Journal) engine.Journal { a.Journal = s; return a }

// wait behaves like a locked journal, refuse like one that is gone.
func wait(ctx context.Context) error   { <-ctx.Done(); return ctx.Err() }
func refuse(ctx context.Context) error { return errors.New("the journal is away") }

func (a *away) asked(ctx context.Context, how func(context.Context) error) error {
	a.mu.Lock()
	down := how != nil && a.left > 0
	if down {
		a.left--
	}
	a.mu.Unlock()
	if !down {
		return nil
	}
	return how(ctx)
}

func (a *away) Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error) {
	if err := a.asked(ctx, a.begin); err != nil {
		return journal.BeginResult{}, err
	}
	return a.Journal.Begin(ctx, in)
}

func (a *away) ClaimCall(ctx context.Context, in journal.ClaimInput) (journal.Claim, error) {
	if err := a.asked(ctx, a.claim); err != nil {
		return journal.Claim{}, err
	}
	return a.Journal.ClaimCall(ctx, in)
}

func (a *away) Finish(ctx context.Context, in turn.FinishInput) (journal.TurnRecord, error) {
	if err := a.asked(ctx, a.finish); err != nil {
		return journal.TurnRecord{}, err
	}
	return a.Journal.Finish(ctx, in)
}

// kill kills the server that was started last. The worker notices its exit.
func (l *ledger) kill() {
	l.t.Helper()
	pid := l.server()
	require.NoError(l.t, syscall.Kill(pid, syscall.SIGKILL))
	gone(l.t, pid)
}

// ownServer is a Temporal server that suggests continue-as-new much sooner than others.
type ownServer struct {
	address string
	client  client.Client
}

// newSuggestingServer starts a server that suggests continue-as-new after that many events. Start it before its rig, so
// that it is still running when the rig replays its histories.
func newSuggestingServer(t *testing.T, events int) *ownServer {
	t.Helper()
	path, _, err := devserver.FindTemporal(t.Context(), devserver.Options{Progress: os.Stderr, Environ: os.Environ()})
	require.NoError(t, err)
	port, err := loopback.Port()
	require.NoError(t, err)
	s := &ownServer{address: "127.0.0.1:" + strconv.Itoa(port)}
	cmd := exec.Command(path, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", strconv.Itoa(port),
		"--namespace", temporalconn.DefaultNamespace, "--db-filename", filepath.Join(t.TempDir(), "temporal.db"),
		"--log-level",
		"never",
		"--dynamic-config-value", "limit.historyCount.suggestContinueAsNew="+strconv.Itoa(events),
		"--dynamic-config-value", "history.transferProcessorMaxPollRPS=100000", "--dynamic-config-value",
		"history.timerProcessorMaxPollRPS=100000",
		"--dynamic-config-value", "matching.numTaskqueueReadPartitions=1", "--dynamic-config-value",
		"matching.numTaskqueueWritePartitions=1",
		"--dynamic-config-value", "system.forceSearchAttributesCacheRefreshOnRead=true")
	spawn(t, cmd)
	require.Eventually(t, func() bool {
		s.client, err = client.DialContext(t.Context(), client.Options{HostPort: s.address, Logger: quiet})
		return err == nil
	}, within, 50*time.Millisecond, "the server does not answer")
	t.Cleanup(s.client.Close)
	require.NoError(t, temporalconn.EnsureAttributes(t.Context(), s.client, temporalconn.DefaultNamespace,
		workflows.SearchAttributes()))
	return s
}

// serves moves a rig without a worker to this server.
func (s *ownServer) serves(r *rig) { r.client, r.cfg.Temporal.Address = s.client, s.address }

// spawn starts a process that ends with the test.
func spawn(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // Pdeathsig is sent when the thread that started the process exits
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the test kills it
		}
	}()
	require.NoError(t, <-started)
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the process may have exited already
		<-ended
	})
}
