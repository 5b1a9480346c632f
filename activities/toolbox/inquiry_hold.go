package toolbox

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/workflows/turn"
)

// Servers of older protocols send an elicitation in the middle of a call and hold the call until they have the
// response. A person may take too long for that, so these servers get elicitation only if the operator allows it, and
// only for the time that the operator sets (Server.HoldQuestions).

// methodInitialize opens a session of an older protocol.
const methodInitialize = "initialize"

// client returns the MCP client of this session.
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

// capabilities returns the client capabilities that servers are told. They include elicitation, for servers of the
// newest protocol; modest removes it again for servers of an older one.
func (c *connector) capabilities() *mcp.ClientCapabilities {
	return &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{ // not nil, which would advertise roots
		Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
	}}
}

// modest is sending middleware that does not offer elicitation to servers of older protocols unless HoldQuestions is
// set.
func (c *connector) modest(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if p, ok := req.GetParams().(*mcp.InitializeParams); ok && method == methodInitialize && c.describer.server.HoldQuestions <= 0 {
			p.Capabilities.Elicitation = nil
		}
		return next(ctx, method, req)
	}
}

// held responds to an elicitation in the middle of a call. The protocol does not say which call it belongs to: if
// several calls could be meant, no user is asked. The server then gets an error, because "cancel" would claim that a
// person had cancelled.
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

// heldCall returns the call in flight that the server's elicitation belongs to. If that is ambiguous, it logs one
// warning for each of the calls in doubt.
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

// lastWord is how long ask still waits, after the call may no longer be held, for a response given at the last moment.
const lastWord = time.Second

// ask passes the elicitation on and waits for the response, for HoldQuestions and a lastWord at most. It returns as
// soon as the call ends, whatever becomes of the elicitation.
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

// upgraded returns the session to use with a server whose handshake succeeded in this version. It is a new session if
// the server also knows a newer protocol, which a handshake in the older one does not show. The connector remembers the
// answer, so that only the first connect takes two handshakes. A server that took long to start keeps its session: it
// might not be ready again within the same time. A server that exits when it is asked is started once more, and not
// asked again.
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
	case <-s.lost: // its process ends before the next one starts
	case <-ctx.Done():
	}
	if !newest {
		return c.open(ctx, s.conn)
	}
	c.remember(versionLatest)
	newer, err := c.open(ctx, s.conn)
	if err == nil {
		return newer, nil
	}
	c.log.Info("an MCP server does not do what it says of the newest protocol", "server", c.id(), "error", err)
	c.remember(versionLegacy)
	return c.open(ctx, s.conn)
}

// knows reports whether a handshake in this version succeeded before.
func (c *connector) knows(version string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version != nil && *c.version == version
}

// speaksNewest asks a server, after a handshake in the older protocol, whether it knows the newest one too. That
// handshake goes first because some servers exit or fall silent when they receive anything else first.
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
	newestVersion  = "2026-07-28" // the first protocol whose elicitations take several rounds
	discoverWithin = time.Second
)
