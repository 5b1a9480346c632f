package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/toolbox/plain"
	"github.com/everturn/everturn/workflows/turn"
)

// Sampling is what a server may ask the model. The zero value lets it ask nothing.
type Sampling struct {
	Mode SamplingMode
	// MaxRequests bounds the requests of a turn, MaxTokens the answer of each.
	MaxRequests, MaxTokens int
}

// SamplingMode says whether a server may ask the model.
type SamplingMode string

// The modes. The empty one is SamplingOff.
const (
	SamplingOff   SamplingMode = "off"
	SamplingAsk   SamplingMode = "ask"   // a person allows each request
	SamplingAllow SamplingMode = "allow" // nobody is asked
)

func (s Sampling) on() bool { return s.Mode == SamplingAsk || s.Mode == SamplingAllow }

// checkSampling refuses a mode that is not known, and one that lets a server ask and then nothing.
func (s Server) checkSampling() error {
	switch {
	case s.Sampling.Mode != "" && s.Sampling.Mode != SamplingOff && !s.Sampling.on():
		return fmt.Errorf("MCP server %q: sampling %q is not known: use off, ask or allow", s.ID, s.Sampling.Mode)
	case s.Sampling.on() && (s.Sampling.MaxRequests < 1 || s.Sampling.MaxTokens < 1):
		return fmt.Errorf("MCP server %q: with sampling on, requests and tokens must be at least 1", s.ID)
	}
	return nil
}

// Bounds of one request. What a person is to allow has to be read by them.
const (
	maxSampleMessages = 64
	maxSampleStops    = 4 // as many as providers take
	maxSampleStop     = 64
	maxSampleText     = turn.WaitArguments / 2 // bytes of all texts: as JSON they may be longer
	maxTemperature    = 2
)

// The keys of a result that says that no model was asked. The protocol has no other way to say so where a result is asked
// for in several rounds: -1 is what it answers otherwise (client/sampling, "Error Handling").
const (
	metaRefused  = "everturn.dev/refused"
	codeRejected = -1
	noModel      = "none"
	stopRefused  = "refused"
)

// sampling makes an inquiry of a server's request for an answer of the model: bounded, clean and without secrets. What the
// server would like to know of other conversations (includeContext), and which model it would like, is left out.
//
//lint:ignore SA1019 servers still ask for what the protocol deprecates
func (s *session) sampling(key string, p *mcp.CreateMessageWithToolsParams) (turn.Inquiry, error) {
	allowed := s.owner.describer.server.Sampling
	q := turn.Inquiry{Key: key}
	if err := checkKey(key, s.owner.redact.result); err != nil {
		return q, err
	}
	request, err := s.request(p)
	if err != nil {
		return q, fmt.Errorf("what it asks the model %w", err)
	}
	request.MaxTokens = int(min(p.MaxTokens, int64(allowed.MaxTokens)))
	q.Message = fmt.Sprintf("the server of this call wants the model's answer to %d messages, of %d tokens at most", len(request.Messages), request.MaxTokens)
	if len(request.Messages) == 1 {
		q.Message = fmt.Sprintf("the server of this call wants the model's answer to a message, of %d tokens at most", request.MaxTokens)
	}
	q.Sample = &turn.Sampling{MaxTokens: request.MaxTokens, Most: allowed.MaxRequests, Free: allowed.Mode == SamplingAllow, Request: &request}
	return q, nil
}

// request is what the model would be asked. Its errors go on from "what it asks the model".
//
//lint:ignore SA1019 servers still ask for what the protocol deprecates
func (s *session) request(p *mcp.CreateMessageWithToolsParams) (out turn.SampleRequest, err error) {
	switch {
	case len(p.Tools) > 0 || p.ToolChoice != nil:
		return out, errors.New("brings tools, which are not offered to servers")
	case len(p.Messages) == 0:
		return out, errors.New("has no messages")
	case len(p.Messages) > maxSampleMessages:
		return out, fmt.Errorf("has %d messages; %d are the most", len(p.Messages), maxSampleMessages)
	case p.MaxTokens < 1:
		return out, errors.New("has no bound for the answer (maxTokens)")
	case p.Temperature < 0 || p.Temperature > maxTemperature:
		return out, fmt.Errorf("has a temperature that is not between 0 and %d", maxTemperature)
	}
	clean := func(text string) string { return s.owner.redact.result(plain.Sanitize(text)) }
	out.System = clean(p.SystemPrompt)
	if p.Temperature > 0 { // the protocol's types cannot tell 0 from nothing
		out.Temperature = &p.Temperature
	}
	if out.Stop, err = stops(p.StopSequences, clean); err != nil {
		return out, err
	}
	size := len(out.System)
	for _, m := range p.Messages {
		message, err := sampleMessage(m, clean)
		if err != nil {
			return out, err
		}
		out.Messages = append(out.Messages, message)
		size += len(message.Text)
	}
	if size > maxSampleText {
		return out, fmt.Errorf("has %d bytes; %d are the most", size, maxSampleText)
	}
	return out, nil
}

// stops are the words that end an answer, as they are: cleaned ones would be others.
func stops(list []string, clean func(string) string) ([]string, error) {
	if len(list) > maxSampleStops {
		return nil, fmt.Errorf("has %d stop sequences; %d are the most", len(list), maxSampleStops)
	}
	for _, stop := range list {
		if stop == "" || len(stop) > maxSampleStop || clean(stop) != stop {
			return nil, fmt.Errorf("has a stop sequence that is empty, over %d bytes or not printable", maxSampleStop)
		}
	}
	return list, nil
}

//lint:ignore SA1019 servers still ask for what the protocol deprecates
func sampleMessage(m *mcp.SamplingMessageV2, clean func(string) string) (turn.SampleMessage, error) {
	out := turn.SampleMessage{Role: turn.RoleUser}
	switch {
	case m == nil:
		return out, errors.New("has a message that is empty")
	case m.Role == "assistant":
		out.Role = turn.RoleAssistant
	case m.Role != "user":
		return out, fmt.Errorf("has a message of the role %q; user and assistant are known", plain.Line(clean(string(m.Role)), 40))
	}
	var texts []string
	for _, c := range m.Content {
		text, ok := c.(*mcp.TextContent)
		if !ok {
			return out, fmt.Errorf("has %s in it, and only text is taken", kindOfContent(c))
		}
		texts = append(texts, clean(text.Text))
	}
	out.Text = strings.Join(texts, "\n")
	return out, nil
}

func kindOfContent(c mcp.Content) string {
	switch c.(type) {
	case *mcp.ImageContent:
		return "an image"
	case *mcp.AudioContent:
		return "audio"
	}
	return "something that is no text"
}

// samples reports whether the inquiry of that key is for the model.
func (c continuation) samples(key string) bool {
	for _, q := range c.Inquiries {
		if q.Key == key {
			return q.Sample != nil
		}
	}
	return false
}

// takeSampled is the reply to a request for the model's answer. A server that is refused is told so, and not asked again.
func takeSampled(q turn.Inquiry, replies []turn.Reply) turn.Reply {
	r, ok := replyTo(replies, q.Key)
	if !ok {
		return turn.Reply{Key: q.Key, Action: turn.ReplyCancel, Why: "there is no answer"}
	}
	var answer turn.Sampled
	if r.Action == turn.ReplyAccept && json.Unmarshal(r.Content, &answer) != nil {
		r.Action, r.Why = turn.ReplyCancel, "the answer cannot be read"
	}
	if r.Action != turn.ReplyAccept {
		r.Content = nil
	}
	return r
}

// sampled is the reply as the protocol has it.
//
//lint:ignore SA1019 servers still ask for what the protocol deprecates
func sampled(r turn.Reply) *mcp.CreateMessageWithToolsResult {
	var answer turn.Sampled
	if r.Action == turn.ReplyAccept {
		_ = json.Unmarshal(r.Content, &answer) // it was read before
		//lint:ignore SA1019 the same
		return &mcp.CreateMessageWithToolsResult{
			Role: "assistant", Content: []mcp.Content{&mcp.TextContent{Text: answer.Text}}, Model: answer.Model, StopReason: answer.StopReason,
		}
	}
	text := rejection(r)
	//lint:ignore SA1019 the same
	return &mcp.CreateMessageWithToolsResult{
		Meta: mcp.Meta{metaRefused: map[string]any{"code": codeRejected, "message": text}},
		Role: "assistant", Content: []mcp.Content{&mcp.TextContent{Text: "(" + text + ")"}}, Model: noModel, StopReason: stopRefused,
	}
}

// rejection is what a server is told that gets no answer.
func rejection(r turn.Reply) string {
	text := "No model has answered"
	if r.Action == turn.ReplyDecline {
		text = "User rejected sampling request"
	}
	if r.Why != "" {
		text += ": " + plain.Line(r.Why, 400)
	}
	return text
}

// heldSample answers a request for the model's answer in the middle of a call that its server holds. As for questions, a
// call is to be the only one that it could belong to.
//
//lint:ignore SA1019 servers still ask for what the protocol deprecates
func (s *session) heldSample(ctx context.Context, req *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
	f, err := s.heldCall("sample")
	if err != nil {
		return nil, &jsonrpc.Error{Code: codeRejected, Message: "No model has answered: " + err.Error()}
	}
	q, err := s.sampling("1", req.Params)
	if err != nil {
		s.owner.log.Info("an MCP server's request for the model's answer is refused", "server", s.owner.id(), "reason", err)
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: s.owner.clean(err.Error(), 400)}
	}
	reply, err := f.ask(ctx, q)
	if err != nil {
		reply = turn.Reply{Key: q.Key, Action: turn.ReplyCancel, Why: "nobody has allowed it in time"}
	}
	if reply = takeSampled(q, []turn.Reply{reply}); reply.Action != turn.ReplyAccept {
		return nil, &jsonrpc.Error{Code: codeRejected, Message: rejection(reply)}
	}
	return sampled(reply), nil
}
