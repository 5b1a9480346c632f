package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/tools/schema"
	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// A server of the newest protocol does not keep a call open while a user responds: it returns its elicitations and a
// state, and the host sends the call again with the responses and that state (SEP-2322). In between, the call exists
// only as a continuation, so any process of the server can continue it, even days later.

// Bounds of a server's elicitations and of continuations. Those without a unit are bytes.
const (
	maxElicitations      = 8  // in one round
	maxRounds            = 16 // of one call
	maxElicitationKey    = 120
	maxElicitationText   = 4 << 10
	maxElicitationSchema = 16 << 10
	maxElicitationURL    = 2 << 10
	maxContinuation      = 1 << 20
)

// continuation holds what the host needs to continue a call after its elicitations. It travels as JSON in
// turn.ToolResult.Continuation and comes back in turn.ToolRequest.Continuation.
type continuation struct {
	Version      int                `json:"v"`               // of this format: 1
	Round        int                `json:"round"`           // of elicitations, from 1
	State        string             `json:"state,omitempty"` // the server's own, which it gets back unchanged
	Elicitations []turn.Elicitation `json:"elicitations"`
	// Responses are the accepted responses. They are kept while the missing ones are elicited again.
	Responses []turn.ElicitationResponse `json:"responses,omitempty"`
}

// responses returns the accepted responses in the protocol's form.
func (c continuation) responses() sdk.InputResponseMap {
	if len(c.Responses) == 0 {
		return nil
	}
	out := sdk.InputResponseMap{}
	for _, r := range c.Responses {
		out[r.Key] = responseOf(r)
	}
	return out
}

// answerOf returns the kind of answer that a reply without an error contains.
func answerOf(r reply) tool.AnswerKind {
	switch {
	case r.input != nil && r.input.Elicitations == nil: // no user can be asked, or the server is busy
		return tool.AnswerCannotElicit
	case r.input != nil:
		return tool.AnswerElicits
	case r.result.IsError:
		return tool.AnswerToolError
	}
	return tool.AnswerResult
}

// inputOf returns nil if the server's result requests no input. Otherwise it returns the result to report: one with
// elicitations, or an error result that tells the model why the user cannot be asked, or that the server is busy. A
// result that requests input has no other content (SEP-2322). round counts the call's earlier rounds of elicitations.
func (s *session) inputOf(r *sdk.CallToolResult, round int) *turn.ToolResult {
	if len(r.InputRequests) == 0 && !r.NeedsInput() {
		return nil
	}
	out := s.elicitationResult(r, round)
	return &out
}

// elicitationResult returns the result for a server's result that requests input: see inputOf.
func (s *session) elicitationResult(r *sdk.CallToolResult, round int) turn.ToolResult {
	if len(r.InputRequests) == 0 { // SEP-2322: the server cannot process the call now
		return tool.Error("The server is busy and did not act. The tool may be called again in a moment.")
	}
	c := continuation{Version: 1, Round: round + 1, State: r.RequestState}
	err := s.addElicitations(&c, r.InputRequests)
	if err == nil {
		var out turn.ToolResult
		if out, err = c.toResult(c.Elicitations); err == nil {
			return out
		}
	}
	return tool.Error("The tool elicits user input before it acts, and the user cannot be asked: " +
		s.owner.clean(err.Error(), 400) + ". It did not go on.")
}

// addElicitations adds the server's input requests to the continuation, ordered by key. It fails if one of them cannot
// be shown to a user, if there are too many of them or of the call's rounds, or if the server's state contains a
// secret: the state is stored, and the server needs it back unchanged.
func (s *session) addElicitations(c *continuation, requests sdk.InputRequestMap) error {
	switch {
	case len(requests) > maxElicitations:
		return fmt.Errorf("it sends %d elicitations at once; the maximum is %d", len(requests), maxElicitations)
	case c.Round > maxRounds:
		return fmt.Errorf("it has asked %d times, which is the maximum", maxRounds)
	case s.owner.redact.result(c.State) != c.State:
		return errors.New("its state contains a secret of its own configuration")
	}
	for _, key := range sortedKeys(requests) {
		q, err := s.elicitationOf(key, requests[key])
		if err != nil {
			return err
		}
		c.Elicitations = append(c.Elicitations, q)
	}
	return nil
}

// elicitationOf turns an input request into an elicitation. It refuses requests for sampling and roots, which this
// client does not offer to servers.
func (s *session) elicitationOf(key string, r sdk.InputRequest) (turn.Elicitation, error) {
	if p, ok := r.(*sdk.ElicitParams); ok {
		return s.elicitation(key, p)
	}
	return turn.Elicitation{}, fmt.Errorf("it asks for %s", inputKind(r))
}

// sortedKeys returns the keys of the requests in order, so that elicitations always come in the same order.
func sortedKeys(m sdk.InputRequestMap) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// inputKind names the kind of a refused input request, as the end of an error message.
func inputKind(r sdk.InputRequest) string {
	switch r.(type) {
	//nolint:staticcheck // servers still ask for what the protocol deprecates
	case *sdk.CreateMessageParams, *sdk.CreateMessageWithToolsParams:
		return "a model's answer, but " + noSampling
	//nolint:staticcheck // the same
	case *sdk.ListRootsParams:
		return "the list of root folders, which is not offered to servers"
	}
	return "an unknown kind of input"
}

// elicitation turns a server's elicitation into a turn.Elicitation that is bounded, sanitized and without secrets. It
// fails if the elicitation cannot be shown to a user. key identifies the elicitation among those of its round.
func (s *session) elicitation(key string, p *sdk.ElicitParams) (turn.Elicitation, error) {
	redact := s.owner.redact.result
	message, _ := printable.Cut(redact(strings.TrimSpace(printable.Sanitize(p.Message))), maxElicitationText)
	q := turn.Elicitation{Key: key, Message: message}
	if err := checkKey(key, redact); err != nil {
		return q, err
	}
	if p.Mode == "url" || p.Mode == "" && p.URL != "" {
		q.URL = p.URL
		return q, checkURL(p.URL, redact)
	}
	if p.Mode != "" && p.Mode != "form" {
		return q, fmt.Errorf("its elicitation has the unknown mode %q", s.owner.redact.line(p.Mode, 40))
	}
	raw, err := json.Marshal(p.RequestedSchema)
	if err == nil {
		q.Schema, err = flatSchema(json.RawMessage(redact(string(raw))))
	}
	return q, err
}

// checkKey refuses an elicitation's key that is empty or too long, or that sanitizing or redacting would change: the
// server needs it back unchanged.
func checkKey(key string, redact func(string) string) error {
	switch {
	case key == "" || len(key) > maxElicitationKey || printable.Line(key, maxElicitationKey) != key:
		return errors.New("the key of its elicitation is empty, too long or not printable")
	case redact(key) != key:
		return errors.New("the key of its elicitation contains a secret")
	}
	return nil
}

// checkURL refuses a URL to which the user must not be sent: one that is not http or https, has a user name, contains a
// secret of the server's configuration, or is too long or not printable, so that it cannot be displayed unchanged.
func checkURL(raw string, redact func(string) string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil, u.Host == "", u.Scheme != "https" && u.Scheme != "http", u.User != nil,
		printable.Line(raw, maxElicitationURL) != raw: // too long, or not displayable
		return errors.New("the URL for the user is not a plain web address")
	case redact(raw) != raw:
		return errors.New("the URL for the user contains a secret")
	}
	return nil
}

// toResult returns a result with the continuation and the elicitations to show to the user: all of the continuation's,
// or only those without an accepted response. It fails if the continuation is too large.
func (c continuation) toResult(elicitations []turn.Elicitation) (turn.ToolResult, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return turn.ToolResult{}, fmt.Errorf("keeping its state: %w", err)
	}
	if len(b) > maxContinuation {
		return turn.ToolResult{}, fmt.Errorf("its state is %d bytes; the maximum is %d", len(b), maxContinuation)
	}
	return turn.ToolResult{Elicitations: elicitations, Continuation: b, SizeBytes: int64(len(b))}, nil
}

// resume reads the request's continuation and moves the request's responses into it. A request without a continuation
// yields the zero continuation, with which a call begins. If the returned result is not nil, it is the result of the
// call, and nothing is sent to the server: the continuation cannot be read, or a response is missing or invalid.
func resume(req turn.ToolRequest) (k continuation, result *turn.ToolResult) {
	if len(req.Continuation) == 0 {
		return k, nil
	}
	if err := json.Unmarshal(req.Continuation, &k); err != nil || k.Version != 1 || len(k.Elicitations) == 0 {
		r := tool.Denied("The call's continuation cannot be read. Nothing was sent; the tool may be called again.")
		return k, &r
	}
	return k, k.acceptResponses(req)
}

// acceptResponses moves the request's responses into the continuation. It returns nil if every elicitation then has a
// response. If one is missing or does not fit, it returns a result that elicits it again, or a denied result if the
// responses are too large to keep meanwhile. If the request has no responses at all, the elicitations may not have been
// shown to a user yet: the result then repeats them with the unchanged continuation.
func (c *continuation) acceptResponses(req turn.ToolRequest) (again *turn.ToolResult) {
	var open []turn.Elicitation
	for _, q := range c.Elicitations {
		if _, ok := responseTo(c.Responses, q.Key); ok {
			continue
		}
		if len(req.Responses) == 0 {
			open = append(open, q)
			continue
		}
		response, err := c.matchResponse(q, req.Responses)
		if err != nil {
			q.Message = doesNotFit(q, err)
			open = append(open, q)
			continue
		}
		c.Responses = append(c.Responses, response)
	}
	if len(open) == 0 {
		return nil
	}
	if len(req.Responses) == 0 {
		return &turn.ToolResult{Elicitations: open, Continuation: req.Continuation, SizeBytes: int64(len(req.Continuation))}
	}
	r, err := c.toResult(open)
	if err != nil {
		r = tool.Denied("The responses to the server cannot be kept: " + err.Error())
	}
	return &r
}

// matchResponse finds the response to an elicitation by its key and returns it in the form to send: see fit. A response
// may omit the key if only one elicitation is open.
func (c continuation) matchResponse(q turn.Elicitation,
	responses []turn.ElicitationResponse) (turn.ElicitationResponse, error) {
	r, ok := responseTo(responses, q.Key)
	if !ok && len(c.Elicitations)-len(c.Responses) == 1 {
		r, ok = responseTo(responses, "")
	}
	if !ok {
		return r, errors.New("there is no response")
	}
	return fit(q, r)
}

// fit checks a response against its elicitation and returns it in the form to send.
func fit(q turn.Elicitation, r turn.ElicitationResponse) (turn.ElicitationResponse, error) {
	r, refused := r.To(&q) // checks and normalizes the action
	if refused != nil {
		return r, refused
	}
	var err error
	if r.Action == turn.ElicitationAccept {
		r.Content, err = fitToSchema(q, r.Content)
	}
	return r, err
}

// responseTo returns the response with this key; false if there is none.
func responseTo(responses []turn.ElicitationResponse, key string) (turn.ElicitationResponse, bool) {
	i := slices.IndexFunc(responses, func(r turn.ElicitationResponse) bool { return r.Key == key })
	if i < 0 {
		return turn.ElicitationResponse{}, false
	}
	return responses[i], true
}

// fitToSchema checks a response's content against the elicitation's schema and returns it with the schema's defaults
// for missing fields (SEP-1034). It returns nil for an elicitation without a schema, which sends the user to a URL.
func fitToSchema(q turn.Elicitation, content json.RawMessage) (out json.RawMessage, err error) {
	if len(q.Schema) == 0 {
		return nil, nil // a response to a URL says only that the visit is done
	}
	defer func() { // the schema is the server's, and the library may panic on it
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
		return nil, fmt.Errorf("it cannot be checked: %s", printable.Line(err.Error(), 200))
	}
	if err := resolved.ApplyDefaults(&object); err != nil {
		return nil, errors.New(printable.Line(err.Error(), 200))
	}
	if err := resolved.Validate(object); err != nil {
		return nil, errors.New(printable.Line(err.Error(), 200))
	}
	return json.Marshal(object)
}
