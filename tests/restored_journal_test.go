package tests

import (
	"database/sql"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
)

// TestAnEarlierJournalIsRefused gives a turn's next worker the journal of an earlier moment: before the turn began, and
// before its first step ended. The turn does nothing there, says why, and goes on as soon as it has its own journal.
func TestAnEarlierJournalIsRefused(t *testing.T) {
	t.Parallel()
	one, two := fakellm.NewGate(), fakellm.NewGate()
	r := newEnv(t, fakellm.Steps(
		fakellm.Call("local_list_files", `{}`).Hold(0, one),
		fakellm.Attempts(fakellm.Text("This text is withdrawn again.").Hold(4, two), fakellm.Text("There are no files.")),
	))
	first := r.process()
	copies := []string{r.copyJournal("empty")}
	run := r.begin(t.Name(), "Which files are here?", nil)
	r.reach(one)
	copies = append(copies, r.copyJournal("begun"))
	one.Release()
	r.reach(two)
	first.kill()
	for _, path := range copies {
		next := r.process(func(c *config.Config) { c.Journal.Path = path })
		require.Eventually(t, func() bool {
			d, err := r.client.DescribeWorkflowExecution(t.Context(), t.Name(), "")
			require.NoError(t, err)
			for _, a := range d.GetPendingActivities() {
				if a.GetLastFailure().GetApplicationFailureInfo().GetType() == "store_unavailable" &&
					a.GetLastWorkerIdentity() != "" && a.GetAttempt() > 1 {
					assert.Contains(t, a.GetLastFailure().GetMessage(), "restore a later copy")
					return true
				}
			}
			return false
		}, within, 20*time.Millisecond, "the turn does not say what is wrong with %s", path)
		next.kill()
	}
	assert.Equal(t, []int{0, 1}, r.steps(), "nothing is asked with an earlier journal")
	r.process()
	assert.Equal(t, "There are no files.", r.result(run).Answer)
	assert.Equal(t, []int{0, 1, 1}, r.steps())

	doctor := func(path string) string {
		r.cfg.Journal.Path = path
		out, _ := exec.CommandContext(t.Context(), binary(t, "./starter"), "--config", configFile(t, r.cfg),
			"doctor").Output()
		return string(out) // its exit code is that of other checks
	}
	require.Eventually(t, func() bool {
		return strings.Contains(doctor(r.cfg.Journal.Path), "the journal has the last 1 turn of Temporal")
	}, within, 20*time.Millisecond)
	assert.Contains(t, doctor(copies[0]), "warn  history: the journal lacks the turn of session "+t.Name())
}

// copyJournal copies the journal as it is and returns the copy's path.
func (r *env) copyJournal(name string) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name+".db")
	db, err := sql.Open("sqlite", "file:"+r.cfg.Journal.Path)
	require.NoError(r.t, err)
	defer db.Close()
	_, err = db.ExecContext(r.t.Context(), fmt.Sprintf("VACUUM INTO '%s'", path))
	require.NoError(r.t, err)
	return path
}
