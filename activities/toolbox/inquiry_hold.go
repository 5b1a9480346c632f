package toolbox

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/workflows/turn"
)

// Servers of older protocols ask in the middle of a call and hold it until they have an answer. That is no way to wait for
// a person: it is offered to them only where the operator allows it, and for so long.

// methodInitialize opens a session of an older protocol.
const methodInitialize = "initialize"

// client is this program towards the server.
func (s *session) client() *mcp.Client {
	opts := &mcp.ClientOptions{
		Capabilities:                s.owner.capabilities(),
		MultiRoundTrip:              &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { s.markStale() },
		ProgressNotificationHandler: s.progressed,
	}
	if server := s.owner.describer.server; server.HoldQuestions > 0 {
		opts.ElicitationHandler = s.held
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "everturn", Version: "1"}, opts)
	client.AddSendingMiddleware(s.owner.modest, s.owner.shielded, lean)
	client.AddReceivingMiddleware(s.owner.shielded, refuseSampling, complete)
	return client
}

// capabilities are what a server is told that it may ask for. Questions to people are among them for servers of the newest
// protocol; modest takes them away again where an older one is spoken.
func (c *connector) capabilities() *mcp.ClientCapabilities {
	return &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{ // not nil, which would advertise roots
		Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
	}}
}

// modest is sending middleware that promises servers of older protocols no answers that they would not get.
func (c *connector) modest(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if p, ok := req.GetParams().(*mcp.InitializeParams); ok && method == methodInitialize && c.describer.server.HoldQuestions <= 0 {
			p.Capabilities.Elicitation = nil
		}
		return next(ctx, method, req)
	}
}

// held answers a question that a server asks in the middle of a call. The call that it belongs to is not said: where
// more than one could be it, nobody is asked. The server is told so by an error, for "cancel" would be a person's word.
func (s *session) held(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	cancelled := &mcp.ElicitResult{Action: string(turn.ElicitationCancel)}
	f, err := s.heldCall()
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "Nobody was asked: " + err.Error()}
	}
	q, err := s.inquiry("1", req.Params)
	if err != nil {
		s.owner.log.Info("an MCP server's question is not asked", "server", s.owner.id(), "reason", err)
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Nobody was asked: " + s.owner.clean(err.Error(), 400)}
	}
	response, err := f.ask(ctx, q)
	if err != nil || response.Action == "" {
		return cancelled, nil
	}
	result := &mcp.ElicitResult{Action: string(response.Action)}
	if response.Action == turn.ElicitationAccept && len(response.Content) > 0 {
		if json.Unmarshal(response.Content, &result.Content) != nil {
			return cancelled, nil
		}
	}
	return result, nil
}

// heldCall is the call under way in whose middle the server asks for something. Of each call for which that cannot be told,
// the log tells once.
func (s *session) heldCall() (*flight, error) {
	f, doubted, err := s.flights.only()
	if err == nil {
		err = s.link.meter.questioned(int(f.questions.Add(1)))
	}
	for _, d := range doubted {
		s.owner.log.Warn("what an MCP server asks was refused, and nobody was asked", "server", s.owner.id(),
			"tool", d.req.Tool, "session", d.req.Session, "turn", d.req.Turn, "call", d.req.CallID, "reason", err)
	}
	return f, err
}

// lastWord is how long it is waited for what was said in the last moment that a call was held.
const lastWord = time.Second

// ask has a person asked and waits for the reply, as long as the call may be held and a lastWord. It returns where the call
// ends, whatever becomes of the question.
func (f *flight) ask(ctx context.Context, q turn.Elicitation) (turn.ElicitationResponse, error) {
	defer f.patience.hold()()
	ctx, cancel := context.WithTimeout(ctx, f.s.owner.describer.server.HoldQuestions)
	defer cancel()
	defer context.AfterFunc(f.waiting, cancel)()
	type said struct {
		turn.ElicitationResponse
		error
	}
	ch := make(chan said, 1)
	go func() {
		r, err := f.req.Hold(q, ctx.Done())
		ch <- said{r, err}
	}()
	select {
	case r := <-ch:
		return r.ElicitationResponse, r.error
	case <-ctx.Done():
	}
	late := time.NewTimer(lastWord)
	defer late.Stop()
	select {
	case r := <-ch:
		return r.ElicitationResponse, r.error
	case <-late.C:
	case <-f.waiting.Done():
	}
	return turn.ElicitationResponse{}, context.Cause(ctx)
}

// upgraded is the session to use with a server whose handshake succeeded in this version: a new one where it knows a newer
// protocol, which the first greeting does not tell. What it knows is remembered, so that it is greeted twice only once. A
// server that took long to start is left as it is: it might not be ready again within the same time. One that ends when it is
// asked is started once more, and not asked.
func (c *connector) upgraded(ctx context.Context, s *session, version string) (*session, error) {
	deadline, _ := ctx.Deadline()
	hurried := time.Until(deadline) < c.describer.server.ConnectTimeout*2/3
	known := c.knows(version)
	c.remember(version)
	if version != versionLegacy || known || hurried || !s.link.disposable {
		return s, nil
	}
	newest := s.speaksNewest(ctx)
	if !newest && s.link.watched.broken() == nil {
		return s, nil
	}
	s.retire()
	select {
	case <-s.lost: // its process goes before the next one comes
	case <-ctx.Done():
	}
	if !newest {
		return c.open(ctx, s.party)
	}
	c.remember(versionLatest)
	newer, err := c.open(ctx, s.party)
	if err == nil {
		return newer, nil
	}
	c.log.Info("an MCP server does not do what it says of the newest protocol", "server", c.id(), "error", err)
	c.remember(versionLegacy)
	return c.open(ctx, s.party)
}

// knows reports whether a handshake in this version succeeded before.
func (c *connector) knows(version string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version != nil && *c.version == version
}

// speaksNewest asks a server that was greeted the old way whether it knows the newest protocol too. It is not greeted
// that way at once, because some servers end, or fall silent, when anything else comes first.
func (s *session) speaksNewest(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, discoverWithin)
	defer cancel()
	params := &mcp.DiscoverParams{Meta: mcp.Meta{
		mcp.MetaKeyProtocolVersion: newestVersion, mcp.MetaKeyClientInfo: &mcp.Implementation{Name: "everturn", Version: "1"},
		mcp.MetaKeyClientCapabilities: map[string]any{},
	}}
	r, err := mcp.CallCustomMethod[*mcp.DiscoverParams, *mcp.DiscoverResult](ctx, s.mcp, "server/discover", params)
	if err != nil {
		return false
	}
	for _, v := range r.SupportedVersions {
		if v >= newestVersion {
			return true
		}
	}
	return false
}

const (
	newestVersion  = "2026-07-28" // the first with questions in several rounds
	discoverWithin = time.Second
)
