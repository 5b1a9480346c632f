package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal/postgres/pgtest"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/tests/fleet"
	"github.com/everturn/everturn/workflows/turn"
)

// fleetVariable makes TestFleet run: the first time on a machine it builds a Temporal server, some five minutes.
const fleetVariable = "EVERTURN_FLEET_REQUIRED"

// TestFleet runs the services of docker-compose.yml as processes. A worker dies in the middle of a turn, the whole
// fleet is stopped and started again, and its database server is restored from a backup.
func TestFleet(t *testing.T) {
	if os.Getenv(fleetVariable) != "1" {
		t.Skipf("a fleet is tested if %s=1: its Temporal server takes five minutes to build", fleetVariable)
	}
	t.Parallel()
	gate := fakellm.NewGate()
	model := fakellm.Start(t, fakellm.Steps(
		fakellm.Call("local_list_files", "{}"),
		fakellm.Attempts(fakellm.Text("This text is withdrawn.").Hold(4, gate), fakellm.Text("No files.")),
	))
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711)) // root's Postgres runs as another user
	options := fleet.Options{Dir: dir, Workers: 2, Settings: asking(model) + "preset = \"brief\"\n", Postgres: []string{"fsync=off"},
		Worker: binary(t, "./worker"), Starter: binary(t, "./starter"), Progress: t.Output()}
	f := startFleet(t, options)
	h := &userFolder{t: t, dir: options.Dir, address: f.Address(), environ: []string{"HOME=" + t.TempDir()}}

	h.everturn("run", "--detach", "-s", "one", "Which files?").exits(0)
	select {
	case <-gate.Reached():
	case <-time.After(within):
		require.Fail(t, "the model was not asked")
	}
	workerOf(t, f, "one").Kill()
	assert.Contains(t, h.everturn("attach", "one").exits(0).out.String(), "No files.")
	is := decoded[shown](h.everturn("show", "-o", "json", "one").exits(0))
	assert.Equal(t, turn.StateCompleted, is.Turns[0].Turn.State)
	assert.Equal(t, turn.OutcomeOK, is.Turns[0].Calls[0].Outcome)
	assert.Equal(t, 1, is.Turns[0].Calls[0].Runs)
	assert.Len(t, model.Requests(), 3, "only the interrupted inference is asked again")
	assert.NoDirExists(t, h.path(".everturn"), "workers and clients need no folder for their state")

	backup := filepath.Join(t.TempDir(), "backup.tar")
	toFile(t, backup, f.Postgres().Command("pg_basebackup", "-h", f.Postgres().Dir(), "-U", "everturn", "-D", "-", "-F",
		"tar", "-X", "fetch", "-c", "fast"), f)
	h.everturn("run", "-s", "after-the-backup", "Which files?").exits(0)
	require.NoError(t, f.Close())

	data := filepath.Join(options.Dir, "postgres", "data")
	entries, err := os.ReadDir(data)
	require.NoError(t, err)
	for _, e := range entries { // the folder itself belongs to the user that runs Postgres
		require.NoError(t, os.RemoveAll(filepath.Join(data, e.Name())))
	}
	out, err := exec.CommandContext(t.Context(), "tar", "-x", "--numeric-owner", "-C", data, "-f", backup).CombinedOutput()
	require.NoError(t, err, "%s", out)
	f = startFleet(t, options)
	assert.Equal(t, h.address, f.Address(), "the next start uses the same ports")
	assert.Equal(t, is, decoded[shown](h.everturn("show", "-o", "json", "one").exits(0)))
	assert.NotContains(t, h.everturn("list").exits(0).out.String(), "after-the-backup")
	assert.Contains(t, h.everturn("run", "-s", "one", "And now?").exits(0).out.String(), "No files.")

	ctx, stop := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() { watched <- f.Watch(ctx) }()
	for _, w := range slices.Clone(f.Workers) {
		w.Kill()
	}
	assert.Contains(t, h.everturn("run", "-s", "later", "Which files?").exits(0).out.String(), "No files.",
		"workers that were killed are started again, beside the same Temporal")
	stop()
	require.NoError(t, <-watched)
}

// startFleet starts a fleet that ends with the test, or skips the test if Postgres is not installed.
func startFleet(t *testing.T, o fleet.Options) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Start(t.Context(), o)
	if errors.Is(err, exec.ErrNotFound) && os.Getenv(pgtest.Required) != "1" {
		t.Skipf("Postgres is not installed (%v); %s=1 makes this an error", err, pgtest.Required)
	}
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, f.Close()) })
	return f
}

// workerOf returns the worker that runs a session's only activity.
func workerOf(t *testing.T, f *fleet.Fleet, session string) *fleet.Process {
	t.Helper()
	c, err := temporalconn.Dial(t.Context(), temporalconn.Options{Address: f.Address()})
	require.NoError(t, err)
	defer c.Close()
	got, err := c.DescribeWorkflowExecution(t.Context(), session, "")
	require.NoError(t, err)
	require.Len(t, got.PendingActivities, 1)
	for _, w := range f.Workers {
		if strings.HasPrefix(got.PendingActivities[0].LastWorkerIdentity, fmt.Sprintf("%d@", w.Pid())) {
			return w
		}
	}
	require.Fail(t, "no worker of the fleet runs the inference", "%v", got.PendingActivities)
	return nil
}

// toFile runs a command with its output in a file.
func toFile(t *testing.T, name string, cmd *exec.Cmd, f *fleet.Fleet) {
	t.Helper()
	out, err := os.Create(name)
	require.NoError(t, err)
	defer out.Close()
	cmd.Stdout = out
	cmd.Env = append(os.Environ(), "PGPORT="+f.Postgres().Port())
	require.NoError(t, cmd.Run())
}
