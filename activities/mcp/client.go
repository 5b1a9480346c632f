package mcp

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// methodInitialize opens a session of an older protocol.
const methodInitialize = "initialize"

// client returns the MCP client of this session.
func (s *session) client() *sdk.Client {
	opts := &sdk.ClientOptions{
		Capabilities:                s.owner.capabilities(),
		MultiRoundTrip:              &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { s.markStale() },
		ProgressNotificationHandler: s.progressed,
	}
	if server := s.owner.describer.server; server.ElicitationTimeout > 0 {
		opts.ElicitationHandler = s.elicited
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "everturn", Version: "1"}, opts)
	client.AddSendingMiddleware(s.owner.hideElicitation, s.owner.recoverPanics, trimResults)
	client.AddReceivingMiddleware(s.owner.recoverPanics, refuseSampling, requireParams)
	return client
}

// capabilities returns the client capabilities that servers are told. They include elicitation, for servers of the
// newest protocol; modest removes it again for servers of an older one.
func (c *connector) capabilities() *sdk.ClientCapabilities {
	return &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{ // not nil, which would advertise roots
		Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{},
	}}
}

// hideElicitation is sending middleware that does not offer elicitation to servers of older protocols unless
// ElicitationTimeout is set.
func (c *connector) hideElicitation(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if p, ok := req.GetParams().(*sdk.InitializeParams); ok && method == methodInitialize &&
			c.describer.server.ElicitationTimeout <= 0 {
			p.Capabilities.Elicitation = nil
		}
		return next(ctx, method, req)
	}
}

// upgraded returns the session to use with a server whose handshake succeeded in this version. It is a new session if
// the server also knows a newer protocol, which a handshake in the older one does not show. The connector remembers the
// answer, so that only the first connect takes two handshakes. A server that took long to start keeps its session: it
// might not be ready again within the same time. A server that exits when it is asked is started once more, and not
// asked again.
func (c *connector) upgraded(ctx context.Context, s *session, version string) (*session, error) {
	deadline, _ := ctx.Deadline()
	hurried := time.Until(deadline) < c.describer.server.ConnectTimeout*2/3
	before := c.version.Swap(&version)
	if version != versionLegacy || before != nil && *before == version || hurried || !s.link.disposable {
		return s, nil
	}
	newest := s.supportsNewestProtocol(ctx)
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
	c.version.Store(new(versionLatest))
	newer, err := c.open(ctx, s.conn)
	if err == nil {
		return newer, nil
	}
	c.log.Info("an MCP server does not do what it says of the newest protocol", "server", c.id(), "error", err)
	c.version.Store(&version)
	return c.open(ctx, s.conn)
}

// supportsNewestProtocol asks a server, after a handshake in the older protocol, whether it knows the newest one too.
// That handshake goes first because some servers exit or fall silent when they receive anything else first.
func (s *session) supportsNewestProtocol(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, discoverWithin)
	defer cancel()
	params := &sdk.DiscoverParams{Meta: sdk.Meta{
		sdk.MetaKeyProtocolVersion: newestVersion, sdk.MetaKeyClientInfo: &sdk.Implementation{Name: "everturn", Version: "1"},
		sdk.MetaKeyClientCapabilities: map[string]any{},
	}}
	r, err := sdk.CallCustomMethod[*sdk.DiscoverParams, *sdk.DiscoverResult](ctx, s.mcp, "server/discover", params)
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

// The SDK reads what a server sends in its own goroutines and in ours, and does not recover from panics there. One line
// of one server must not end the worker with the calls of all other servers.

// recoverPanics is middleware that turns a panic into an error, both for a server's requests and for its responses.
func (c *connector) recoverPanics(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (result sdk.Result, err error) {
		defer c.recoverPanic(method, &err)
		return next(ctx, method, req)
	}
}

// recoverPanic recovers from a panic while this package processes what a server sent, and sets *err. It must be
// deferred directly.
func (c *connector) recoverPanic(doing string, err *error) {
	if p := recover(); p != nil {
		c.log.Error("what an MCP server said cannot be read", "server", c.id(), "doing", doing, "panic", p, "stack",
			string(debug.Stack()))
		*err = fmt.Errorf("what it said to %s cannot be read", doing)
	}
}

// noSampling is the error message for a server that requests sampling.
const noSampling = "Everturn does not support sampling, which MCP deprecates (SEP-2577)"

// refuseSampling is receiving middleware that answers sampling/createMessage with an error that gives the reason. The
// code is not CodeMethodNotFound, because the SDK replaces the message of errors with that code.
func refuseSampling(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if method == "sampling/createMessage" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: noSampling}
		}
		return next(ctx, method, req)
	}
}

// requireParams is receiving middleware that rejects requests without the params that the SDK dereferences unchecked.
// For some of them the SDK does so under a lock, which a panic would leave locked.
func requireParams(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		missing := false
		switch p := req.GetParams().(type) {
		case *sdk.ElicitParams:
			missing = p == nil
		case *sdk.ElicitationCompleteParams:
			missing = p == nil
		}
		if missing {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: method + " has no params"}
		}
		return next(ctx, method, req)
	}
}
