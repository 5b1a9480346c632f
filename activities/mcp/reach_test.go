package mcp

import (
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/workflows/turn"
)

func hints(readOnly, open bool) *sdk.ToolAnnotations {
	return &sdk.ToolAnnotations{ReadOnlyHint: readOnly, OpenWorldHint: &open}
}

func describe(t *testing.T, s Server, tool *sdk.Tool) turn.Descriptor {
	t.Helper()
	s.ID = "srv"
	tool.Name, tool.InputSchema = "tool", &jsonschema.Schema{Type: "object"}
	d, _, err := describer{prefix: "mcp/srv", server: s, settings: s.Tools}.describe(tool)
	require.NoError(t, err)
	return d
}

// TestReachIsTheOperatorsWordOrATrustedServers checks that a server's annotations about its tools' effects count only
// if the server is trusted, and only if they are explicit.
func TestReachIsTheOperatorsWordOrATrustedServers(t *testing.T) {
	settings := map[string]tool.Settings{"tool": {ReadOnly: true}}
	for name, c := range map[string]struct {
		server Server
		hints  *sdk.ToolAnnotations
		want   turn.Effects
	}{
		"nothing is said":               {Server{}, nil, turn.Effects{Taints: true}},
		"a stranger says it only reads": {Server{}, hints(true, false), turn.Effects{Taints: true}},
		"a trusted one says nothing":    {Server{Trust: true}, nil, turn.Effects{}},
		"a trusted one reads":           {Server{Trust: true}, &sdk.ToolAnnotations{ReadOnlyHint: true}, turn.Effects{}},
		"a trusted one reads outside":   {Server{Trust: true}, hints(true, true), turn.Effects{}},
		"a trusted one reads here":      {Server{Trust: true}, hints(true, false), turn.Effects{ReadOnly: true}},
		"a trusted one writes here":     {Server{Trust: true}, hints(false, false), turn.Effects{}},
		"the operator knows":            {Server{Tools: settings}, nil, turn.Effects{ReadOnly: true, Taints: true}},
		"everything taints":             {Server{Trust: true, TaintsAll: true}, nil, turn.Effects{Taints: true}},
		"the server remembers": {Server{Trust: true, SessionAffinity: true}, nil,
			turn.Effects{SessionAffinity: true}},
		"a stranger that remembers taints": {Server{SessionAffinity: true}, nil,
			turn.Effects{Taints: true, SessionAffinity: true}},
	} {
		assert.Equal(t, c.want, describe(t, c.server, &sdk.Tool{Annotations: c.hints}).Effects, name)
	}
	destructive := true
	assert.Equal(t, turn.RiskHigh, describe(t, Server{},
		&sdk.Tool{Annotations: &sdk.ToolAnnotations{DestructiveHint: &destructive}}).Risk,
		"that a stranger calls its tool destructive is believed")
}

// TestTheHashCoversAllThatAToolSaysOfItself checks that the hash covers everything on which a model or an operator
// bases a decision, so that each change of it is drift.
func TestTheHashCoversAllThatAToolSaysOfItself(t *testing.T) {
	base := describe(t, Server{}, &sdk.Tool{}).Hash
	seen := map[string]string{base: "nothing"}
	for what, tool := range map[string]*sdk.Tool{
		"description": {Description: "x"}, "title": {Title: "x"},
		"output schema":   {OutputSchema: &jsonschema.Schema{Type: "object"}},
		"annotations":     {Annotations: hints(true, false)},
		"annotated title": {Annotations: &sdk.ToolAnnotations{Title: "x"}},
	} {
		h := describe(t, Server{}, tool).Hash
		assert.NotContains(t, seen, h, what)
		seen[h] = what
	}
	assert.Equal(t, base, describe(t, Server{Trust: true, SessionAffinity: true, TotalTimeout: time.Hour},
		&sdk.Tool{}).Hash,
		"what the operator says is not the server's")
}

func TestTheSetupIsWhatDecidesWhichToolsThereAre(t *testing.T) {
	setup := func(change func(*Server)) string {
		s := Server{ID: "srv", URL: "https://user:hunter2@mcp.example/v1?key=canary",
			Headers: map[string]string{"X": "canary"}, Allow: []string{"a"}}
		change(&s)
		return describer{prefix: "mcp/srv", server: s}.emptyCatalogue().ConfigHash
	}
	same := setup(func(*Server) {})
	assert.NotEmpty(t, same)
	for what, change := range map[string]func(*Server){
		"header":        func(s *Server) { s.Headers = map[string]string{"X": "another"} },
		"key":           func(s *Server) { s.URL = "https://mcp.example/v1?key=another" },
		"environment":   func(s *Server) { s.Env = map[string]string{"TOKEN": "x"} },
		"timeout":       func(s *Server) { s.CallTimeout = time.Hour },
		"client secret": func(s *Server) { s.OAuth.ClientSecret = "x" },
	} {
		assert.Equal(t, same, setup(change), what)
	}
	for what, change := range map[string]func(*Server){
		"path": func(s *Server) { s.URL = "https://mcp.example/v2" }, "allow": func(s *Server) { s.Allow = nil },
		"deny":      func(s *Server) { s.Deny = []string{"b"} },
		"transport": func(s *Server) { s.Transport = TransportSSE }, "command": func(s *Server) { s.Command = "x" },
		"args":      func(s *Server) { s.Args = []string{"x"} },
		"resources": func(s *Server) { s.Resources = true }, "prompts": func(s *Server) { s.Prompts = true },
	} {
		assert.NotEqual(t, same, setup(change), what)
	}
}

func TestTheOperatorsTimesAreInTheDescriptor(t *testing.T) {
	h, err := New(Options{Servers: []Server{
		{ID: "srv", Command: "x", CallTimeout: 7 * time.Second, TotalTimeout: time.Minute,
			Tools: map[string]tool.Settings{"own": {Timeout: time.Second, TotalTimeout: time.Hour}}},
		{ID: "unsaid", Command: "x"},
		{ID: "holds", Command: "x", CallTimeout: 7 * time.Second, ElicitationTimeout: 10 * time.Minute},
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	var held turn.Descriptor
	h.connectors["holds"].describer.applySettings(&held, &sdk.Tool{Name: "any"})
	assert.Equal(t, 10*time.Minute, held.ElicitationTimeout)
	assert.Zero(t, held.TotalTimeout, "what a call is held for is not its own")
	times := func(server, tool string) [2]time.Duration {
		var d turn.Descriptor
		h.connectors[server].describer.applySettings(&d, &sdk.Tool{Name: tool})
		return [2]time.Duration{d.Timeout, d.TotalTimeout}
	}
	assert.Equal(t, [2]time.Duration{7 * time.Second, time.Minute}, times("srv", "any"))
	assert.Equal(t, [2]time.Duration{time.Second, time.Hour}, times("srv", "own"))
	assert.Equal(t, [2]time.Duration{}, times("unsaid", "any"), "the turn decides")
}
