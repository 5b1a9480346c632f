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

// client returns a new MCP client for this session. It declares no sampling and no roots, survives panics of the SDK,
// and handles elicitations in the middle of a call only if ElicitationTimeout is set.
func (s *session) client() *sdk.Client {
	opts := &sdk.ClientOptions{
		Capabilities:                s.owner.capabilities(),
		MultiRoundTrip:              &sdk.MultiRoundTripOptions{Disabled: true}, // the host repeats the call itself
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { s.markStale() },
		ProgressNotificationHandler: s.handleProgress,
	}
	if server := s.owner.describer.server; server.ElicitationTimeout > 0 {
		opts.ElicitationHandler = s.handleElicitation
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "everturn", Version: "1"}, opts)
	client.AddSendingMiddleware(s.owner.hideElicitation, s.owner.recoverPanics, trimResults)
	client.AddReceivingMiddleware(s.owner.recoverPanics, refuseSampling, requireParams)
	return client
}

// capabilities returns the client capabilities that the handshake declares. They include elicitation, for servers of
// the newest protocol; hideElicitation removes it for servers of older ones.
func (c *connector) capabilities() *sdk.ClientCapabilities {
	return &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{ // not nil, which would advertise roots
		Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{},
	}}
}

// hideElicitation is sending middleware that removes the elicitation capability from initialize, which only servers of
// older protocols receive, unless ElicitationTimeout is set. Such a server would hold its call open for the response.
func (c *connector) hideElicitation(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if p, ok := req.GetParams().(*sdk.InitializeParams); ok && method == methodInitialize &&
			c.describer.server.ElicitationTimeout <= 0 {
			p.Capabilities.Elicitation = nil
		}
		return next(ctx, method, req)
	}
}

// upgrade returns the session to use with a server whose handshake succeeded in this version. After a handshake in the
// older protocol it asks the server whether it supports the newest one, and if so replaces the session s with one in
// that protocol. The connector remembers the version, so that only the first connect takes two handshakes.
//
// upgrade keeps s if a new link cannot replace its link, as over HTTP, or if connecting has taken more than a third of
// ConnectTimeout, because the server might not start again in time. If the server exits because of the question, or
// cannot be opened in the newest protocol, upgrade starts it once more in the older protocol and does not ask again.
func (c *connector) upgrade(ctx context.Context, s *session, version string) (*session, error) {
	deadline, _ := ctx.Deadline()
	hurried := time.Until(deadline) < c.describer.server.ConnectTimeout*2/3
	before := c.version.Swap(&version)
	sameAsBefore := before != nil && *before == version
	if version != versionLegacy || sameAsBefore || hurried || !s.link.disposable {
		return s, nil
	}
	newest := s.supportsNewestProtocol(ctx)
	exited := s.link.watched.readError() != nil
	if !newest && !exited {
		return s, nil
	}
	s.retire()
	select {
	case <-s.lost: // the old process has exited, so that two never run side by side
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

// supportsNewestProtocol asks the server, after a handshake in the older protocol, whether it also supports the newest
// one. The request cannot be the first one, because some servers exit or stop responding if they receive anything else
// than initialize first. An error, or no answer within discoverWithin, means no.
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
		if v >= newestVersion { // versions are dates, and sort as text
			return true
		}
	}
	return false
}

const (
	newestVersion  = "2026-07-28" // the first version in which a call with elicitations is sent again (SEP-2322)
	discoverWithin = time.Second
)

// The SDK parses a server's messages in its own goroutines and in ours, and does not recover from panics there. A
// message of one server must not end the worker, and with it the calls of all other servers.

// recoverPanics is middleware that turns a panic into an error. It wraps both the server's requests and our own.
func (c *connector) recoverPanics(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (result sdk.Result, err error) {
		defer c.recoverPanic(method, &err)
		return next(ctx, method, req)
	}
}

// recoverPanic, in a defer statement of its own, recovers from a panic while a message of a server is processed, logs
// it, and sets *err. doing names the request or the tool for messages.
func (c *connector) recoverPanic(doing string, err *error) {
	if p := recover(); p != nil { // recover works only in the deferred function itself
		c.log.Error("what an MCP server said cannot be read", "server", c.id(), "doing", doing, "panic", p, "stack",
			string(debug.Stack()))
		*err = fmt.Errorf("what it said to %s cannot be read", doing)
	}
}

// noSampling is the error message for a server that requests sampling.
const noSampling = "Everturn does not support sampling, which MCP deprecates (SEP-2577)"

// refuseSampling is receiving middleware that answers sampling/createMessage with an error that gives the reason. The
// error's code is not CodeMethodNotFound, because the SDK would replace the message of such an error.
func refuseSampling(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if method == "sampling/createMessage" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: noSampling}
		}
		return next(ctx, method, req)
	}
}

// requireParams is receiving middleware that refuses elicitation messages without params. The SDK would dereference the
// nil params and panic, partly while it holds a lock, which would then stay locked.
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
