package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// tally is an answer that a program reads.
type tally struct {
	Files int    `json:"files" jsonschema:"the number of files"`
	Note  string `json:"note,omitempty"`
}

func TestAnAnswerMatchesItsSchemaOrIsRefused(t *testing.T) {
	t.Parallel()
	withoutTools := func(c *config.Config) { // and without a JSON mode, in which the provider gets the schema of an action
		c.Models = append(c.Models, config.Model{Name: "openai:scripted", Capabilities: []string{"vision"}})
	}
	for name, c := range map[string]struct {
		script   fakellm.Script
		code     turn.Code
		requests int
		change   func(*config.Config)
		keep     string
	}{
		"valid": {fakellm.Text(`{"files":3}`), "", 1, nil, ""},
		"after a call": {fakellm.Steps(fakellm.Call("local_quick_echo", `{"text":"a"}`), fakellm.Text(`{"files":3}`)), "", 2,
			nil, ""},
		"in a fence": {fakellm.Text("```json\n{\"files\":3}\n```"), "", 1, nil, ""},
		"valid at last": {fakellm.Steps(fakellm.Text("Three files."), fakellm.Text(`{"files":3}`)), "", 2, nil,
			""},
		"never valid":     {fakellm.Text(`{"files":"three"}`), turn.CodeInvalidOutput, 2, nil, "v1-output-invalid"},
		"in JSON actions": {fakellm.JSONFinal(`{"files":3}`), "", 1, withoutTools, ""},
		"another key":     {fakellm.Text(`{"files":3,"dirs":1}`), turn.CodeInvalidOutput, 2, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := []func(*config.Config){}
			if c.change != nil {
				change = append(change, c.change)
			}
			e := newEnv(t, c.script, change...)
			e.work(withEcho()...)
			ever := client.New(e.client, client.Options{Journal: e.journal, TaskQueue: e.cfg.Temporal.TaskQueue})
			answer, result, err := client.Ask[tally](t.Context(), ever, client.SendInput{Session: session(t),
				Message: turn.UserMessage{Text: "How many files?"}})
			requests := e.model.Requests()
			require.Len(t, requests, c.requests)
			assert.Contains(t, string(requests[0].Body), "the number of files")
			assert.Equal(t, c.change == nil, requests[0].Chat.Schema != nil, "the provider gets the schema")
			if c.code == "" {
				require.NoError(t, err)
				assert.Equal(t, tally{Files: 3}, answer)
				assert.JSONEq(t, `{"files":3}`, result.Answer)
			} else {
				assert.Equal(t, c.code, turn.CodeOf(err), "%v", err)
				assert.Equal(t, turn.StateFailed, result.State)
				assert.NotEmpty(t, result.Answer, "what the model said is kept")
			}
			if c.keep != "" {
				e.keep(c.keep, session(t), result.Turn)
			}
		})
	}
}

func TestCLIAsksForJSON(t *testing.T) {
	t.Parallel()
	model := fakellm.Start(t, fakellm.Cases(fakellm.When("badly", fakellm.Text("No.")),
		fakellm.When("", fakellm.Text(`{"files":3}`))))
	h := newUserFolder(t, asking(model))
	h.write("schema.json", `{"type":"object","properties":{"files":{"type":"integer"}},"required":["files"]}`)
	h.write("list.json", `{"type":"array"}`)
	h.write("broken.json", `{`)
	h.worker()
	assert.Equal(t, "{\"files\":3}\n", h.everturn("run", "--output-schema", "schema.json", "Count").exits(0).out.String())
	h.everturn("run", "--output-schema", "schema.json", "Count", "badly").exits(1)
	assert.Contains(t, h.everturn("run", "--output-schema", "list.json", "Count").exits(3).err.String(), `"object"`)
	assert.Contains(t, h.everturn("run", "--output-schema", "broken.json", "Count").exits(3).err.String(), "broken.json")
	assert.Contains(t, h.everturn("run", "--output-schema", "none.json", "Count").exits(3).err.String(), "none.json")
}
