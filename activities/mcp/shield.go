package mcp

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
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
