package servers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/loopback"
	"github.com/everturn/everturn/tests/servers/npm"
	"github.com/everturn/everturn/workflows/turn"
)

const everything = "@modelcontextprotocol/server-everything"

func TestEverythingOverStdio(t *testing.T) {
	t.Parallel()
	callEverything(t, newHarness(t, stdioServer(t, "everything", everything, "stdio")))
}

func TestEverythingOverHTTP(t *testing.T) {
	t.Parallel()
	port, _ := startEverything(t, "streamableHttp")
	callEverything(t, newHarness(t, httpServer("everything", port)))
}

// The transport before streamable HTTP.
func TestEverythingOverSSE(t *testing.T) {
	t.Parallel()
	port, _ := startEverything(t, "sse")
	callEverything(t, newHarness(t, config.MCPServer{
		ID: "everything", URL: fmt.Sprintf("http://127.0.0.1:%d/sse", port),
	}))
}

func startEverything(t *testing.T, transport string) (port int, s *remote) {
	t.Helper()
	npm.Need(t)
	port, err := loopback.Port()
	require.NoError(t, err)
	return port, everythingAt(t, port, transport)
}

func everythingAt(t *testing.T, port int, transport string) *remote {
	t.Helper()
	tree := npm.Need(t)
	return listening(t, port, t.TempDir(), []string{fmt.Sprintf("PORT=%d", port)}, tree.Node, tree.Bin(t, everything),
		transport)
}

// A remote server that was replaced does not know the sessions of its predecessor. The reference server reports that
// with 400 instead of the protocol's 404. The next turn must reach it nevertheless.
func TestARemoteServerIsReplaced(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"streamableHttp", "sse"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			port, s := startEverything(t, transport)
			server := httpServer("everything", port)
			if transport == "sse" {
				server.URL = fmt.Sprintf("http://127.0.0.1:%d/sse", port)
			}
			r := newHarness(t, server)
			r.turn(ask("echo", `{"message":"before"}`))
			s.end(t)
			everythingAt(t, port, transport)
			r.isBack()
			assert.Contains(t, r.turn(ask("echo", `{"message":"after"}`))[0], "after")
		})
	}
}

// isBack waits until a worker reports the server's tools again.
func (r *harness) isBack() {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		catalogues, err := r.journal.Catalogues(r.t.Context())
		require.NoError(r.t, err)
		return slices.ContainsFunc(catalogues, func(c turn.Catalogue) bool { return c.Server == r.server && c.Problem == "" })
	}, within, 10*time.Millisecond, "the server is not offered any more")
}

// callEverything calls the tools that the server offers to a client without elicitation, sampling and roots.
func callEverything(t *testing.T, r *harness) {
	t.Helper()
	results := r.turn(
		ask("echo", `{"message":"hello"}`),
		ask("get-sum", `{"a":2,"b":40}`),
		ask("get-annotated-message", `{"messageType":"error","includeImage":true}`),
		ask("get-structured-content", `{"location":"Chicago"}`),
		ask("get-tiny-image", ""),
		ask("get-resource-links", `{"count":2}`),
		ask("get-resource-reference", `{"resourceType":"Text","resourceId":7}`),
		ask("gzip-file-as-resource", `{"name":"a.gz","data":"data:text/plain,hello","outputType":"resource"}`),
		ask("trigger-long-running-operation", `{"duration":0.3,"steps":3}`),
		ask("toggle-simulated-logging", ""),
		ask("toggle-simulated-logging", ""),
		ask("toggle-subscriber-updates", ""),
		ask("toggle-subscriber-updates", ""),
		ask("get-env", ""),
		// it runs as a task only, which clients may lack
		call{tool: "simulate-research-query", args: `{"topic":"lighthouses"}`, ends: turn.OutcomeError},
	)
	for i, want := range []string{
		"hello", "42", "image/png", `"temperature"`, "image/png", "[link ", "Resource 7", "application/gzip", "Steps: 3",
		"", "", "", "", "PATH", "requires task",
	} {
		assert.Contains(t, results[i], want)
	}
	assert.NotContains(t, results[13], canary, "the server was given a secret of the worker")
	r.offersOnlyWhatWasCalled()
}

// Resources and prompts are offered as tools if the operator enables that.
func TestResourcesAndPrompts(t *testing.T) {
	t.Parallel()
	server := stdioServer(t, "everything", everything, "stdio")
	server.Offer, server.Allow = []config.Offer{config.OfferResources, config.OfferPrompts}, []string{"list_*", "read_resource", "get_prompt"}
	r := newHarness(t, server)
	results := r.turn(
		ask("list_resources", ""),
		ask("list_resources", `{"templates":true}`),
		ask("read_resource", `{"uri":"demo://resource/dynamic/text/3"}`),
		ask("read_resource", `{"uri":"demo://resource/dynamic/blob/4"}`),
		ask("list_prompts", ""),
		ask("get_prompt", `{"name":"args-prompt","arguments":{"city":"Oslo"}}`),
		call{tool: "read_resource", args: `{"uri":"demo://resource/none"}`, ends: turn.OutcomeError},
	)
	for i, want := range []string{"demo://resource/static", "demo://resource/dynamic/text/{resourceId}", "Resource 3",
		"[text/plain, ", "args-prompt", "Oslo"} {
		assert.Contains(t, results[i], want)
	}
	r.offersOnlyWhatWasCalled()
}
