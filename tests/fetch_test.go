package tests

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// TestFetchingAsksForEachHostThatIsNotListed fetches pages of a listed host and of another one. What a page says taints
// the session, and a grant for a host still counts.
func TestFetchingAsksForEachHostThatIsNotListed(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a page") }))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	fetch := func(host, path string) fakellm.Reply {
		return fakellm.Call("local_fetch_url", fmt.Sprintf(`{"url":"http://%s:%s/%s"}`, host, u.Port(), path))
	}
	e := newEnv(t, fakellm.Steps(fetch("localhost", "a"), fetch("127.0.0.1", "a"), fetch("127.0.0.1", "b"),
		fetch("localhost", "b"), fetch("127.0.0.2", "a"), fakellm.Call("local_note", `{"text":"a"}`), fakellm.Text("Done.")),
		func(c *config.Config) {
			c.Web = config.Web{Fetch: true, Hosts: []string{"localhost"}, Networks: []string{"127.0.0.0/8", "::1/128"}}
			c.Policy.Taint = turn.TaintOn
		})
	e.work(engine.WithTool("note", "Notes.", func(context.Context, echoIn) (string, error) { return "noted", nil },
		engine.Risk(turn.RiskLow)))
	begun := e.say(session(t), workflows.Message{Text: "Read."})
	first := e.waits(begun.ID, 1)[0]
	assert.Contains(t, first.Arguments, "127.0.0.1")
	assert.Equal(t, turn.GrantHost, first.MaxGrant)
	assert.Contains(t, first.Why, "127.0.0.1")
	e.allow(session(t), first, turn.GrantHost)
	second := e.waits(begun.ID, 2)[1]
	assert.Contains(t, second.Arguments, "127.0.0.2", "a grant is for one host")
	e.allow(session(t), second, turn.GrantTool) // which does not count
	third := e.waits(begun.ID, 3)[2]
	assert.Equal(t, "local/note", third.Tool, "the pages taint the session")
	e.allow(session(t), third, "")
	assert.Equal(t, "Done.", e.ended(begun.ID).Answer)
}
