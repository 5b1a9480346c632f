package servers

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/activities/inference/chat"
	"github.com/everturn/everturn/activities/inference/messages"
	"github.com/everturn/everturn/activities/inference/responses"
	"github.com/everturn/everturn/internal/models"
	"github.com/everturn/everturn/tests/servers/npm"
	"github.com/everturn/everturn/workflows/turn"
)

// vendorTypes are the types that the vendors' own clients declare for the body of a streaming request.
var vendorTypes = map[turn.API]string{
	turn.APIChat:      "OpenAI.ChatCompletionCreateParamsStreaming",
	turn.APIResponses: "OpenAI.Responses.ResponseCreateParamsStreaming",
	turn.APIMessages:  "Anthropic.MessageCreateParamsStreaming",
}

// TestRequestsHaveTheVendorsTypes checks the request of every wire API, with everything that a prompt can have, against
// the types of the vendors' own clients: TypeScript rejects a field that they do not declare, and a value of another
// type.
func TestRequestsHaveTheVendorsTypes(t *testing.T) {
	t.Parallel()
	tree := npm.Need(t)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(tree.Dir, "node_modules"), filepath.Join(dir, "node_modules")))
	var source strings.Builder
	source.WriteString("import type OpenAI from \"openai\";\nimport type Anthropic from \"@anthropic-ai/sdk\";\n")
	n := 0
	for _, wire := range []inference.Wire{chat.Wire{}, responses.Wire{}, messages.Wire{}} {
		for _, body := range requestsOf(t, wire) {
			n++
			fmt.Fprintf(&source, "export const request%d: %s = %s;\n", n, vendorTypes[wire.API()], body)
		}
	}
	check := func(source string) (string, error) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "requests.ts"), []byte(source), 0o600))
		cmd := exec.CommandContext(t.Context(), tree.Node,
			filepath.Join(dir, "node_modules", "typescript", "bin", "tsc"), "--noEmit", "--strict", "--skipLibCheck", "--target",
			"es2022", "--module", "nodenext", "requests.ts")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := check(source.String())
	require.NoError(t, err, "%s", out)
	out, err = check(strings.Replace(source.String(), `"stream":true`, `"stream":true,"no_such_field":1`, 1))
	require.Error(t, err)
	require.Contains(t, out, "no_such_field", "the check rejects what the vendor does not declare")
}

// requestsOf returns the bodies of requests that together have everything that a prompt can have.
func requestsOf(t *testing.T, wire inference.Wire) (bodies []string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && json.Valid(body) {
			bodies = append(bodies, string(body))
		}
		http.Error(w, `{"error":{"message":"seen"}}`, http.StatusBadRequest)
	}))
	defer server.Close()
	e, err := inference.New(inference.Options{BaseURL: server.URL, APIKey: "none",
		Wire:         func(turn.Prompt) inference.Wire { return wire },
		Capabilities: func(string) []models.Capability { return []models.Capability{models.ToolUse, models.Vision} }})
	require.NoError(t, err)
	defer e.Close()
	warm := 0.5
	schema := json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],` +
		`"additionalProperties":false}`)
	call := turn.ToolCall{ID: "1.0", WireID: "w1", Tool: "look", Arguments: `{"a":"x"}`}
	paper := turn.Media{Hash: "p", Type: "application/pdf", Bytes: 3, Data: []byte("pdf")}
	picture := turn.Media{Hash: "h", Type: "image/png", Bytes: 3, Data: []byte("png")}
	seed, no := 7, false
	hello := []turn.Message{{Role: turn.RoleUser, Text: "Hello."}}
	look := []turn.WireTool{{Name: "look", Description: "Looks.", Schema: schema}}
	tier := "flex"
	if wire.API() == turn.APIMessages {
		tier = "standard_only"
	}
	budget := turn.Reasoning{Format: turn.ThinkingBudget}
	for _, p := range []turn.Prompt{
		{Messages: hello},
		{Messages: hello, Tools: look, Settings: turn.ModelSettings{Effort: "high", ReasoningSummary: "auto", Verbosity: "low",
			ServiceTier: tier, TopP: &warm, Stop: []string{"END"}, Seed: &seed, ParallelToolCalls: &no, ToolChoice: "look"}},
		{Messages: hello, Tools: look, Settings: turn.ModelSettings{Effort: "max", ToolChoice: turn.ChoiceNone}},
		{Messages: hello, Tools: look, Settings: turn.ModelSettings{Effort: "off", ToolChoice: turn.ChoiceRequired}},
		{Messages: hello, Reasoning: budget, Settings: turn.ModelSettings{Effort: "medium", ReasoningSummary: "off"}},
		{System: "Be brief.", Note: "Answer in JSON.", Settings: turn.ModelSettings{Temperature: &warm}, MaxTokens: 100, CacheKey: "abc",
			OutputSchema: schema,
			Tools:        []turn.WireTool{{Name: "look", Description: "Looks.", Schema: schema}, {Name: "plain"}},
			Messages: []turn.Message{
				{Role: turn.RoleUser, Text: "Look at this.", Media: []turn.Media{picture, paper}},
				{Role: turn.RoleAssistant, Text: "I look.", ToolCalls: []turn.ToolCall{call}},
				{Role: turn.RoleTool, CallID: call.ID, Outcome: turn.OutcomeOK, Text: "Seen.", Media: []turn.Media{picture}},
				{Role: turn.RoleAssistant, ToolCalls: []turn.ToolCall{{ID: "2.0", Tool: "look", Arguments: `{}`}}},
				{Role: turn.RoleTool, CallID: "2.0", Outcome: turn.OutcomeError, Text: "No."},
				{Role: turn.RoleUser, Text: "And now?"},
			}},
	} {
		p.Model = "m"
		if wire.API() == turn.APIMessages { // the vendor's client no longer declares them; earlier models take them
			p.Settings.Temperature, p.Settings.TopP = nil, nil
		}
		_, err := e.Infer(t.Context(), p, &heard{})
		require.Error(t, err) // the server answers nothing else
	}
	require.GreaterOrEqual(t, len(bodies), 2)
	return bodies
}
