package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	temporal "go.temporal.io/sdk/client"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/openjournal"
	"github.com/everturn/everturn/internal/rollout"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/tests/fleet"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// quickDrainage makes the server look every second whether a version is drained.
const quickDrainage = `matching.wv.VersionDrainageStatusVisibilityGracePeriod: [{value: 1s}]
matching.wv.VersionDrainageStatusRefreshInterval: [{value: 1s}]
`

// fleetHarness is a fleet with a client, for tests of many turns.
type fleetHarness struct {
	*env // without its worker: for histories
	*fleet.Fleet
	userFolder *userFolder
	turns      *client.Client
	began      []client.Turn
}

// newFleetHarness starts a fleet without workers, whose Postgres has these settings.
func newFleetHarness(t *testing.T, model *fakellm.Server, settings string, postgres ...string) *fleetHarness {
	t.Helper()
	if os.Getenv(fleetVariable) != "1" {
		t.Skipf("a fleet is tested if %s=1: its Temporal server takes five minutes to build", fleetVariable)
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711)) // root's Postgres runs as another user
	f := startFleet(t, fleet.Options{Dir: dir, Settings: asking(model) + settings, Dynamic: quickDrainage,
		Postgres: postgres, Worker: binary(t, "./worker"), Starter: binary(t, "./starter"), Progress: t.Output()})
	r := &fleetHarness{Fleet: f,
		userFolder: &userFolder{t: t, dir: dir, address: f.Address(), environ: []string{"HOME=" + t.TempDir()}}}
	loaded, err := config.Load(config.LoadOptions{Path: f.Config()})
	require.NoError(t, err)
	j, err := openjournal.Open(t.Context(), loaded.Config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	c, err := temporalconn.Dial(t.Context(), temporalconn.Options{Address: f.Address()})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	r.env = &env{t: t, model: model, client: c, journal: j, dir: dir, cfg: loaded.Config}
	r.turns = client.New(c, client.Options{TaskQueue: loaded.Config.Temporal.TaskQueue, Journal: j})
	return r
}

// version starts a worker of a version.
func (r *fleetHarness) version(build string) *fleet.Process {
	r.t.Helper()
	require.NoError(r.t, r.StartWorker("TEMPORAL_WORKER_BUILD_ID="+build, "EVERTURN_LLM_IDLE_TIMEOUT=10m",
		"EVERTURN_RUNTIME_TURN_TIMEOUT=10m")) // for inferences that a test holds
	return r.Workers[len(r.Workers)-1]
}

// begins sends a message that begins a turn.
func (r *fleetHarness) begins(session, text string) client.Turn {
	r.t.Helper()
	sent, err := r.turns.Send(r.t.Context(), client.SendInput{Session: session, Message: turn.UserMessage{Text: text}})
	require.NoError(r.t, err)
	r.began = append(r.began, sent)
	return sent
}

// waiting waits until each of the sessions waits for a decision.
func (r *fleetHarness) waiting(sessions ...string) {
	r.t.Helper()
	for _, s := range sessions {
		require.Eventually(r.t, func() bool {
			pending, err := r.turns.Pending(r.t.Context(), client.PendingInput{Session: s})
			return err == nil && len(pending) == 1
		}, within, 20*time.Millisecond, "session %s never waited", s)
	}
}

// settles decides what a session waits for.
func (r *fleetHarness) settles(session string) {
	r.t.Helper()
	pending, err := r.turns.Pending(r.t.Context(), client.PendingInput{Session: session})
	require.NoError(r.t, err)
	require.Len(r.t, pending, 1)
	if w := pending[0]; w.Kind == turn.RequestQuestion {
		err = r.turns.Answer(r.t.Context(), client.DecideInput{Session: session, Request: w.ID, Text: "Blue."})
	} else {
		_, err = r.turns.Approve(r.t.Context(), client.DecideInput{Session: session, Request: w.ID,
			ArgumentsHash: w.ArgumentsHash})
	}
	require.NoError(r.t, err)
}

// on returns the version that a session's running turn stays on, and its run.
func (r *fleetHarness) on(session string) (build, run string) {
	r.t.Helper()
	got, err := r.client.DescribeWorkflowExecution(r.t.Context(), session, "")
	require.NoError(r.t, err)
	info := got.GetWorkflowExecutionInfo()
	return info.GetVersioningInfo().GetDeploymentVersion().GetBuildId(), info.GetExecution().GetRunId()
}

// onVersion checks the version of sessions.
func (r *fleetHarness) onVersion(build string, sessions ...string) {
	r.t.Helper()
	for _, s := range sessions {
		is, _ := r.on(s)
		assert.Equal(r.t, build, is, "the version of %s", s)
	}
}

// complete waits until all turns have completed, each call having run once.
func (r *fleetHarness) complete() {
	r.t.Helper()
	for _, sent := range r.began {
		res, err := r.turns.Wait(r.t.Context(), sent)
		require.NoError(r.t, err, sent.Session)
		assert.Equal(r.t, turn.StateCompleted, res.State, "%s: %s", sent.Session, res.Message)
		assert.Equal(r.t, sent.ID, res.Turn)
		calls, err := r.journal.Calls(r.t.Context(), sent.ID)
		require.NoError(r.t, err)
		for _, c := range calls {
			assert.Equal(r.t, turn.OutcomeOK, c.Outcome)
			assert.Equal(r.t, 1, c.Runs)
		}
	}
}

// rollout runs everturn rollout.
func (r *fleetHarness) rollout(args ...string) *command {
	r.t.Helper()
	return r.userFolder.everturn(append([]string{"rollout"}, args...)...)
}

// drained waits until the server has noticed that no run stays on a version.
func (r *fleetHarness) drained(build string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		for _, v := range decoded[rollout.Status](r.rollout("status", "-o", "json").exits(0)).Versions {
			if v.BuildID == build {
				return v.State == "drained" && v.Turns == 0
			}
		}
		return false
	}, within, time.Second, "version %s does not drain", build)
}

func names(kind string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%d", kind, i)
	}
	return list
}

// rolling is the model of turns that are held in an inference, wait for an approval, or ask a question.
func rolling(t *testing.T, gate *fakellm.Gate) *fakellm.Server {
	return fakellm.Start(t, fakellm.Cases(
		fakellm.When("Hold", fakellm.Text("I was held.").Hold(1, gate)),
		fakellm.When("Which", fakellm.Steps(fakellm.Call("local_list_files", "{}"), fakellm.Text("No files."))),
		fakellm.When("Guess", fakellm.Steps(fakellm.Call("ask_user", `{"question":"Which colour?"}`))),
		fakellm.When("", fakellm.Text("Thanks.")),
	))
}

// The held turns must leave room for others: each holds the place of an activity.
const versioned = "[policy]\nask = [\"local/list_files\"]\n[worker]\ndeployment = \"agents\"\n" +
	"max_concurrent_activities = 200\n"

// TestARolloutAndItsRollback rolls out a second version of the workers and takes it back while turns run and wait.
// Turns that run end on their version, those that wait move on a nudge, and each version drains.
func TestARolloutAndItsRollback(t *testing.T) {
	t.Parallel()
	const waiting = 20
	running := *rolledOut
	gate := fakellm.NewGate()
	r := newFleetHarness(t, rolling(t, gate), versioned, "fsync=off")
	assert.Contains(t, r.rollout("status").exits(3).err.String(), `no Worker Deployment "agents"`)
	r.version("v1")
	r.rollout("promote", "v1").exits(0)
	assert.Contains(t, r.rollout("promote", "v1").exits(0).err.String(), "already")

	held, asked, guessing := names("held", running), names("asked", waiting/2), names("guessing", waiting/2)
	for _, s := range held {
		r.begins(s, "Hold.")
	}
	for i := range asked {
		r.begins(asked[i], "Which files?")
		r.begins(guessing[i], "Guess.")
	}
	r.waiting(append(asked, guessing...)...)
	awaitGate(t, gate)
	_, first := r.on(asked[0])
	_, firstGuess := r.on(guessing[0])

	r.rollout("promote", "v2", "--wait", "1s").exits(1)
	r.version("v2")
	assert.Contains(t, r.rollout("drain", "v1").exits(1).err.String(), "turns begin on version")
	r.rollout("promote", "v2").exits(0)
	r.onVersion("v1", append(append(asked, guessing...), held...)...)
	r.begins("new", "Which files?")
	r.waiting("new")
	r.onVersion("v2", "new")

	assert.Equal(t, 124, r.rollout("drain", "v1", "--timeout", "20s").code(), "the held turns stay")
	r.onVersion("v2", append(asked, guessing...)...)
	r.onVersion("v1", held...)
	gate.Release()
	r.rollout("drain", "v1").exits(0)
	r.drained("v1")
	_, second := r.on(asked[0])
	_, secondGuess := r.on(guessing[0])
	r.settles(asked[0])
	r.settles(guessing[0])

	assert.Contains(t, r.rollout("rollback").exits(0).err.String(), "v1")
	r.rollout("drain", "v2").exits(0)
	r.drained("v2")
	for i := range asked[1:] {
		r.onVersion("v1", asked[i+1], guessing[i+1])
		r.settles(asked[i+1])
		r.settles(guessing[i+1])
	}
	r.onVersion("v1", "new")
	r.settles("new")
	r.complete()
	assert.Len(t, r.model.Requests(), running+2*waiting+2, "no inference is paid twice")
	for name, run := range map[string][2]string{
		"v1-moved-approval-first": {asked[0], first}, "v1-moved-approval-next": {asked[0], second},
		"v1-moved-question-first": {guessing[0], firstGuess}, "v1-moved-question-next": {guessing[0], secondGuess},
	} {
		r.keep(name, run[0], run[1])
	}
}

// TestAVersionWithoutWorkers stops the only worker of a version. Commands say at once which worker is missing, and the
// turn continues when it is back. A version that is not ready is not promoted.
func TestAVersionWithoutWorkers(t *testing.T) {
	t.Parallel()
	r := newFleetHarness(t, rolling(t, fakellm.NewGate()), versioned, "fsync=off")
	one := r.version("v1")
	r.rollout("promote", "v1").exits(0)
	r.begins("asked", "Which files?")
	r.begins("approved", "Which files?")
	r.waiting("asked", "approved")
	delivery, err := r.client.ExecuteWorkflow(t.Context(),
		temporal.StartWorkflowOptions{ID: "deliver-1",
			TaskQueue: "everturn"}, workflows.DeliverWorkflow, workflows.DeliverInput{Session: "delivered", Message: turn.UserMessage{Text: "Guess."}})
	require.NoError(t, err)
	r.waiting("delivered")
	r.happened(delivery, enumspb.EVENT_TYPE_TIMER_STARTED)

	stuck := r.version("v2")
	r.rollout("promote", "v2").exits(0)
	one.Stop()
	for _, args := range [][]string{
		{"send", "approved", "And?"}, {"approve", "approved", "1.0", "-y"}, {"show", "asked"},
		{"attach", "asked", "--timeout", "3s"},
	} {
		begun := time.Now()
		c := r.userFolder.everturn(args...)
		assert.Contains(t, c.err.String(), "the turn stays on version v1 of deployment agents", args)
		t.Logf("%s: %s, exit code %d", args[0], time.Since(begun).Round(10*time.Millisecond), c.code())
	}

	r.version("v1")
	r.rollout("drain", "v1").exits(0)
	r.onVersion("v2", "asked", "delivered", "deliver-1")
	r.settles("asked")
	r.settles("delivered")
	r.complete()
	r.keep("v1-deliver-moved", "deliver-1", delivery.GetRunID())

	var builds []string
	for _, w := range decoded[[]temporalconn.Worker](r.userFolder.everturn("workers", "-o", "json").exits(0)) {
		if w.TaskQueue == "everturn" {
			builds = append(builds, w.BuildID)
		}
	}
	assert.ElementsMatch(t, []string{"v1", "v2"}, builds)

	require.NoError(t, syscall.Kill(stuck.Pid(), syscall.SIGSTOP))
	r.rollout("rollback").exits(0)
	assert.Contains(t, r.rollout("promote", "v2").exits(1).err.String(), "not ready for turns")
	require.NoError(t, syscall.Kill(stuck.Pid(), syscall.SIGCONT))
	assert.Equal(t, "v1", decoded[rollout.Status](r.rollout("status", "-o", "json").exits(0)).Current)
	r.rollout("ramp", "v2", "100").exits(0)
	r.begins("ramped", "Which files?")
	r.waiting("ramped")
	r.onVersion("v2", "ramped")
	assert.Contains(t, r.rollout("rollback").exits(0).err.String(), "v1")
	r.settles("ramped")
	r.complete()
}
