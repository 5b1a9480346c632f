package toolbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/toolbox/schema"
	"github.com/everturn/everturn/internal/plain"
	"github.com/everturn/everturn/workflows/turn"
)

// A server of the newest protocol does not hold a call while a person responds: it returns its elicitations and a
// state, and the call is sent again with the responses and that state (SEP-2322). In between, only the continuation is
// left of the call, so any process of the server can continue it, even days later.

// Bounds of what a server may ask for, and of what is kept to continue a call.
const (
	maxInquiries     = 8       // in one round
	maxRounds        = 16      // of one call
	maxInquiryKey    = 120     // bytes
	maxInquiryText   = 4 << 10 // bytes of the message
	maxInquirySchema = 16 << 10
	maxInquiryURL    = 2 << 10
	maxContinuation  = 1 << 20
)

// continuation is what continues a call: the server's state and its elicitations.
type continuation struct {
	Version      int                `json:"v"`
	Round        int                `json:"round"`
	State        string             `json:"state,omitempty"`
	Elicitations []turn.Elicitation `json:"elicitations"`
	// Replies are the responses already accepted, kept while the others are requested again.
	Responses []turn.ElicitationResponse `json:"responses,omitempty"`
}

// responses returns the accepted responses in the protocol's form.
func (c continuation) responses() mcp.InputResponseMap {
	if len(c.Responses) == 0 {
		return nil
	}
	out := mcp.InputResponseMap{}
	for _, r := range c.Responses {
		result := &mcp.ElicitResult{Action: string(r.Action)}
		if r.Action == turn.ElicitationAccept && len(r.Content) > 0 {
			_ = json.Unmarshal(r.Content, &result.Content) // resume has parsed it before
		}
		out[r.Key] = result
	}
	return out
}

// answerOf classifies the server's result. A result that asks for input has no other content (SEP-2322).
func (s *session) answerOf(r *mcp.CallToolResult, round int) answer {
	switch {
	case len(r.InputRequests) > 0 || r.NeedsInput():
		if s.inquire(r, round).Elicitations == nil {
			return answerCannotAsk
		}
		return answerAsks
	case r.IsError:
		return answerToolError
	}
	return answerResult
}

// inquire turns the server's input requests into elicitations, or into an error that tells the model why that is
// impossible.
func (s *session) inquire(r *mcp.CallToolResult, round int) turn.ToolResult {
	if len(r.InputRequests) == 0 {
		return failed("The server is busy and did not act. The tool may be called again in a moment.")
	}
	c := continuation{Version: 1, Round: round + 1, State: r.RequestState}
	err := s.fill(&c, r.InputRequests)
	if err == nil {
		var out turn.ToolResult
		if out, err = c.ask(c.Elicitations); err == nil {
			return out
		}
	}
	return failed("The tool asks for more before it acts, and cannot have it: " + s.owner.clean(err.Error(), 400) + ". It did not go on.")
}

func (s *session) fill(c *continuation, requests mcp.InputRequestMap) error {
	switch {
	case len(requests) > maxInquiries:
		return fmt.Errorf("it asks for %d things at once; %d are the most", len(requests), maxInquiries)
	case c.Round > maxRounds:
		return fmt.Errorf("it has asked %d times; that is enough", maxRounds)
	case s.owner.redact.result(c.State) != c.State:
		return errors.New("what it wants to be kept holds a secret of its own configuration")
	}
	for _, key := range sortedKeys(requests) {
		q, err := s.inquiryOf(key, requests[key])
		if err != nil {
			return err
		}
		c.Elicitations = append(c.Elicitations, q)
	}
	return nil
}

// inquiryOf turns an input request into an elicitation. It refuses the other kinds, which are not offered to servers.
func (s *session) inquiryOf(key string, r mcp.InputRequest) (turn.Elicitation, error) {
	if p, ok := r.(*mcp.ElicitParams); ok {
		return s.inquiry(key, p)
	}
	return turn.Elicitation{}, fmt.Errorf("it asks for %s", kindOfRequest(r))
}

func sortedKeys(m mcp.InputRequestMap) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func kindOfRequest(r mcp.InputRequest) string {
	switch r.(type) {
	//lint:ignore SA1019 servers still ask for what the protocol deprecates
	case *mcp.CreateMessageParams, *mcp.CreateMessageWithToolsParams:
		return "a model's answer, but " + noSampling
	//lint:ignore SA1019 the same
	case *mcp.ListRootsParams:
		return "the list of root folders, which is not offered to servers"
	}
	return "something that is not known here"
}

// inquiry turns a server's elicitation into a turn.Elicitation: bounded, sanitized and without secrets.
func (s *session) inquiry(key string, p *mcp.ElicitParams) (turn.Elicitation, error) {
	redact := s.owner.redact.result
	message, _ := plain.Cut(redact(strings.TrimSpace(plain.Sanitize(p.Message))), maxInquiryText)
	q := turn.Elicitation{Key: key, Message: message}
	if err := checkKey(key, redact); err != nil {
		return q, err
	}
	if p.Mode == "url" || p.Mode == "" && p.URL != "" {
		q.URL = p.URL
		return q, checkAsked(p.URL, redact)
	}
	if p.Mode != "" && p.Mode != "form" {
		return q, fmt.Errorf("its question is of the kind %q, which is not known", s.owner.redact.line(p.Mode, 40))
	}
	raw, err := json.Marshal(p.RequestedSchema)
	if err == nil {
		q.Schema, err = flatSchema(json.RawMessage(redact(string(raw))))
	}
	return q, err
}

// checkKey refuses an elicitation's key that cannot be kept unchanged.
func checkKey(key string, redact func(string) string) error {
	switch {
	case key == "" || len(key) > maxInquiryKey || plain.Line(key, maxInquiryKey) != key:
		return errors.New("the name of its question is empty, too long or not printable")
	case redact(key) != key:
		return errors.New("the name of its question holds a secret")
	}
	return nil
}

// checkAsked refuses URLs that a server must not send a person to.
func checkAsked(raw string, redact func(string) string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil, u.Host == "", u.Scheme != "https" && u.Scheme != "http", u.User != nil, plain.Line(raw, maxInquiryURL) != raw:
		return errors.New("the address that a person is to visit is not a plain web address")
	case redact(raw) != raw:
		return errors.New("the address that a person is to visit holds a secret")
	}
	return nil
}

// ask returns the result that carries the elicitations: all of them, or only those that are sent again.
func (c continuation) ask(questions []turn.Elicitation) (turn.ToolResult, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return turn.ToolResult{}, fmt.Errorf("keeping its state: %w", err)
	}
	if len(b) > maxContinuation {
		return turn.ToolResult{}, fmt.Errorf("what it wants to be kept has %d bytes; %d are the most", len(b), maxContinuation)
	}
	return turn.ToolResult{Elicitations: questions, Continuation: b, SizeBytes: int64(len(b))}, nil
}

// resume reads the continuation of a call. If a response is missing or does not fit, asked is the result that requests
// it again, and nothing is sent. If the request has no responses at all, the elicitations may not have been shown yet:
// asked then repeats them and the continuation unchanged.
func resume(req turn.ToolRequest) (c continuation, asked *turn.ToolResult) {
	if len(req.Continuation) == 0 {
		return c, nil
	}
	if err := json.Unmarshal(req.Continuation, &c); err != nil || c.Version != 1 || len(c.Elicitations) == 0 {
		r := refusedHere("What the server asked for before cannot be read any more. Nothing was sent; the tool may be called again.")
		return c, &r
	}
	var open []turn.Elicitation
	for _, q := range c.Elicitations {
		if _, ok := replyTo(c.Responses, q.Key); ok {
			continue
		}
		if len(req.Responses) == 0 {
			open = append(open, q)
			continue
		}
		response, err := c.take(q, req.Responses)
		if err != nil {
			q.Message = fmt.Sprintf("(The answer before does not fit: %v.) %s", err, q.Message)
			open = append(open, q)
			continue
		}
		c.Responses = append(c.Responses, response)
	}
	if len(open) == 0 {
		return c, nil
	}
	if len(req.Responses) == 0 {
		return c, &turn.ToolResult{Elicitations: open, Continuation: req.Continuation, SizeBytes: int64(len(req.Continuation))}
	}
	r, err := c.ask(open)
	if err != nil {
		r = refusedHere("The answers to the server's question cannot be kept: " + err.Error())
	}
	return c, &r
}

// take finds the response to an elicitation and checks it. A response may omit the key if only one elicitation is open.
func (c continuation) take(q turn.Elicitation, responses []turn.ElicitationResponse) (turn.ElicitationResponse, error) {
	r, ok := replyTo(responses, q.Key)
	if !ok && len(c.Elicitations)-len(c.Responses) == 1 {
		r, ok = replyTo(responses, "")
	}
	if !ok {
		return r, errors.New("there is none")
	}
	r.Key = q.Key
	switch r.Action {
	case turn.ElicitationAccept:
		var err error
		r.Content, err = fitting(q, r.Content)
		return r, err
	case turn.ElicitationDecline, turn.ElicitationCancel:
		r.Content = nil
		return r, nil
	}
	return r, fmt.Errorf("it must accept, decline or cancel, and %q is none of these", plain.Line(string(r.Action), 20))
}

func replyTo(responses []turn.ElicitationResponse, key string) (turn.ElicitationResponse, bool) {
	i := slices.IndexFunc(responses, func(r turn.ElicitationResponse) bool { return r.Key == key })
	if i < 0 {
		return turn.ElicitationResponse{}, false
	}
	return responses[i], true
}

// fitting checks a response's content against the elicitation's schema and adds the schema's defaults (SEP-1034).
func fitting(q turn.Elicitation, content json.RawMessage) (out json.RawMessage, err error) {
	if len(q.Schema) == 0 {
		return nil, nil // a response to a URL says only that the visit is done
	}
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("it cannot be checked")
		}
	}()
	object, err := schema.Object(content)
	if err != nil {
		return nil, err
	}
	resolved, err := schema.Resolve(q.Schema)
	if err != nil {
		return nil, fmt.Errorf("it cannot be checked: %s", plain.Line(err.Error(), 200))
	}
	if err := resolved.ApplyDefaults(&object); err != nil {
		return nil, errors.New(plain.Line(err.Error(), 200))
	}
	if err := resolved.Validate(object); err != nil {
		return nil, errors.New(plain.Line(err.Error(), 200))
	}
	return json.Marshal(object)
}
