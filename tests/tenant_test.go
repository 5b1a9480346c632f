package tests

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// of runs a turn of a tenant's session and returns its ID and result.
func (e *env) of(tenant, session, text string) (id string, res workflows.Result) {
	e.t.Helper()
	id = workflows.WorkflowID(tenant, session)
	run := e.start(id, workflows.Input{Tenant: tenant, Message: &workflows.Message{Text: text}})
	return run.GetRunID(), e.result(run)
}

// as returns the harness as a tenant reads its journal.
func (e *env) as(tenant string) *env {
	own := *e
	own.journal = e.journal.Tenant(tenant)
	return &own
}

func TestTenantsHaveTheirOwnServerProcesses(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Steps(
		fakellm.Call("mcp_ledger_whose", `{}`), fakellm.Call("mcp_ledger_whose", `{}`), fakellm.Text("That is whose."),
	), newEffectServer(t).host(config.MCPTool{}))
	e.work()
	owner := map[string]string{}
	for round, tenant := range []string{"acme", "beta", "", "acme", "beta", ""} {
		session := t.Name() + "-" + tenant + string(rune('0'+round))
		id, res := e.of(tenant, session, "Whose is it?")
		require.Equal(t, turn.StateCompleted, res.State)
		assert.Equal(t, session, res.Session, "the session's name is without its tenant")
		own := e.as(tenant)
		rec, err := own.journal.Session(t.Context(), session)
		require.NoError(t, err)
		assert.Equal(t, tenant, rec.Tenant)
		for _, c := range own.calls(id, 2) {
			process, output, _ := strings.Cut(c.Text, ", ")
			if tenant == "" {
				assert.Equal(t, `variable "" (false), metadata <nil>`, output)
			} else {
				assert.Equal(t, `variable "`+tenant+`" (true), metadata `+tenant, output)
			}
			before, known := owner[process]
			assert.True(t, !known || before == tenant, "%q and %q share %s", before, tenant, process)
			owner[process] = tenant
		}
		own.sound(t.Context(), session, nil)
		if tenant == "acme" {
			e.keep("v1-tenant", workflows.WorkflowID(tenant, session), id)
		}
	}
	assert.Len(t, owner, 3, "a tenant's turns share its process")
}

// tenantUserFolder returns a home in which acme has a session with a secret, and one whose turn waits for an approval.
func tenantUserFolder(t *testing.T) (h *userFolder, told, waiting, turnID string) {
	model := fakellm.Start(t, fakellm.Cases(
		fakellm.When("Tell", fakellm.Text("the secret of acme")),
		fakellm.When("Read", fakellm.Steps(fakellm.Call("local_read_file", `{"path":"secret.txt"}`),
			fakellm.Text("It is read."))),
		fakellm.When("", fakellm.Text("Hello.")),
	))
	h = newUserFolder(t, asking(model)+askingToRead)
	h.worker()
	told, waiting = t.Name()+"-told", t.Name()+"-wait"
	h.everturn("--tenant", "acme", "run", "-s", told, "Tell me the secret").exits(0)
	h.everturn("--tenant", "acme", "run", "-s", waiting, "Read the secret").exits(6)
	list := decoded[[]journal.SessionRecord](h.everturn("--tenant", "acme", "list", "-o", "json").exits(0))
	require.Len(t, list, 2)
	for _, s := range list {
		if s.ID == told {
			turnID = s.LastTurn.ID
		}
	}
	require.NotEmpty(t, turnID)
	return h, told, waiting, turnID
}

// addressed are the commands that take a session or find the last one. TOLD and WAIT stand for acme's sessions, OWN for
// a session of the tenant that runs the command, TURN for acme's turn.
var addressed = map[string][][]string{
	"answer":    {{"answer", "WAIT", "1.0", "text"}},
	"approvals": {{"approvals", "WAIT", "-o", "json"}},
	"approve":   {{"approve", "WAIT", "1.0", "--yes"}, {"approve", "WAIT", "--all"}},
	"deny":      {{"deny", "WAIT", "1.0"}},
	"attach": {
		{"attach", "TOLD"}, {"attach", "TOLD", "--turn", "TURN"}, {"attach", "OWN", "--turn", "TURN"},
		{"attach", "-o", "jsonl", "--no-wait", "WAIT"},
	},
	"compact": {{"compact", "TOLD"}, {"compact", "TOLD", "--focus", "names", "-o", "json"}},
	"diff":    {{"diff", "OWN", "TOLD"}, {"diff", "TOLD", "WAIT", "-o", "json"}},
	"export":  {{"export", "TOLD"}},
	"result":  {{"result", "WAIT", "1.0", "text"}},
	"fork":    {{"fork", "TOLD", "--at", "1", "--as", "mine"}},
	"rewind":  {{"rewind", "TOLD", "--to", "1"}},
	"show":    {{"show", "TOLD"}, {"show", "WAIT", "-o", "json"}},
	"stop":    {{"stop", "WAIT"}},
}

// finding are the commands that find sessions by themselves.
var finding = [][]string{
	{"list"}, {"list", "-o", "json"}, {"approvals"}, {"approvals", "-o", "json"}, {"show"}, {"export"},
	{"attach", "--no-wait"}, {"stop"}, {"open"},
	{"compact"},
	{"rewind", "--to", "1"}, {"__complete", "show", ""}, {"__complete", "approve", "WAIT", ""},
	{"__complete", "answer", "WAIT", ""},
	{"schedule", "list"}, {"tools", "diff"}, {"usage", "--by", "session"}, {"usage", "--by", "model", "-o", "json"},
}

// others are the commands that do not concern sessions, or are tested below.
var others = []string{
	"completion", "config", "dev", "doctor", "events", "help", "init", "list", "tools", "trust", "version", "man",
	// of no session
	"usage",           // of the tenant
	"serve", "tokens", // of the tenant of a token: tested by TestTenants of internal/httpapi and by TestCLITokens
	"tape",                                              // only the journal of its tenant
	"canvas",                                            // tested with the canvases
	"import", "open", "run", "send", "schedule", "chat", // tested below
	"journal", "keys", "codec", "limits", "models", "agents", "skills", "rollout", "worker", "workers",
	// for the operator, who has the whole journal
}

func TestNoCommandShowsAnotherTenantsSession(t *testing.T) {
	t.Parallel()
	h, told, waiting, turnID := tenantUserFolder(t)
	const tenant = "beta"
	own := "own-" + t.Name()
	h.everturn("--tenant", tenant, "run", "-s", own, "Hello").exits(0)
	put := func(args []string, told, waiting, turnID string) []string {
		out := []string{"--tenant", tenant}
		for _, a := range args {
			out = append(out, strings.NewReplacer("TOLD", told, "WAIT", waiting, "OWN", own, "TURN", turnID).Replace(a))
		}
		return out
	}
	for _, commands := range addressed {
		for _, args := range commands {
			c := h.everturn(put(args, told, waiting, turnID)...).wait()
			nobody := h.everturn(put(args, "nowhere", "nobody", "6d3a0c7e-0000-4000-8000-000000000000")...).wait()
			output := strings.NewReplacer(told, "nowhere", waiting, "nobody", turnID, "6d3a0c7e-0000-4000-8000-000000000000").
				Replace(c.out.String() + c.err.String())
			assert.Equal(t, nobody.out.String()+nobody.err.String(), output, "%q %v tells it from a session that is not there",
				tenant, args)
			assert.Equal(t, nobody.code(), c.code(), "%q %v", tenant, args)
		}
	}
	for _, args := range finding {
		c := h.everturn(put(args, told, waiting, turnID)...).wait()
		assert.NotContains(t, c.out.String()+c.err.String(), "secret", "%q %v", tenant, args)
		if args[0] != "__complete" {
			assert.NotContains(t, c.out.String()+c.err.String(), told, "%q %v", tenant, args)
		}
		assert.NotContains(t, c.out.String(), waiting+"\n", "%q %v", tenant, args)
	}
	c := h.everturn("--tenant", "acme", "attach", "--no-wait", waiting).exits(6)
	assert.Contains(t, c.err.String(), "\n  everturn --tenant acme approve "+waiting+" 1.0 --hash ",
		"what is proposed acts for the same tenant")
	h.everturn("--tenant", "acme", "approve", waiting, "1.0", "--yes").exits(0)
	c = h.everturn("--tenant", "acme", "attach", "-q", waiting).exits(0)
	assert.Equal(t, "It is read.\n", c.out.String(), "the turn went on as if nobody had asked for it")
	assert.Contains(t, h.everturn("--tenant", "acme", "show", told).exits(0).out.String(), "the secret of acme")
	h.everturn("--tenant", "acme", "attach", "-q", told).exits(0).says("the secret of acme")
}

// TestEveryCommandIsCheckedForTenants checks that every command is in the table above or among others.
func TestEveryCommandIsCheckedForTenants(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, "")
	commands := regexp.MustCompile(`(?m)^  ([a-z]+) {2,}`).FindAllStringSubmatch(h.everturn("--help").exits(0).out.String(),
		-1)
	require.NotEmpty(t, commands)
	for _, c := range commands {
		name := c[1]
		_, known := addressed[name]
		assert.True(t, known || slices.Contains(others, name), "what does %s show of other tenants' sessions?", name)
	}
}

// TestTenantsHaveTheirOwnSchedules checks that schedules are separate for each tenant, and that the turns they start
// belong to that tenant.
func TestTenantsHaveTheirOwnSchedules(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, asking(fakellm.Start(t, fakellm.Text("Done."))))
	h.worker()
	name := t.Name()
	for _, tenant := range []string{"acme", "beta"} {
		h.everturn("--tenant", tenant, "schedule", "create", name, "--every", "24h", "For "+tenant).exits(0)
		h.everturn("--tenant", tenant, "schedule", "create", name+"-shared", "--session", name+"-"+tenant, "--every", "24h",
			"For "+tenant).exits(0)
		t.Cleanup(func() {
			h.everturn("--tenant", tenant, "schedule", "delete", name).exits(0)
			h.everturn("--tenant", tenant, "schedule", "delete", name+"-shared").exits(0)
		})
	}
	for _, verb := range []string{"pause", "resume", "trigger", "delete"} {
		c := h.everturn("schedule", verb, name).exits(3)
		assert.Contains(t, c.err.String(), "there is no schedule", verb)
	}
	h.everturn("--tenant", "acme", "schedule", "trigger", name).exits(0)
	h.everturn("--tenant", "acme", "schedule", "trigger", name+"-shared").exits(0)
	var list []journal.SessionRecord
	require.Eventually(t, func() bool {
		list = decoded[[]journal.SessionRecord](h.everturn("--tenant", "acme", "list", "-o", "json").exits(0))
		return len(list) == 2 && list[0].LastTurn.State.Terminal() && list[1].LastTurn.State.Terminal()
	}, within, 100*time.Millisecond)
	for _, s := range list {
		assert.NotContains(t, s.ID, "tenant:")
		assert.Equal(t, "For acme", s.FirstText)
	}
	for tenant, want := range map[string]bool{"acme": true, "": false, "gamma": false} {
		require.Eventually(t, func() bool {
			out := h.everturn("--tenant", tenant, "schedule", "list").exits(0).out.String()
			return strings.Contains(out, name) == want && !strings.Contains(out, "For beta")
		}, within, 100*time.Millisecond, "%q", tenant)
	}
	assert.Empty(t, decoded[[]journal.SessionRecord](h.everturn("--tenant", "beta", "list", "-o", "json").exits(0)))
}
