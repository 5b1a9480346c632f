package mcp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/workflows/turn"
)

// callOf calls the tool for a tenant.
func callOf(t *testing.T, h *mcp.Host, tenant, id, arguments string) (turn.ToolResult, error) {
	t.Helper()
	req := request(t, h, id, arguments)
	req.Tenant = tenant
	return h.Call(t.Context(), req)
}

// whose returns the process that serves the tenant, and the tenant that this process was started for.
func whose(t *testing.T, h *mcp.Host, tenant string) (process, output string) {
	t.Helper()
	r, err := callOf(t, h, tenant, "mcp/srv/whose", `{}`)
	require.NoError(t, err)
	require.Equal(t, turn.OutcomeOK, r.Outcome, r.Text)
	process, output, _ = strings.Cut(r.Text, ", ")
	return process, output
}

func TestEachTenantHasProcessesOfItsOwn(t *testing.T) {
	for name, env := range map[string]map[string]string{"told by the operator": {mcp.EnvTenant: "the operator's"},
		"not told": nil} {
		t.Run(name, func(t *testing.T) {
			s := stdioServer("srv")
			s.Env = env
			h := newHost(t, mcp.Options{}, s)
			owner := map[string]string{}
			for range 2 {
				for tenant, want := range map[string]string{
					"acme": `variable "acme" (true), metadata acme`, "beta": `variable "beta" (true), metadata beta`,
					"": `, metadata <nil>`,
				} {
					process, output := whose(t, h, tenant)
					assert.Contains(t, output, want)
					before, known := owner[process]
					assert.True(t, !known || before == tenant, "%q and %q share %s", before, tenant, process)
					owner[process] = tenant
				}
			}
			assert.Len(t, owner, 3, "each keeps its process")
			_, output := whose(t, h, "")
			assert.Equal(t, env != nil, strings.Contains(output, `"the operator's" (true)`), output)
		})
	}
}

func TestTenantsHaveConnectionsOfTheirOwnOverHTTP(t *testing.T) {
	url, _ := serveHTTP(t)
	h := newHTTPHost(t, mcp.Options{}, mcp.Server{ID: "srv", URL: url})
	for _, tenant := range []string{"", "acme", "beta", "acme"} {
		_, output := whose(t, h, tenant)
		want := "metadata " + tenant
		if tenant == "" {
			want = "metadata <nil>"
		}
		assert.Contains(t, output, want)
	}
	got := health(t, h)
	assert.Equal(t, 3, got.Connections)
	require.Len(t, got.Tenants, 3)
	for i, tenant := range []string{"", "acme", "beta"} {
		assert.Equal(t, tenant, got.Tenants[i].Tenant)
		assert.Equal(t, turn.ServerConnected, got.Tenants[i].State)
		assert.Equal(t, 1, got.Tenants[i].Connections)
	}
}

func TestWithoutTenantsHealthTellsOfNone(t *testing.T) {
	h := newHost(t, mcp.Options{}, stdioServer("srv"))
	call(t, h, "mcp/srv/echo", `{"text":"x"}`)
	assert.Empty(t, health(t, h).Tenants)
}

// TestATenantThatBreaksAServerBreaksItForItselfAlone checks that a tenant whose calls break a server does not affect
// other tenants: neither the end of its process, nor the backoff, nor the process's output.
func TestATenantThatBreaksAServerBreaksItForItselfAlone(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "ledger")
	h := newHost(t, mcp.Options{BackoffMin: time.Minute}, stdioServer("srv", "-ledger", ledger))
	slow := request(t, h, "mcp/srv/slow", `{"text":"x"}`)
	slow.Tenant = "beta"
	betas, cancel := async(t, h, slow)
	awaitEvent(t, ledger, "begun")
	before, _ := whose(t, h, "beta")

	crash := request(t, h, "mcp/srv/crash", `{"text":"secret of acme"}`)
	crash.Tenant = "acme"
	require.Eventually(t, func() bool {
		_, err := h.Call(t.Context(), crash)
		return err != nil && strings.Contains(err.Error(), "is tried again in")
	}, 20*time.Second, time.Millisecond)
	_, err := h.Call(t.Context(), crash)
	assert.ErrorContains(t, err, "secret of acme", "acme is told what its process said last")

	after, _ := whose(t, h, "beta")
	assert.Equal(t, before, after, "beta's process went with acme's")
	for _, tenant := range []string{"", "gamma"} {
		r, err := callOf(t, h, tenant, "mcp/srv/echo", `{"text":"well"}`)
		require.NoError(t, err, "%q pays for what acme did", tenant)
		assert.Equal(t, "well", r.Text)
	}
	got := health(t, h)
	assert.Equal(t, turn.ServerFailing, got.State, "the operator is told")
	for _, of := range got.Tenants {
		assert.Equal(t, of.Tenant == "acme", of.State == turn.ServerFailing, "%+v", of)
		assert.Equal(t, of.Tenant == "acme", !of.RetryAt.IsZero() && of.Problem != "", "%+v", of)
	}
	cancel()
	assert.Equal(t, turn.OutcomeUnknown, receive(t, betas).result.Outcome, "it was cancelled, and by nobody else")
}

func TestATenantDoesNotGoOnWithAnothersState(t *testing.T) {
	h := newHost(t, mcp.Options{}, stateful())
	first := turnRequest(t, h, "one", false)
	first.Tenant = "acme"
	_, err := h.Call(t.Context(), first)
	require.NoError(t, err)
	for _, tenant := range []string{"", "beta"} {
		req := first
		req.Tenant, req.Resume, req.OwningCall = tenant, true, req.CallID
		_, err = h.Call(t.Context(), req)
		assert.Equal(t, turn.CodeToolStateLost, turn.CodeOf(err), "%q is at acme's", tenant)
		req.Resume = false
		r, err := h.Call(t.Context(), req)
		require.NoError(t, err)
		assert.Contains(t, r.Text, "number 1", "%q is at acme's", tenant)
	}
	first.Resume, first.OwningCall = true, first.CallID
	r, err := h.Call(t.Context(), first)
	require.NoError(t, err)
	assert.Contains(t, r.Text, "number 2", "acme's own goes on")
}

// TestAChangeThatATenantSeesIsAskedAfter checks that all tenants share one catalogue. The list of a tenant's own
// process does not change it, but causes a refresh.
func TestAChangeThatATenantSeesIsAskedAfter(t *testing.T) {
	dir := t.TempDir()
	face := filepath.Join(dir, "face")
	s := stdioServer("srv", "-face", face)
	s.IdleTimeout = 100 * time.Millisecond
	h := newHost(t, mcp.Options{RefreshEvery: 20 * time.Millisecond}, s)
	reports := make(chan turn.Catalogue, 10)
	go h.Watch(t.Context(), func(c turn.Catalogue) { reports <- c })
	first := receive(t, reports)
	require.Empty(t, first.Problem)
	awaitState(t, h, turn.ServerIdle)
	require.NoError(t, os.WriteFile(face, []byte("description"), 0o600))
	req := turn.ToolRequest{Tenant: "acme", Tool: "mcp/srv/append", Hash: hashOf(t, first, "mcp/srv/append"),
		Arguments: []byte(`{"text":"x"}`), Timeout: 10 * time.Second}
	_, err := h.Call(t.Context(), req)
	assert.Equal(t, turn.CodeToolDrift, turn.CodeOf(err), "a tenant's own process is looked at, too")
	second := receive(t, reports)
	assert.Empty(t, second.Problem)
	assert.NotEqual(t, first.Hash, second.Hash)
}
