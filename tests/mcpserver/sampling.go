package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type summariseIn struct {
	Text   string `json:"text" jsonschema:"what to have summarised"`
	Rounds int    `json:"rounds,omitempty" jsonschema:"how often to ask the model; 1 where it is left out"`
	Tokens int64  `json:"tokens,omitempty" jsonschema:"how many tokens the answer may have"`
	Bytes  int    `json:"bytes,omitempty" jsonschema:"how much more to send"`
	Tools  bool   `json:"tools,omitempty" jsonschema:"bring tools along"`
	Block  string `json:"block,omitempty" jsonschema:"wait before or after the effect, or never"`
}

// summary names the one request of a round.
const summary = "summary"

// oldVersions are what a server speaks that does not know how to ask without holding its call.
var oldVersions = []string{"2025-11-25", "2025-06-18"}

// addSampling adds summarise, which asks the client's model before it appends what that has said.
func (p *program) addSampling() {
	schema := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"rounds":{"type":"integer"},"tokens":{"type":"integer"},
		"bytes":{"type":"integer"},"tools":{"type":"boolean"},"block":{"type":"string"}},"required":["text"]}`)
	p.server.AddTool(&mcp.Tool{Name: "summarise", Description: "Append the model's summary of a text to the ledger.", InputSchema: schema}, p.summarise)
}

func (p *program) summarise(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in summariseIn
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, err
	}
	round, _ := strconv.Atoi(req.Params.RequestState) // 0 before the first
	if p.old {
		return p.summariseHeld(ctx, req, in)
	}
	//lint:ignore SA1019 it is what is tested
	answer, _ := req.Params.InputResponses[summary].(*mcp.CreateMessageWithToolsResult)
	if answer == nil {
		return p.askModel(in, 1)
	}
	p.noteAnswer(in, answer)
	if round < in.Rounds {
		return p.askModel(in, round+1)
	}
	return p.summarised(ctx, in, answer)
}

// summariseHeld asks in the middle of the call, which it holds meanwhile.
func (p *program) summariseHeld(ctx context.Context, req *mcp.CallToolRequest, in summariseIn) (*mcp.CallToolResult, error) {
	p.note("asked", in.Text)
	//lint:ignore SA1019 servers still ask for what the protocol deprecates
	answer, err := req.Session.CreateMessageWithTools(ctx, p.request(in, 1))
	if err != nil {
		p.note("refused", in.Text)
		return said("no summary: "+err.Error(), false), nil
	}
	p.noteAnswer(in, answer)
	return p.summarised(ctx, in, answer)
}

// askModel notes the request and hands it over. The call is over with that, and so may be this process.
func (p *program) askModel(in summariseIn, round int) (*mcp.CallToolResult, error) {
	p.note("asked", in.Text)
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{summary: p.request(in, round)}, RequestState: strconv.Itoa(round)}, nil
}

//lint:ignore SA1019 it is what is tested
func (p *program) request(in summariseIn, round int) *mcp.CreateMessageWithToolsParams {
	tokens := in.Tokens
	if tokens == 0 {
		tokens = 100
	}
	text := fmt.Sprintf("Summarise, round %d: %s%s", round, in.Text, strings.Repeat(" and more", in.Bytes/len(" and more")))
	//lint:ignore SA1019 the same
	out := &mcp.CreateMessageWithToolsParams{
		SystemPrompt: "You summarise.", MaxTokens: tokens, StopSequences: []string{"END"}, Temperature: 0.5,
		//lint:ignore SA1019 the same
		Messages: []*mcp.SamplingMessageV2{
			{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "Be brief."}}},
			{Role: "assistant", Content: []mcp.Content{&mcp.TextContent{Text: "I will be."}}},
			{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: text}}},
		},
	}
	if in.Tools {
		out.Tools = []*mcp.Tool{{Name: "any", InputSchema: json.RawMessage(`{"type":"object"}`)}}
	}
	return out
}

//lint:ignore SA1019 it is what is tested
func (p *program) noteAnswer(in summariseIn, answer *mcp.CreateMessageWithToolsResult) {
	e := p.entry("answered", in.Text)
	e.Reply = fmt.Sprintf("%s %s %s %s", answer.Role, answer.Model, answer.StopReason, answerText(answer))
	p.write(e)
}

//lint:ignore SA1019 it is what is tested
func answerText(answer *mcp.CreateMessageWithToolsResult) string {
	for _, c := range answer.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			return t.Text
		}
	}
	return ""
}

//lint:ignore SA1019 it is what is tested
func (p *program) summarised(ctx context.Context, in summariseIn, answer *mcp.CreateMessageWithToolsResult) (*mcp.CallToolResult, error) {
	if answer.Meta["everturn.dev/refused"] != nil {
		return said("no summary: "+answerText(answer), false), nil
	}
	if _, err := p.append(ctx, appendIn{Text: in.Text, Block: in.Block}); err != nil {
		return said(err.Error(), true), nil
	}
	return said(fmt.Sprintf("summarised %s in %d characters", in.Text, len(answerText(answer))), false), nil
}
