package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// canary returns a secret that must appear only in the process it was given to.
func canary(slot string) string { return "canary-" + slot + "-5e1f09c2" }

// slots are all places that can hold a secret: in a configuration, and in what is fetched with it.
var slots = []string{
	"llm_api_key", "temporal_api_key", "mcp_env", "mcp_env_short", "mcp_env_allow", "mcp_header", "mcp_header_token",
	"mcp_url",
	"oauth_client_secret", "oauth_access_token", "oauth_refused_secret", "broken_env",
}

// TestNoSecretLeavesItsProcess puts a canary into every slot. It runs turns with servers that leak what they were given
// (on stderr, in results, errors, progress and a tool's description), with servers that cannot be started, with
// credentials that are refused, and with a provider that repeats its key.
func TestNoSecretLeavesItsProcess(t *testing.T) {
	t.Parallel()
	c := newCage(t)
	h, worker := c.userFolder, c.userFolder.worker()
	worker.says("worker polls")
	c.apart()
	var output strings.Builder
	start := func(args ...string) {
		one := h.everturn(args...)
		output.WriteString(one.out.String() + one.err.String())
	}
	sessions := []string{"env", "header", "oauth", "refused", "ask"}
	for _, name := range sessions[:3] {
		start("run", "-s", name, "tell "+name)
		start("run", "-o", "jsonl", "-s", name, "tell "+name)
	}
	start("run", "-s", "refused", "refuse")
	start("run", "-o", "jsonl", "-s", "refused", "refuse")
	asking := h.begin(nil, "run", "-s", "ask", "ask env")
	require.Eventually(t, func() bool {
		return strings.Contains(h.everturn("list").out.String(), "ask") && len(c.questions("ask")) > 0
	}, within, 200*time.Millisecond)
	for _, args := range [][]string{{"list"}, {"show", "ask"}, {"answer", "ask", "--decline"}} {
		start(args...)
	}
	asking.wait()
	output.WriteString(asking.out.String() + asking.err.String())
	assert.Contains(t, output.String(), "[redacted]", "what the server asks is shown")
	for _, args := range [][]string{{"show", "env"}, {"show", "-o", "json", "header"}, {"export", "env"},
		{"export", "oauth"}, {"list"}, {"tools"},
		{"tools", "-o", "json"}, {"tools", "status"}, {"doctor"}} {
		start(args...)
	}
	settings := h.everturn("config", "show", "--origin").exits(0)
	c.told()
	for _, session := range sessions {
		output.WriteString(historiesText(t, session))
	}
	output.WriteString(worker.out.String() + worker.err.String())
	for _, slot := range slots {
		if slot != "mcp_url" { // the command prints a URL as it is configured
			assert.NotContains(t, settings.out.String()+settings.err.String(), canary(slot))
		}
		assert.False(t, strings.Contains(output.String(), canary(slot)), "%s is in what is shown, logged or recorded:\n%s",
			slot, around(output.String(), canary(slot)))
		assert.Empty(t, filesWith(t, h.path(".everturn"), canary(slot), ""), "%s is in the database", slot)
		for _, q := range c.model.Requests() {
			assert.False(t, bytes.Contains(q.Body, []byte(canary(slot))), "%s was sent to the model:\n%s", slot,
				around(string(q.Body), canary(slot)))
		}
	}
	worker.end()
	for _, slot := range slots {
		assert.Empty(t, filesWith(t, h.dir, canary(slot), "agent.toml"), "%s is on disk", slot)
	}
}

// around returns the first occurrence of part in text, with 300 bytes before it and 100 after.
func around(text, part string) string {
	i := strings.Index(text, part)
	if i < 0 {
		return ""
	}
	return text[max(0, i-300):min(len(text), i+len(part)+100)]
}

// cage is a home with a canary in every slot.
type cage struct {
	t          *testing.T
	userFolder *userFolder
	model      *fakellm.Server
}

// ways are the channels through which the tool leak reveals its secret.
var ways = []string{"result", "structured", "error", "protocol", "progress", "stderr"}

func newCage(t *testing.T) *cage {
	c := &cage{t: t}
	tell := func(server string) fakellm.Case {
		calls := make([]fakellm.ToolCall, len(ways))
		for i, way := range ways {
			calls[i] = fakellm.ToolCall{Name: "mcp_" + server + "_leak",
				Arguments: fmt.Sprintf(`{"text":"told %s %s","where":%q}`, server, way, way)}
		}
		steps := []fakellm.Script{fakellm.Calls(calls...)}
		if server == "env" { // a crash ends the process, so it needs a step of its own
			steps = append(steps, fakellm.Call("mcp_env_leak", `{"text":"told env crash","where":"crash"}`))
		}
		return fakellm.When("tell "+server, fakellm.Steps(append(steps, fakellm.Text("Done."))...))
	}
	c.model = fakellm.Start(t, fakellm.Cases(
		fakellm.When("refuse", fakellm.Status(401, "invalid_api_key", "Incorrect API key provided: "+canary("llm_api_key"))),
		fakellm.When("ask env", fakellm.Steps(fakellm.Call("mcp_env_leak", `{"text":"told env ask","where":"ask"}`),
			fakellm.Text("Done."))),
		tell("env"), tell("header"), tell("oauth"),
	))
	c.userFolder = newUserFolder(t, "")
	remote := c.remote()
	tokens := c.tokens()
	c.userFolder.environ = append(c.userFolder.environ, "ALLOWED_TOKEN="+canary("mcp_env_allow"), "TEMPORAL_TLS=false",
		"TEMPORAL_API_KEY="+canary("temporal_api_key"))
	settings, err := os.ReadFile(c.userFolder.path("agent.toml"))
	require.NoError(t, err)
	text := string(settings) + asking(c.model) +
		"max_tool_calls = 50\nmax_consecutive_errors = 50\n[policy]\ntaint = \"off\"\nask_risk = \"never\"\n"
	text = strings.Replace(text, "model = \"scripted\"\n",
		fmt.Sprintf("model = \"scripted\"\nretry_for = \"0s\"\napi_key = %q\n", canary("llm_api_key")), 1)
	text += hosting(t, "env", fmt.Sprintf("env_allow = [\"ALLOWED_TOKEN\"]\nenv = {TOKEN = %q, OTHER = %q}",
		canary("mcp_env"), canary("mcp_env_short")),
		"-leak", "TOKEN,OTHER,ALLOWED_TOKEN", "-pidfile", c.userFolder.path("pid-env"))
	text += hosting(t, "other", "", "-pidfile", c.userFolder.path("pid-other"))
	text += hosting(t, "broken", fmt.Sprintf("env = {SECRET = %q}", canary("broken_env")), "-mode", "exit")
	http := func(id, more string) {
		text += fmt.Sprintf("[[mcp.servers]]\nid = %q\nurl = \"%s?key=%s\"\n%s\n", id, remote,
			canary("mcp_url"), more)
	}
	http("header", fmt.Sprintf("headers = {Authorization = \"Bearer %s\", X-Key = %q}", canary("mcp_header_token"),
		canary("mcp_header")))
	http("oauth", fmt.Sprintf("oauth = {token_url = %q, client_id = \"everturn\", client_secret = %q}", tokens+"/token",
		canary("oauth_client_secret")))
	http("refused", fmt.Sprintf("oauth = {token_url = %q, client_id = \"everturn\", client_secret = %q}", tokens+"/refuse",
		canary("oauth_refused_secret")))
	c.userFolder.write("agent.toml", text)
	return c
}

// remote starts an MCP server over HTTP and returns its URL.
func (c *cage) remote() string {
	c.t.Helper()
	server := c.userFolder.launch(exec.Command(binary(c.t, "./tests/mcpserver"), "-http", "127.0.0.1:0", "-leak", "NOTHING"))
	server.says("/mcp\n")
	return strings.TrimSpace(server.out.String())
}

// tokens starts an authorization server that issues tokens, or refuses to and repeats the secret.
func (c *cage) tokens() string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = r.ParseForm() // a form that cannot be parsed holds no secret
		_, secret, _ := r.BasicAuth()
		secret += r.Form.Get("client_secret")
		if r.URL.Path == "/refuse" {
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_client", "error_description": "wrong: " + secret})
			return
		}
		assert.Equal(c.t, canary("oauth_client_secret"), secret)
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": canary("oauth_access_token"), "token_type": "Bearer",
			"expires_in": 3600})
	}))
	c.t.Cleanup(s.Close)
	return s.URL
}

// questions returns the pending requests of a session.
func (c *cage) questions(session string) []turn.Request {
	c.t.Helper()
	j, err := sqlite.Open(c.t.Context(), c.userFolder.path(".everturn/journal.db"), sqlite.Options{Synchronous: "normal"})
	require.NoError(c.t, err)
	defer j.Close()
	list, err := j.PendingRequests(c.t.Context(), session, 10)
	require.NoError(c.t, err)
	return list
}

// told checks that the servers leaked everything they had, so that a search that finds nothing is meaningful.
func (c *cage) told() {
	c.t.Helper()
	results := map[string]string{}
	for _, q := range c.model.Requests() {
		for _, m := range q.Chat.Messages {
			for _, server := range []string{"env", "header", "oauth"} {
				for _, way := range ways {
					if m.Role == "tool" && strings.Contains(m.Content, "told "+server+" "+way) {
						results[server+" "+way] = m.Content
					}
				}
			}
		}
	}
	for _, server := range []string{"env", "header", "oauth"} {
		for _, way := range ways {
			assert.Contains(c.t, results[server+" "+way], "[redacted]", "%s did not tell by %s", server, way)
		}
	}
	assert.Equal(c.t, "Bearer "+canary("llm_api_key"), c.model.Requests()[0].Header.Get("Authorization"),
		"the provider's key is in use")
}

// apart checks that each server process has the secrets it was given and no others.
func (c *cage) apart() {
	c.t.Helper()
	given := environOf(c.t, c.userFolder.path("pid-env"))
	for _, slot := range []string{"mcp_env", "mcp_env_short", "mcp_env_allow"} {
		assert.Contains(c.t, given, canary(slot))
	}
	for _, slot := range slots {
		assert.NotContains(c.t, environOf(c.t, c.userFolder.path("pid-other")), canary(slot))
		if !strings.HasPrefix(slot, "mcp_env") {
			assert.NotContains(c.t, given, canary(slot))
		}
	}
}

// environOf returns the environment of the process whose ID is in the file.
func environOf(t *testing.T, pidfile string) string {
	t.Helper()
	b, err := os.ReadFile(pidfile)
	require.NoError(t, err)
	pid := strings.TrimSpace(string(b))
	_, err = strconv.Atoi(pid)
	require.NoError(t, err)
	env, err := os.ReadFile(filepath.Join("/proc", pid, "environ"))
	require.NoError(t, err, "server %s is gone", pid)
	return string(env)
}
