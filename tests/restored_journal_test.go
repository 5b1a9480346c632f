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
	"github.com/everturn/everturn/internal/statedir"
	"github.com/everturn/everturn/tests/fakellm"
)

// TestAnEarlierJournalIsRefused gives a turn's next worker the journal of an earlier moment: before the turn began, and
// before its first step ended. The turn does nothing there, says why, and goes on as soon as it has its own journal.
func TestAnEarlierJournalIsRefused(t *testing.T) {
	t.Parallel()
	one, two := fakellm.NewGate(), fakellm.NewGate()
	e := newEnv(t, fakellm.Steps(
		fakellm.Call("local_list_files", `{}`).Hold(0, one),
		fakellm.Attempts(fakellm.Text("This text is withdrawn again.").Hold(4, two), fakellm.Text("There are no files.")),
	))
	first := e.process()
	copies := []string{e.copyJournal("empty")}
	run := e.begin(t.Name(), "Which files are here?", nil)
	e.reach(one)
	copies = append(copies, e.copyJournal("begun"))
	one.Release()
	e.reach(two)
	first.kill()
	for _, path := range copies {
		next := e.process(func(c *config.Config) { c.Journal.Path = path })
		require.Eventually(t, func() bool {
			d, err := e.client.DescribeWorkflowExecution(t.Context(), t.Name(), "")
			require.NoError(t, err)
			for _, a := range d.GetPendingActivities() {
				if a.GetLastFailure().GetApplicationFailureInfo().GetType() == "journal_unavailable" &&
					a.GetLastWorkerIdentity() != "" && a.GetAttempt() > 1 {
					assert.Contains(t, a.GetLastFailure().GetMessage(), "restore a later copy")
					return true
				}
			}
			return false
		}, within, 20*time.Millisecond, "the turn does not say what is wrong with %s", path)
		next.kill()
	}
	assert.Equal(t, []int{0, 1}, e.steps(), "nothing is asked with an earlier journal")
	e.process()
	assert.Equal(t, "There are no files.", e.result(run).Answer)
	assert.Equal(t, []int{0, 1, 1}, e.steps())

	doctor := func(path string) string {
		e.cfg.Journal.Path = path
		out, _ := exec.CommandContext(t.Context(), binary(t, "./starter"), "--config", configFile(t, e.cfg),
			"doctor").Output()
		return string(out) // its exit code is that of other checks
	}
	require.Eventually(t, func() bool {
		return strings.Contains(doctor(e.cfg.Journal.Path), "the journal has the last 1 turn of Temporal")
	}, within, 20*time.Millisecond)
	assert.Contains(t, doctor(copies[0]), "warn  history: the journal lacks the turn of session "+t.Name())
}

// copyJournal copies the journal as it is and returns the copy's path.
func (e *env) copyJournal(name string) string {
	e.t.Helper()
	path := filepath.Join(e.dir, name+".db")
	require.NoError(e.t, statedir.SecureFile(path)) // as an operator says that the copy is their own
	db, err := sql.Open("sqlite", "file:"+e.cfg.Journal.Path)
	require.NoError(e.t, err)
	defer db.Close()
	_, err = db.ExecContext(e.t.Context(), fmt.Sprintf("VACUUM INTO '%s'", path))
	require.NoError(e.t, err)
	return path
}
