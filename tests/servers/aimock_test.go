package servers

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/activities/inference/chat"
	"github.com/everturn/everturn/activities/inference/messages"
	"github.com/everturn/everturn/activities/inference/responses"
	"github.com/everturn/everturn/tests/servers/npm"
	"github.com/everturn/everturn/workflows/turn"
)

// startAimock starts a model provider that nobody of Everturn wrote, and returns its base URL.
func startAimock(t *testing.T) string {
	t.Helper()
	tree := npm.Need(t)
	cmd := exec.CommandContext(t.Context(), tree.Node, filepath.Join(tree.Dir, "node_modules", "@copilotkit", "aimock",
		"dist",
		"cli.js"), "-p", "0", "--strict", "-f", filepath.Join("testdata", "aimock.json"))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended with the test's context
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
			return strings.TrimSpace(url) + "/v1"
		}
	}
	t.Fatalf("aimock did not say where it listens: %v", lines.Err())
	return ""
}

type heard struct{ text, reasoning strings.Builder }

func (h *heard) Text(s string)      { h.text.WriteString(s) }
func (h *heard) Reasoning(s string) { h.reasoning.WriteString(s) }

// TestEveryWireAPIAgainstAimock runs each wire API against a server whose authors compare it with the vendors' own.
func TestEveryWireAPIAgainstAimock(t *testing.T) {
	t.Parallel()
	base := startAimock(t)
	for _, wire := range []inference.Wire{chat.Wire{}, responses.Wire{}, messages.Wire{}} {
		t.Run(string(wire.API()), func(t *testing.T) {
			e, err := inference.New(inference.Options{BaseURL: base, APIKey: "none",
				Wire: func(turn.Prompt) inference.Wire { return wire }})
			require.NoError(t, err)
			defer e.Close()
			ask := func(output ...turn.Message) (turn.Completion, *heard, error) {
				h := &heard{}
				c, err := e.Infer(t.Context(), turn.Prompt{Model: "m", System: "Be brief.", Messages: output, MaxTokens: 100,
					Tools: []turn.WireTool{{Name: "a", Description: "Looks."}, {Name: "b"}}}, h)
				return c, h, err
			}
			user := func(text string) turn.Message { return turn.Message{Role: turn.RoleUser, Text: text} }
			require.NoError(t, e.Ping(t.Context()))

			c, h, err := ask(user("hello"))
			require.NoError(t, err)
			assert.Equal(t, "Hi there, <friend> & all. ünï", c.Text)
			assert.Equal(t, c.Text, h.text.String())
			assert.Equal(t, "Thinking it over.", h.reasoning.String())
			assert.Empty(t, c.Stop())
			assert.Equal(t, "m", c.Model)

			c, _, err = ask(user("weather"))
			require.NoError(t, err)
			require.Len(t, c.ToolCalls, 2)
			assert.Equal(t, "I look.", c.Text)
			assert.JSONEq(t, `{"x":1}`, c.ToolCalls[0].Arguments)
			assert.Equal(t, "b", c.ToolCalls[1].Tool)
			asked := turn.Message{Role: turn.RoleAssistant, Text: c.Text, Items: c.Items}
			results := []turn.Message{}
			for i, call := range c.ToolCalls {
				call.ID = turn.CallID(1, i)
				asked.ToolCalls = append(asked.ToolCalls, call)
				results = append(results, turn.Message{Role: turn.RoleTool, CallID: call.ID, Outcome: turn.OutcomeOK, Text: "ok"})
			}
			c, _, err = ask(append([]turn.Message{user("weather"), asked}, results...)...)
			require.NoError(t, err)
			assert.Equal(t, "Sunny.", c.Text)

			c, _, err = ask(user("length"))
			require.NoError(t, err)
			assert.Equal(t, turn.StopLength, c.Stop())
			_, _, err = ask(user("cut"))
			assert.True(t, turn.CodeOf(err).Retryable(), "%v", err)
			_, _, err = ask(user("limit"))
			assert.Equal(t, turn.CodeLLMRateLimited, turn.CodeOf(err), "%v", err)
			_, _, err = ask(user("something that no fixture knows"))
			assert.Error(t, err)
		})
	}
}
