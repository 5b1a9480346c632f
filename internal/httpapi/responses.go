package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/turn"
)

// responseRequest is a request of OpenAI's Responses. Fields that are not listed have no effect.
type responseRequest struct {
	open
	Key          string            `header:"Idempotency-Key" json:"-" jsonschema:"a request that is sent again under it is answered once"`
	Retry        int               `header:"X-Stainless-Retry-Count" json:"-" jsonschema:"how often an OpenAI SDK has sent the request before"`
	Model        string            `json:"model,omitempty" jsonschema:"everturn, or agent/ID: see GET /v1/models"`
	Input        responseInput     `json:"input"`
	Instructions string            `json:"instructions,omitempty"`
	Previous     string            `json:"previous_response_id,omitempty"`
	Conversation conversationRef   `json:"conversation,omitzero"`
	Stream       bool              `json:"stream,omitempty"`
	Background   bool              `json:"background,omitempty"`
	Temperature  *float64          `json:"temperature,omitempty"`
	TopP         *float64          `json:"top_p,omitempty"`
	Reasoning    responseReasoning `json:"reasoning,omitzero"`
	Text         responseText      `json:"text,omitzero"`
	Tools        functions         `json:"tools,omitempty"`
	ToolChoice   toolChoice        `json:"tool_choice,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
}

type responseReasoning struct {
	Effort  turn.Effort `json:"effort,omitempty"`
	Summary string      `json:"summary,omitempty"`
}

// responseText is the form of the answer.
type responseText struct {
	Format struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema,omitempty"`
	} `json:"format,omitzero"`
	Verbosity string `json:"verbosity,omitempty"`
}

// conversationRef names a conversation, which is a session. In JSON it is its ID or an object.
type conversationRef struct {
	ID string `json:"id"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *conversationRef) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &c.ID) == nil {
		return nil
	}
	type plain conversationRef
	return json.Unmarshal(b, (*plain)(c))
}

// responseInput is the input of a response. In JSON it is a text or a list of items.
type responseInput struct {
	messages  []chatMessage
	approvals []approvalItem
	outputs   []output
}

// approvalItem is the decision about an approval that an earlier response has asked for.
type approvalItem struct {
	Request string `json:"approval_request_id"`
	Approve bool   `json:"approve"`
	Reason  string `json:"reason"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (in *responseInput) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		in.messages = []chatMessage{{Role: "user", Content: chatContent{Text: text}}}
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return errors.New("input is neither a text nor a list of items")
	}
	for _, raw := range list {
		var i struct {
			Type string `json:"type"`
			approvalItem
			chatMessage
			CallID string      `json:"call_id"`
			Output chatContent `json:"output"`
		}
		if err := json.Unmarshal(raw, &i); err != nil {
			return err
		}
		switch i.Type {
		case "message", "":
			in.add(i.chatMessage)
		case "mcp_approval_response":
			in.approvals = append(in.approvals, i.approvalItem)
		case "function_call_output":
			in.outputs = append(in.outputs, output{i.CallID, i.Output.Text})
		case "reasoning", "function_call", "mcp_call", "mcp_approval_request", "mcp_list_tools",
			"item_reference": // the session has them
		default:
			return fmt.Errorf("input has an item of type %.40q, which is not supported", i.Type)
		}
	}
	return nil
}

// add adds a message. What an assistant says in several messages in a row is one: clients keep it in either way.
func (in *responseInput) add(m chatMessage) {
	if n := len(in.messages); n > 0 && m.Role == "assistant" && in.messages[n-1].Role == m.Role {
		in.messages[n-1].Content.Text += "\n\n" + m.Content.Text
		return
	}
	if m.Role == "user" { // what comes before is known already
		in.approvals, in.outputs = nil, nil
	}
	in.messages = append(in.messages, m)
}

// createResponse answers a request of OpenAI's Responses with a turn, or with a part of one that an approval goes on
// with.
func (c *call) createResponse(ctx context.Context, in responseRequest) error {
	var err error
	rec := responseRecord{Created: time.Now().Unix(), Request: in.raw, Principal: c.token.Principal,
		Conversation: in.Conversation.ID}
	switch {
	case len(in.Input.outputs) > 0:
		err = c.settleResponse(ctx, in, &rec)
	case len(in.Input.approvals) > 0:
		err = c.decideResponse(ctx, in, &rec)
	default:
		err = c.beginResponse(ctx, in, &rec)
	}
	if err != nil {
		return err
	}
	v, err := newResponseView(c, rec)
	if err != nil {
		return err
	}
	switch {
	case in.Stream:
		return v.serve(ctx, -1)
	case in.Background:
		return writeJSON(c.w, http.StatusOK, v.response(statusQueued))
	}
	if err := v.read(ctx, true); err != nil {
		return err
	}
	c.long("application/json")
	return writeJSON(c.w, http.StatusOK, v.final())
}

// withInstructions returns the messages of the input after the instructions.
func (in responseRequest) withInstructions() []chatMessage {
	if in.Instructions == "" {
		return slices.Clone(in.Input.messages)
	}
	return append([]chatMessage{{Role: "system", Content: chatContent{Text: in.Instructions}}}, in.Input.messages...)
}

// beginResponse sends the last message of the input, and records the response before: whoever has its ID finds it.
func (c *call) beginResponse(ctx context.Context, in responseRequest, rec *responseRecord) error {
	q := question{key: in.Key, retry: in.Retry, session: in.Conversation.ID, model: in.Model,
		messages: in.withInstructions(),
		settings: turn.ModelSettings{Temperature: in.Temperature, TopP: in.TopP, Effort: in.Reasoning.Effort,
			ReasoningSummary: in.Reasoning.Summary, Verbosity: in.Text.Verbosity, ToolChoice: string(in.ToolChoice)}}
	var err error
	if q.tools, err = in.Tools.tools(); err != nil {
		return err
	}
	if in.Text.Format.Type == "json_schema" {
		q.schema = in.Text.Format.Schema
	}
	if in.Previous == "" && in.Conversation.ID == "" {
		rec.whole = &responseInput{messages: q.messages}
	}
	if in.Previous != "" {
		before, err := c.recordOf(ctx, in.Previous)
		if err != nil {
			return err
		}
		if q.session, err = c.sessionAfter(ctx, before); err != nil {
			return err
		}
	}
	conv, err := c.conversation(q)
	if err != nil {
		return err
	}
	chosen, err := c.exchange(ctx, conv)
	if err != nil {
		return err
	}
	rec.ID = responsePrefix + strings.TrimPrefix(chosen.Message, "m-")
	rec.Exchange = chosen
	if err := c.putRecord(ctx, rec); err != nil {
		return err
	}
	t, err := c.send(ctx, conv, chosen)
	if err != nil {
		return err
	}
	rec.Turn = t.ID
	return c.putRecord(ctx, rec)
}

// sessionAfter returns the session that goes on after a response: its own if nothing has followed, or else a fork.
func (c *call) sessionAfter(ctx context.Context, before responseRecord) (string, error) {
	s, err := c.Journal().Session(ctx, before.Session)
	if errors.Is(err, client.ErrNotFound) { // no worker has begun it
		return before.Session, nil
	}
	if err != nil {
		return "", err
	}
	t, err := c.Journal().Delivered(ctx, before.Session, before.Message)
	if errors.Is(err, client.ErrNotFound) || err == nil && t.ID == s.LastTurn.ID {
		return before.Session, nil
	}
	if err != nil {
		return "", err
	}
	next, err := c.Journal().TurnsAfter(ctx, before.Session, t.ID, 1)
	if err != nil || len(next) == 0 {
		return before.Session, err
	}
	fork, err := c.Fork(ctx, client.ForkInput{Session: before.Session, At: next[0].MessageSeq - 1})
	return fork.ID, err
}

// decideResponse decides the approvals of the input. The response is what the turn does from then on.
func (c *call) decideResponse(ctx context.Context, in responseRequest, rec *responseRecord) error {
	if !c.token.Allows(client.RightDecide) {
		return &problem{status: http.StatusForbidden, kind: kindForbidden, code: "right_missing",
			message: `a decision needs the right "decide"`}
	}
	if in.Previous == "" {
		return invalid("previous_response_id", "an approval needs the response that has asked for it")
	}
	before, err := c.recordOf(ctx, in.Previous)
	if err != nil {
		return err
	}
	v, err := newResponseView(c, before)
	if err != nil {
		return err
	}
	if err := v.read(ctx, false); err != nil {
		return err
	}
	for _, a := range in.Input.approvals {
		r, ok := v.asked[a.Request]
		if !ok {
			return invalid("input", "the response has not asked for the approval %.80q", a.Request)
		}
		_, err := c.Decide(ctx, client.DecideInput{Session: before.Session, Turn: v.turn, Request: r.ID,
			By: c.token.Principal, Allow: a.Approve, ArgumentsHash: r.ArgumentsHash, Reason: a.Reason})
		var decided *client.DecidedError
		if errors.As(err, &decided) && decided.Decision.Allowed == a.Approve {
			err = nil // a request that was sent again
		}
		if err != nil {
			return err
		}
	}
	return c.continueResponse(ctx, rec, client.Exchange{Session: before.Session, Message: before.Message, Turn: v.turn,
		Seq: v.next})
}

// settleResponse sends the results of calls that the client has run. The response is what the turn does from then on.
func (c *call) settleResponse(ctx context.Context, in responseRequest, rec *responseRecord) error {
	t, from, err := c.settleOutputs(ctx, in.Input.outputs)
	if err != nil {
		return err
	}
	if in.Previous == "" && in.Conversation.ID == "" {
		rec.whole = &responseInput{messages: in.withInstructions()}
	}
	return c.continueResponse(ctx, rec, client.Exchange{Session: t.Session, Message: t.MessageID, Turn: t.ID, Seq: from})
}

// continueResponse records the response that shows a turn from an event on.
func (c *call) continueResponse(ctx context.Context, rec *responseRecord, from client.Exchange) error {
	rec.Exchange, rec.Continues = from, true
	rec.ID = fmt.Sprintf("%s%s_%d", responsePrefix, strings.TrimPrefix(from.Message, "m-"), from.Seq)
	return c.putRecord(ctx, rec)
}
