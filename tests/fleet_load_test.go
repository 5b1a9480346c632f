package tests

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/tests/fleet"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// The sizes of docs/scale.md. The default ones take seconds.
var (
	replacing = flag.Duration("fleet-replacing", 0,
		"how long TestAFleetUnderLoad replaces a worker each 30 s; 0: each worker once, without a pause")
	flooding  = flag.Int("fleet-flood", 200, "turns that TestAQuietTenantBesideAFlood queues")
	rolledOut = flag.Int("fleet-running", 30, "turns that run during the rollout of TestARolloutAndItsRollback")
)

// load begins turns, some at a time, until it is stopped.
type load struct {
	harness *fleetHarness
	stop    chan struct{}
	all     sync.WaitGroup
	mu      sync.Mutex
	turns   []client.Turn
	ends    []workflows.Result
}

// under starts a load of n turns at a time.
func (r *fleetHarness) under(name string, n int) *load {
	l := &load{harness: r, stop: make(chan struct{})}
	for i := range n {
		l.all.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-l.stop:
					return
				default:
					l.one(fmt.Sprintf("%s-%d-%d", name, i, k))
				}
			}
		})
	}
	return l
}

// one runs a turn to its end. Like a user, it asks again, with the same message, when the fleet does not answer.
func (l *load) one(session string) {
	ctx, cancel := context.WithTimeout(l.harness.t.Context(), within)
	defer cancel()
	in := client.SendInput{Session: session, Message: turn.UserMessage{ID: "m-" + session, Text: "Which files?"}}
	var sent client.Turn
	var end client.Result
	retry := func(do func() error) {
		for {
			err := do()
			if err == nil {
				return
			}
			if ctx.Err() != nil {
				assert.NoError(l.harness.t, errors.Join(ctx.Err(), err), session)
				return
			}
		}
	}
	retry(func() (err error) { sent, err = l.harness.turns.Send(ctx, in); return err })
	retry(func() (err error) { end, err = l.harness.turns.Wait(ctx, sent); return err })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns, l.ends = append(l.turns, sent), append(l.ends, end.Result)
}

// done returns how many turns have ended.
func (l *load) done() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ends)
}

// more waits until n more turns have ended.
func (l *load) more(n int) {
	l.harness.t.Helper()
	want := l.done() + n
	require.Eventually(l.harness.t, func() bool { return l.done() >= want }, within, 20*time.Millisecond,
		"the load stands still")
}

// finish lets the turns that run end, and checks that each message was answered by one turn with one call.
func (l *load) finish() {
	l.harness.t.Helper()
	close(l.stop)
	l.all.Wait()
	for i, sent := range l.turns {
		assert.Equal(l.harness.t, turn.StateCompleted, l.ends[i].State, "%s: %s", sent.Session, l.ends[i].Message)
		turns, err := l.harness.journal.Turns(l.harness.t.Context(), sent.Session)
		require.NoError(l.harness.t, err)
		require.Len(l.harness.t, turns, 1, sent.Session)
		for _, c := range l.harness.calls(turns[0].ID, 1) {
			assert.Equal(l.harness.t, turn.OutcomeOK, c.Outcome)
		}
		l.harness.sound(l.harness.t.Context(), sent.Session, nil)
	}
}

// TestAFleetUnderLoad replaces each worker of a fleet in turn, and then kills its database server, while turns run.
// The replacement loses no task, repeats no call and pays for no inference twice. Then the database server is killed
// for good, and its synchronous standby takes its place. Each acknowledged message is answered, by one turn.
func TestAFleetUnderLoad(t *testing.T) {
	t.Parallel()
	const workers, atOnce = 4, 8
	model := fakellm.Start(t, fakellm.Steps(fakellm.Call("local_list_files", "{}").FirstDelay(200*time.Millisecond),
		fakellm.Text("No files.").FirstDelay(200*time.Millisecond)))
	r := newFleetHarness(t, model, "")
	running := make([]*fleet.Process, workers)
	for i := range running {
		require.NoError(t, r.StartWorker())
		running[i] = r.Workers[i]
	}
	require.NoError(t, r.Polling(t.Context(), workers))

	begun := time.Now()
	l := r.under("rolling", atOnce)
	replaced := 0
	for next := begun; replaced < workers || time.Since(begun) < *replacing; replaced++ {
		l.more(atOnce)
		require.NoError(t, r.StartWorker())
		running = append(running, r.Workers[len(r.Workers)-1])
		running[replaced].Stop()
		if *replacing > 0 {
			next = next.Add(30 * time.Second)
			time.Sleep(time.Until(next))
		}
	}
	l.more(atOnce)
	l.finish()
	t.Logf("%d turns while %d workers were replaced, in %s", len(l.ends), replaced, time.Since(begun).Round(time.Second))
	assert.Len(t, model.Requests(), 2*len(l.ends), "no inference is paid for twice")
	late := 0
	for i, sent := range l.turns {
		for _, kind := range lateTasks {
			late += count(r.events(sent.Session, sent.ID), kind)
		}
		for _, c := range r.calls(l.ends[i].Turn, 1) {
			assert.Equal(t, 1, c.Runs)
		}
	}
	t.Logf("%d tasks timed out", late)
	// A task of a worker that runs can exceed its 10 s on a busy machine. Workers that take their tasks along lose more.
	assert.Less(t, late, workers)

	l = r.under("killed", atOnce)
	l.more(atOnce)
	require.NoError(t, r.Postgres().Kill())
	killed := time.Now()
	require.NoError(t, r.Postgres().Run(t.Context()))
	l.more(2 * atOnce)
	t.Logf("%d turns ended within %s of the death of Postgres", 2*atOnce, time.Since(killed).Round(time.Second))
	l.finish()

	standby := r.standby()
	l = r.under("replaced", atOnce)
	l.more(atOnce)
	require.NoError(t, r.Postgres().Kill())
	killed = time.Now()
	standby.takesOver()
	l.more(2 * atOnce)
	t.Logf("%d turns ended within %s of the loss of Postgres", 2*atOnce, time.Since(killed).Round(time.Second))
	l.finish()
}

// standby is a copy of the fleet's database server that has each commit before the client is told of it.
type standby struct {
	harness *fleetHarness
	dir     string
	cmd     *exec.Cmd
}

// standby starts a synchronous standby of the fleet's database server.
func (r *fleetHarness) standby() *standby {
	r.t.Helper()
	pg := r.Postgres()
	s := &standby{harness: r, dir: filepath.Join(pg.Dir(), "standby")}
	out, err := pg.Command("pg_basebackup", "-h", pg.Dir(), "-p", pg.Port(), "-U", "everturn", "-D", s.dir, "-X", "stream",
		"-c", "fast", "-R", "--no-sync").CombinedOutput()
	require.NoError(r.t, err, "%s", out)
	s.cmd = pg.Command("postgres", "-D", s.dir, "-k", s.dir, "-c", "listen_addresses=", "-c", "port="+pg.Port(), "-c",
		"max_connections=300")
	require.NoError(r.t, s.cmd.Start())
	r.t.Cleanup(func() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGQUIT) })
	for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		require.NoError(r.t, pg.Exec(r.t.Context(), pg.URL(), statement))
	}
	require.Eventually(r.t, func() bool {
		return pg.Exec(r.t.Context(), pg.URL(),
			"SELECT 1 / count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == nil
	}, within, 20*time.Millisecond, "the standby does not follow")
	return s
}

// takesOver starts the database server again on the standby's data. Its own are lost.
func (s *standby) takesOver() {
	t, pg := s.harness.t, s.harness.Postgres()
	require.NoError(t, syscall.Kill(s.cmd.Process.Pid, syscall.SIGINT))
	_ = s.cmd.Wait()
	data := filepath.Join(pg.Dir(), "data")
	require.NoError(t, os.RemoveAll(data))
	require.NoError(t, os.Rename(s.dir, data))
	require.NoError(t, os.Remove(filepath.Join(data, "standby.signal")))
	require.NoError(t, pg.Run(t.Context()))
}

// TestAQuietTenantBesideAFlood measures how long the turns of one tenant take while another one has queued hundreds.
// The figure is in the log; the test checks that the quiet tenant's turns do not wait for the flood. If inferences have
// no queue of their own, the server of a fleet hands them out eagerly.
func TestAQuietTenantBesideAFlood(t *testing.T) {
	t.Parallel()
	for name, separate := range map[string]bool{"separate queues": true, "one queue": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			besideAFlood(t, separate)
		})
	}
}

func besideAFlood(t *testing.T, separateQueues bool) {
	t.Helper()
	const quiet = 20
	flood := *flooding
	model := fakellm.Start(t, fakellm.Steps(fakellm.Text("Done.").FirstDelay(200*time.Millisecond)))
	r := newFleetHarness(t, model, fmt.Sprintf("[worker]\nseparate_queues = %t\nmax_concurrent_activities = 2\n",
		separateQueues), "fsync=off")
	require.NoError(t, r.StartWorker())
	require.NoError(t, r.Polling(t.Context(), 1))
	of := func(tenant string) *client.Client {
		return client.New(r.client, client.Options{TaskQueue: r.cfg.Temporal.TaskQueue, Journal: r.journal.Tenant(tenant),
			Tenant: tenant})
	}
	turns := func(name string) []time.Duration {
		took := make([]time.Duration, quiet)
		for i := range took {
			begun := time.Now()
			sent, err := of("quiet").Send(t.Context(), client.SendInput{Session: fmt.Sprint(name, i),
				Message: turn.UserMessage{Text: "Hello."}})
			require.NoError(t, err)
			_, err = of("quiet").Wait(t.Context(), sent)
			require.NoError(t, err)
			took[i] = time.Since(begun)
		}
		slices.Sort(took)
		return took
	}
	alone := turns("alone")
	for i := range flood {
		_, err := of("loud").Send(t.Context(), client.SendInput{Session: fmt.Sprint("flood", i),
			Message: turn.UserMessage{Text: "Hello."}})
		require.NoError(t, err)
	}
	beside := turns("beside")
	loud, err := r.journal.Tenant("loud").Sessions(t.Context(), flood)
	require.NoError(t, err)
	left := flood
	for _, s := range loud {
		if s.LastTurn.State.Terminal() {
			left--
		}
	}
	t.Logf("a turn of the quiet tenant: median %s, p95 %s alone; median %s, p95 %s beside a flood (%.1f times p95), with "+
		"%d of %d turns of the flood left", alone[quiet/2], alone[quiet*95/100-1], beside[quiet/2], beside[quiet*95/100-1],
		float64(beside[quiet*95/100-1])/float64(alone[quiet*95/100-1]), left, flood)
	assert.Positive(t, left, "the quiet tenant does not wait until the flood is over")
}
