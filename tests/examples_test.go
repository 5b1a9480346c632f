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

// example runs a program of examples with the rig's configuration in its environment, and returns its output.
func (r *env) example(programs, name string, args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), filepath.Join(programs, name), args...)
	cmd.Dir = r.dir
	cmd.Env = append(cmd.Environ(), "TEMPORAL_ADDRESS="+r.cfg.Temporal.Address,
		"EVERTURN_TEMPORAL_TASK_QUEUE="+r.cfg.Temporal.TaskQueue, "EVERTURN_JOURNAL_PATH="+r.cfg.Journal.Path,
		"EVERTURN_LLM_BASE_URL="+r.cfg.LLM.BaseURL, "EVERTURN_LLM_MODEL="+r.cfg.LLM.Model,
		"EVERTURN_RUNTIME_MODE=native")
	out, err := cmd.Output()
	require.NoError(r.t, err, "%s", out)
	return string(out)
}

func TestExamples(t *testing.T) {
	t.Parallel()
	programs := t.TempDir()
	require.NoError(t, build(programs, "./examples/client", "./examples/embed", "./examples/temporal"))

	t.Run("embed", func(t *testing.T) {
		r := newEnv(t, fakellm.Steps(fakellm.Call("local_find_table", `{"guests":4}`), fakellm.Text("The garden table.")))
		assert.Equal(t, "The garden table.\n", r.example(programs, "embed", "A table for four?"))
		assert.JSONEq(t, `{"id":"garden","seats":6}`, r.model.Requests()[1].Chat.Last("tool").Content)
	})
	t.Run("client", func(t *testing.T) {
		r := newEnv(t, fakellm.Steps(fakellm.Text("Two files.")))
		r.work()
		assert.Contains(t, r.example(programs, "client"), "Two files.\ncompleted (answered), 1 steps")
	})
	t.Run("temporal", func(t *testing.T) {
		r := newEnv(t, fakellm.Steps(fakellm.Text("Two files.")))
		r.work()
		var result turn.Result
		out := r.example(programs, "temporal", "-task-queue", r.cfg.Temporal.TaskQueue, "-session", session(t))
		require.NoError(t, json.Unmarshal([]byte(out), &result))
		assert.Equal(t, "Two files.", result.Answer)
		assert.Equal(t, turn.StateCompleted, result.State)
	})
}
