package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/activities/tools/schema"
	"github.com/everturn/everturn/workflows/turn"
)

// bomb is a short pattern whose program has 20,000 instructions.
var bomb = strings.Repeat("[^z]{0,1000}", 10) + "z"

// patterned is a server over HTTP whose tools take {"v": string} if the string matches the pattern with the tool's
// name.
func patterned(t *testing.T, patterns map[string]string) mcp.Server {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "patterned", Version: "1"}, &sdk.ServerOptions{PageSize: 1000})
	object := func(pattern string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"v":{"type":"string","pattern":%q}}}`, pattern))
	}
	for name, pattern := range patterns {
		tool := &sdk.Tool{Name: name, InputSchema: object(pattern)}
		server.AddTool(tool, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return words("done"), nil
		})
	}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true})
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return mcp.Server{ID: "srv", URL: s.URL, ConnectTimeout: 10 * time.Second}
}

func TestToolsWithLargePatternsAreLeftOut(t *testing.T) {
	patterns := map[string]string{"bomb": bomb, "small": "^[a-z]{1,64}$"}
	for i := range 20 { // together they exceed the bound of a list
		patterns[fmt.Sprintf("part%02d", i)] = strings.Repeat("[a-z]{900}", 4)
	}
	c := catalogue(t, newHTTPHost(t, mcp.Options{}, patterned(t, patterns)), "srv")
	dropped := strings.Join(c.Dropped, "\n")
	assert.Contains(t, dropped, "bomb: its schema has the pattern")
	assert.Contains(t, dropped, fmt.Sprintf("compile to more than %d instructions: allow fewer",
		schema.MaxListInstructions))
	assert.Len(t, c.Tools, schema.MaxListInstructions/3600+1, "those that fit, and the small one")
	assert.Equal(t, "mcp/srv/small", c.Tools[len(c.Tools)-1].ID)
}

func TestAQuestionWithALargePatternIsNotAsked(t *testing.T) {
	h := newHost(t, mcp.Options{}, httpActor(t, "act"))
	r, err := h.Call(t.Context(), asking(t, h, 1,
		`{"c":{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"`+bomb+
			`"}}}}}`))
	require.NoError(t, err)
	assert.Empty(t, r.Elicitations)
	assert.Equal(t, turn.OutcomeError, r.Outcome)
	assert.Contains(t, r.Text, "pattern")
}
