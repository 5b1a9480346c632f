package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type confirmIn struct {
	Text   string `json:"text" jsonschema:"the line to append"`
	Block  string `json:"block,omitempty" jsonschema:"wait before or after the effect, or never"`
	Rounds int    `json:"rounds,omitempty" jsonschema:"how often to ask; -1 asks without end"`
	URL    string `json:"url,omitempty" jsonschema:"where to send the person instead of asking"`
}

// asked is what goes with the question and comes back with the reply: the server itself keeps nothing.
type asked struct {
	Text  string `json:"text"`
	Round int    `json:"round"`
}

// question names the one question of a round.
const question = "sure"

const confirmSchema = `{"type":"object","properties":{"sure":{"type":"boolean","title":"Sure?"},"note":{"type":"string","title":"Note"}},"required":["sure"]}`

// addAsking adds confirm, which asks a person before it appends.
func (p *program) addAsking() {
	schema := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"block":{"type":"string"},"rounds":{"type":"integer"},"url":{"type":"string"}},"required":["text"]}`)
	p.server.AddTool(&mcp.Tool{Name: "confirm", Description: "Append a line to the ledger, once a person has said so.", InputSchema: schema}, p.confirm)
}

func (p *program) confirm(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in confirmIn
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, err
	}
	reply, _ := req.Params.InputResponses[question].(*mcp.ElicitResult)
	if reply == nil {
		return p.ask(in, 1)
	}
	var state asked
	if err := json.Unmarshal([]byte(req.Params.RequestState), &state); err != nil || state.Text != in.Text {
		return said("this is the answer to another question", true), nil
	}
	content, _ := json.Marshal(reply.Content) // it came out of JSON
	e := p.entry("replied", in.Text)
	e.Reply = reply.Action + " " + string(content)
	p.write(e)
	switch {
	case state.Round < in.Rounds, in.Rounds < 0:
		return p.ask(in, state.Round+1)
	case reply.Action != "accept", in.URL == "" && reply.Content["sure"] != true:
		return said("not appended "+in.Text+": "+reply.Action, false), nil
	}
	text, err := p.append(ctx, appendIn{Text: in.Text, Block: in.Block})
	if err != nil {
		return said(err.Error(), true), nil
	}
	return said(text, false), nil
}

// ask notes the question and hands it over. The call is over with that, and so may be this process.
func (p *program) ask(in confirmIn, round int) (*mcp.CallToolResult, error) {
	p.note("asked", in.Text)
	state, err := json.Marshal(asked{in.Text, round})
	if err != nil {
		return nil, err
	}
	params := &mcp.ElicitParams{Mode: "form", Message: fmt.Sprintf("Append %s, round %d?", in.Text, round), RequestedSchema: json.RawMessage(confirmSchema)}
	if in.URL != "" {
		params = &mcp.ElicitParams{Mode: "url", Message: "Say there that " + in.Text + " may be appended.", URL: in.URL, ElicitationID: in.Text}
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{question: params}, RequestState: string(state)}, nil
}

func said(text string, isError bool) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, IsError: isError}
}
