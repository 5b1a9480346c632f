package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// TestAnAgentNarrowsTheConfiguration runs turns of two agents on one worker. The second one has its own prompt, model,
// temperature and limits, and only some of the tools; a message narrows them further, and nothing widens them.
func TestAnAgentNarrowsTheConfiguration(t *testing.T) {
	t.Parallel()
	m := fakellm.Cases(
		fakellm.When("Read", fakellm.Steps(fakellm.Call("local_read_file", `{"path":"x"}`), fakellm.Text("Read."))),
		fakellm.When("Echo", fakellm.Steps(fakellm.Call("local_echo", `{"text":"a"}`), fakellm.Text("Echoed."))),
		fakellm.When("", fakellm.Text("Hello.")))
	e := newEnv(t, m, func(c *config.Config) {
		c.Agents = []turn.Agent{{ID: "reviewer", SystemPrompt: "You review.", Model: "openai:critic",
			ModelSettings: turn.ModelSettings{Temperature: ptr(0.5)},
			Tools:         []string{"local/read_file", "local/list_files"}, Ask: []string{"local/read_file"}, MaxSteps: 2}}
	})
	e.work(withEcho()...)
	as := func(name, agent, text string, tools ...string) workflows.Result {
		return e.result(e.start(session(t)+"-"+name, workflows.Input{Agent: agent,
			Message: &workflows.Message{Text: text, Tools: tools}}))
	}
	assert.Equal(t, "scripted", as("default", "", "Hi").Model)
	assert.Equal(t, "critic", as("reviewer", "reviewer", "Hi").Model)
	requests := e.model.Requests()
	require.Len(t, requests, 2)
	assert.NotContains(t, string(requests[0].Body), "You review.")
	assert.Contains(t, string(requests[1].Body), "You review.")
	assert.Contains(t, string(requests[1].Body), `"temperature":0.5`)
	offered := func(q fakellm.Request) (names []string) {
		for _, tool := range q.Chat.Tools {
			if strings.HasPrefix(tool.Function.Name, "local_") {
				names = append(names, tool.Function.Name)
			}
		}
		return names
	}
	assert.ElementsMatch(t, []string{"local_list_files", "local_read_file"}, offered(requests[1]))
	as("fewer", "reviewer", "Hi", "local/list_*", "local/echo")
	assert.Equal(t, []string{"local_list_files"}, offered(e.model.Requests()[2]))

	res := as("echo", "reviewer", "Echo")
	assert.Equal(t, "Echoed.", res.Answer)
	run := e.start(session(t)+"-asks", workflows.Input{Agent: "reviewer", Message: &workflows.Message{Text: "Read"}})
	e.awaitEvent(run.GetRunID(), turn.EventApprovalRequested)
	require.NoError(t, e.client.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
	require.Error(t, run.Get(t.Context(), nil), "the agent asks for what it must ask for")
	app, _ := e.failure(e.start(session(t)+"-none", workflows.Input{Agent: "nobody",
		Message: &workflows.Message{Text: "Hi"}}))
	assert.Equal(t, string(turn.CodeConfigInvalid), app.Type())
	assert.Contains(t, app.Message(), "reviewer")
	rec, err := e.journal.Session(t.Context(), session(t)+"-reviewer")
	require.NoError(t, err)
	assert.Equal(t, "reviewer", rec.LastTurn.Agent)
}

// TestASessionKeepsItsAgent chooses an agent once for a session. Later messages go to the same agent.
func TestASessionKeepsItsAgent(t *testing.T) {
	t.Parallel()
	m := fakellm.Start(t, fakellm.Text("Hello."))
	h := newUserFolder(t,
		asking(m)+"[[agents]]\nid = \"reviewer\"\ndescription = \"reviews\"\nsystem_prompt = \"You review.\"\n"+
			"tools = [\"local/read_file\"]\nmax_steps = 3\n")
	h.worker()
	for _, args := range [][]string{{"--agent", "reviewer", "Hi"}, {"Again"}, {"--agent", "default", "And now"},
		{"At last"}} {
		h.everturn(append([]string{"run", "-s", "kept-agent"}, args...)...).exits(0)
	}
	var reviews []bool
	for _, q := range m.Requests() {
		reviews = append(reviews, strings.Contains(string(q.Body), "You review."))
	}
	assert.Equal(t, []bool{true, true, false, false}, reviews)
	assert.Contains(t, h.everturn("run", "--agent", "nobody", "Hi").exits(3).err.String(), "reviewer")
	list := decoded[[]map[string]any](h.everturn("agents", "list", "-o", "json").exits(0))
	require.Len(t, list, 2)
	assert.Equal(t, "default", list[0]["id"])
	assert.Contains(t, h.everturn("agents", "show", "reviewer").exits(0).out.String(), "3 steps")
	h.everturn("agents", "show", "nobody").exits(3)
}
