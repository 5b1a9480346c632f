package tests

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// example runs a program of examples with the harness's configuration in its environment, and returns its output.
func (e *env) example(programs, name string, args ...string) string {
	e.t.Helper()
	cmd := exec.CommandContext(e.t.Context(), filepath.Join(programs, name), args...)
	cmd.Dir = e.dir
	cmd.Env = append(cmd.Environ(), "TEMPORAL_ADDRESS="+e.cfg.Temporal.Address,
		"EVERTURN_TEMPORAL_TASK_QUEUE="+e.cfg.Temporal.TaskQueue, "EVERTURN_JOURNAL_PATH="+e.cfg.Journal.Path,
		"EVERTURN_LLM_BASE_URL="+e.cfg.LLM.BaseURL, "EVERTURN_LLM_MODEL="+e.cfg.LLM.Model)
	out, err := cmd.Output()
	require.NoError(e.t, err, "%s", out)
	return string(out)
}

func TestExamples(t *testing.T) {
	t.Parallel()
	programs := t.TempDir()
	require.NoError(t, build(programs, "./examples/client", "./examples/embed", "./examples/temporal"))
	out, err := exec.Command("go", "build", "-C", "../examples/concierge", "-o", programs, ".").CombinedOutput()
	require.NoError(t, err, "%s", out) // a module of its own

	t.Run("embed", func(t *testing.T) {
		e := newEnv(t, fakellm.Steps(fakellm.Call("local_find_table", `{"guests":4}`), fakellm.Text("The garden table.")))
		assert.Equal(t, "The garden table.\n", e.example(programs, "embed", "A table for four?"))
		assert.JSONEq(t, `{"id":"garden","seats":6}`, e.model.Requests()[1].Chat.Last("tool").Content)
	})
	t.Run("concierge", func(t *testing.T) {
		const table = `{"restaurant":"Leo","seats":2}`
		e := newEnv(t, fakellm.Cases(
			fakellm.When("inquire", fakellm.Steps(fakellm.Call("local_inquire", table), fakellm.Text("From 8 p.m."))),
			fakellm.When("reserve", fakellm.Steps(fakellm.Call("local_reserve", table), fakellm.Text("See you there.")))))
		out := e.example(programs, "concierge", "-yes")
		assert.Regexp(t, `(?s)From 8 p\.m\..*local/reserve .*untrusted output.*See you there\..*: 2 turns, the last one completed`, out)
		assert.Equal(t, "2 seats at Leo are reserved for Ada", e.model.Requests()[3].Chat.Last("tool").Content)
	})
	t.Run("client", func(t *testing.T) {
		e := newEnv(t, fakellm.Steps(fakellm.Text("Two files.")))
		e.work()
		assert.Contains(t, e.example(programs, "client"), "Two files.\ncompleted (answered), 1 steps")
	})
	t.Run("temporal", func(t *testing.T) {
		e := newEnv(t, fakellm.Steps(fakellm.Text("Two files.")))
		e.work()
		var result turn.Result
		out := e.example(programs, "temporal", "-task-queue", e.cfg.Temporal.TaskQueue, "-session", session(t))
		require.NoError(t, json.Unmarshal([]byte(out), &result))
		assert.Equal(t, "Two files.", result.Answer)
		assert.Equal(t, turn.StateCompleted, result.State)
	})
}
