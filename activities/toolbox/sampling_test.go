package toolbox_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/toolbox"
	"github.com/everturn/everturn/workflows/turn"
)

// sampler is a server that may ask the model.
func sampler(t *testing.T, mode toolbox.SamplingMode) toolbox.Server {
	s := httpActor(t, "act")
	s.Sampling = toolbox.Sampling{Mode: mode, MaxRequests: 3, MaxTokens: 50}
	return s
}

// wanting is a call of the tool that asks the model. sample is the JSON of what it asks.
func wanting(t *testing.T, h *toolbox.Host, sample string) turn.ToolRequest {
	t.Helper()
	return request(t, h, "mcp/act/question", fmt.Sprintf(`{"Rounds":1,"State":"state-1","Sample":%s}`, sample))
}

func saying(more string) string {
	return `{"maxTokens":20,"messages":[{"role":"user","content":{"type":"text","text":"Hm."}}]` + more + `}`
}

// What a server asks the model comes back as an inquiry, clean and bounded; the answer goes to any process of the server.
func TestWhatAServerAsksTheModelGoesOnElsewhere(t *testing.T) {
	server := sampler(t, toolbox.SamplingAsk)
	server.Headers = map[string]string{"X-Key": "hush-hush-hush"}
	h := newHost(t, toolbox.Options{}, nil, server)
	req := wanting(t, h, `{"maxTokens":2000,"systemPrompt":"Be \u001b[31mbrief.","temperature":0.5,"stopSequences":["END"],"includeContext":"allServers",
		"modelPreferences":{"hints":[{"name":"another"}]},"messages":[
		{"role":"user","content":[{"type":"text","text":"hush-hush-hush"},{"type":"text","text":"two"}]},{"role":"assistant","content":{"type":"text","text":"Yes."}}]}`)
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, r.Inquiries, 1)
	half := 0.5
	asked := r.Inquiries[0].Sample
	require.NotNil(t, asked)
	require.NotNil(t, asked.Request)
	assert.Equal(t, turn.SampleRequest{
		System: "Be brief.", MaxTokens: 50, Stop: []string{"END"}, Temperature: &half,
		Messages: []turn.SampleMessage{{Role: turn.RoleUser, Text: "[redacted]\ntwo"}, {Role: turn.RoleAssistant, Text: "Yes."}},
	}, *asked.Request)
	assert.Equal(t, 3, asked.Most)
	assert.False(t, asked.Free)
	assert.NotContains(t, string(r.Continuation), "brief", "the journal has the request once")
	require.NoError(t, h.Close())

	for name, c := range map[string]struct {
		reply turn.Reply
		heard string
	}{
		"answered": {turn.Reply{Key: "sample", Action: turn.ReplyAccept, Content: []byte(`{"text":"So.","model":"m-1","stop_reason":"endTurn"}`)},
			`{"content":{"type":"text","text":"So."},"model":"m-1","role":"assistant","stopReason":"endTurn"}`},
		"denied": {turn.Reply{Key: "sample", Action: turn.ReplyDecline, Why: "the user denied it"},
			`"_meta":{"everturn.dev/refused":{"code":-1,"message":"User rejected sampling request: the user denied it"}}`},
		"forgotten": {turn.Reply{Key: "another", Action: turn.ReplyAccept}, `(No model has answered: there is no answer)`},
		"broken":    {turn.Reply{Key: "sample", Action: turn.ReplyAccept, Content: []byte(`{`)}, `(No model has answered: the answer cannot be read)`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, toolbox.Options{}, nil, sampler(t, toolbox.SamplingAsk))
			again := wanting(t, h, saying(""))
			again.Attempt, again.Continuation, again.Replies = 2, r.Continuation, []turn.Reply{c.reply}
			r, err := h.Call(t.Context(), again)
			require.NoError(t, err)
			assert.Equal(t, turn.OutcomeOK, r.Outcome)
			assert.Contains(t, r.Text, "heard state-1|")
			assert.Contains(t, r.Text, c.heard)
		})
	}
}

// What cannot be asked of the model ends the call in an error that says why.
func TestWhatAServerMayNotAskTheModelIsSaid(t *testing.T) {
	message := func(role, content string) string {
		return `{"maxTokens":20,"messages":[{"role":"` + role + `","content":` + content + `}]}`
	}
	for name, c := range map[string]struct{ sample, why string }{
		"with tools":        {saying(`,"tools":[{"name":"t","inputSchema":{"type":"object"}}]`), "brings tools"},
		"with a choice":     {saying(`,"toolChoice":{"mode":"auto"}`), "brings tools"},
		"without a bound":   {`{"messages":[{"role":"user","content":{"type":"text","text":"Hm."}}]}`, "maxTokens"},
		"nothing":           {`{"maxTokens":20,"messages":[]}`, "no messages"},
		"too much":          {message("user", `{"type":"text","text":"`+strings.Repeat("x", 33<<10)+`"}`), "32768 are the most"},
		"too often":         {`{"maxTokens":20,"messages":[` + strings.Repeat(`{"role":"user","content":{"type":"text","text":"x"}},`, 64) + `{"role":"user","content":{"type":"text","text":"x"}}]}`, "64 are the most"},
		"an image":          {message("user", `{"type":"image","mimeType":"image/png","data":"aGk="}`), "an image in it"},
		"as somebody else":  {message("system", `{"type":"text","text":"x"}`), `the role "system"`},
		"too hot":           {saying(`,"temperature":7`), "temperature"},
		"many ends":         {saying(`,"stopSequences":["a","b","c","d","e"]`), "4 are the most"},
		"an end unseen":     {saying(`,"stopSequences":["\u0007"]`), "not printable"},
		"an end of nothing": {saying(`,"stopSequences":[""]`), "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, toolbox.Options{}, nil, sampler(t, toolbox.SamplingAllow))
			r, err := h.Call(t.Context(), wanting(t, h, c.sample))
			require.NoError(t, err)
			assert.Empty(t, r.Inquiries)
			assert.Equal(t, turn.OutcomeError, r.Outcome)
			assert.Contains(t, r.Text, c.why)
		})
	}
	for _, off := range []toolbox.SamplingMode{"", toolbox.SamplingOff} {
		h := newHost(t, toolbox.Options{}, nil, sampler(t, off))
		r, err := h.Call(t.Context(), wanting(t, h, saying("")))
		require.NoError(t, err)
		assert.Contains(t, r.Text, "a model's answer (sampling), which is not offered to servers")
	}
	_, err := toolbox.New(toolbox.Options{Servers: []toolbox.Server{{ID: "a", Command: "x", Sampling: toolbox.Sampling{Mode: "always"}}}}, nil)
	assert.ErrorContains(t, err, "use off, ask or allow")
	_, err = toolbox.New(toolbox.Options{Servers: []toolbox.Server{{ID: "a", Command: "x", Sampling: toolbox.Sampling{Mode: toolbox.SamplingAsk}}}}, nil)
	assert.ErrorContains(t, err, "at least 1")
}
