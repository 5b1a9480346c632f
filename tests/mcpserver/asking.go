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

// asked is the state that goes with the question and comes back with the response: the server itself keeps nothing.
type asked struct {
	Text  string `json:"text"`
	Round int    `json:"round"`
}

// question is the name of the one question of a round.
const question = "sure"

const confirmSchema = `{"type":"object","properties":{"sure":{"type":"boolean","title":"Sure?"},"note":{"type":"string","title":"Note"}},"required":["sure"]}`

// addAsking adds confirm, which asks for confirmation before it appends.
func (p *program) addAsking() {
	schema := json.RawMessage(
		`{"type":"object","properties":{"text":{"type":"string"},"block":{"type":"string"},"rounds":{"type":"integer"},"url":{"type":"string"}},"required":["text"]}`)
	p.server.AddTool(&mcp.Tool{Name: "confirm", Description: "Append a line to the ledger, once a person has said so.",
		InputSchema: schema}, p.confirm)
}

// oldVersions are the protocol versions in which a server holds its call while it waits for a response.
var oldVersions = []string{"2025-11-25", "2025-06-18"}

func (p *program) confirm(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in confirmIn
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, err
	}
	if p.old {
		return p.confirmHeld(ctx, req, in)
	}
	reply, _ := req.Params.InputResponses[question].(*mcp.ElicitResult)
	if reply == nil {
		return p.ask(in, 1)
	}
	var state asked
	if err := json.Unmarshal([]byte(req.Params.RequestState), &state); err != nil || state.Text != in.Text {
		return textResult("this is the answer to another question", true), nil
	}
	p.noteReply(in, reply)
	if in.asksAfter(state.Round) {
		return p.ask(in, state.Round+1)
	}
	return p.confirmed(ctx, in, reply)
}

// asksAfter reports whether the server asks once more after this round.
func (in confirmIn) asksAfter(round int) bool { return round < in.Rounds || in.Rounds < 0 }

// noteReply writes the reply to the ledger.
func (p *program) noteReply(in confirmIn, reply *mcp.ElicitResult) {
	content, _ := json.Marshal(reply.Content) // it came out of JSON
	e := p.entry("replied", in.Text)
	e.Reply = reply.Action + " " + string(content)
	p.write(e)
}

// confirmed appends the line if the last reply says so.
func (p *program) confirmed(ctx context.Context, in confirmIn, reply *mcp.ElicitResult) (*mcp.CallToolResult, error) {
	if reply.Action != "accept" || in.URL == "" && reply.Content["sure"] != true {
		return textResult("not appended "+in.Text+": "+reply.Action, false), nil
	}
	text, err := p.append(ctx, appendIn{Text: in.Text, Block: in.Block})
	if err != nil {
		return textResult(err.Error(), true), nil
	}
	return textResult(text, false), nil
}

// ask records the question and returns it. That ends the call; the process may end too.
func (p *program) ask(in confirmIn, round int) (*mcp.CallToolResult, error) {
	p.note("asked", in.Text)
	state, err := json.Marshal(asked{in.Text, round})
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{question: elicitation(in, round)},
		RequestState: string(state)}, nil
}

func elicitation(in confirmIn, round int) *mcp.ElicitParams {
	if in.URL != "" {
		return &mcp.ElicitParams{Mode: "url", Message: "Say there that " + in.Text + " may be appended.", URL: in.URL,
			ElicitationID: in.Text}
	}
	message := fmt.Sprintf("Append %s, round %d?", in.Text, round)
	return &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: json.RawMessage(confirmSchema)}
}

// confirmHeld asks in the middle of the call and holds it until the response arrives.
func (p *program) confirmHeld(ctx context.Context, req *mcp.CallToolRequest,
	in confirmIn) (*mcp.CallToolResult, error) {
	for round := 1; ; round++ {
		p.note("asked", in.Text)
		reply, err := req.Session.Elicit(ctx, elicitation(in, round))
		if err != nil {
			return textResult(err.Error(), true), nil
		}
		p.noteReply(in, reply)
		if !in.asksAfter(round) {
			return p.confirmed(ctx, in, reply)
		}
	}
}

func textResult(text string, isError bool) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, IsError: isError}
}
