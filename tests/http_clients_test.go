package tests

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/tests/servers/npm"
)

// Clients that nobody of Everturn wrote, the newest version and one older major version of OpenAI's own, get completions,
// streams, structured output and errors, and each stays in one session.
func TestClientsOfChatCompletions(t *testing.T) {
	t.Parallel()
	tree := npm.Need(t)
	e := newEnv(t, fakellm.Cases(
		fakellm.When("As JSON.", fakellm.Text(`{"n":7}`)),
		fakellm.When("Second.", fakellm.Text("To the second.")),
		fakellm.When("First,", fakellm.Text("To the first.")),
	))
	e.work()
	w := e.web()
	cmd := exec.CommandContext(t.Context(), tree.Node, "testdata/clients/chat.cjs", tree.Dir, w.URL+"/v1", w.token)
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	require.NoError(t, err, failed.String())
	first, second := "To the first.", "To the second."
	whole := map[string]any{"first": first, "streamed": second, "final": second, "tokens": true,
		"parsed": map[string]any{"n": 7.0}, "refused": []any{404.0, "model_not_found"}, "models": []any{"everturn"}}
	want := map[string]map[string]any{"openai": whole, "openai-6": whole,
		"ai": {"first": first, "streamed": second, "finish": "stop"}, "langchain": {"first": first, "streamed": second}}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, len(want))
	for _, line := range lines {
		var got map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &got))
		name, _ := got["client"].(string)
		delete(got, "client")
		assert.Equal(t, want[name], got, name)
	}
	assert.Len(t, w.sessions(), len(want), "a session each")
	for _, s := range w.sessions() {
		turns, err := e.journal.Turns(t.Context(), s)
		require.NoError(t, err)
		for _, rec := range turns {
			e.ran = append(e.ran, workflow.Execution{ID: s, RunID: rec.ID})
		}
	}
}
