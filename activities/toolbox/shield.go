package toolbox

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What a server says is read by the SDK, in goroutines of its own and in ours, and nothing there recovers from a panic. One
// line of one server must not end the worker, with the calls of all the others.

// shielded is middleware that makes an error of a panic, be it in what a server asks or in what it answers.
func (c *connector) shielded(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		defer c.survive(method, &err)
		return next(ctx, method, req)
	}
}

// survive is to be deferred where something that a server said is worked on: it makes *err of a panic.
func (c *connector) survive(doing string, err *error) {
	if p := recover(); p != nil {
		c.log.Error("what an MCP server said cannot be read", "server", c.id(), "doing", doing, "panic", p, "stack", string(debug.Stack()))
		*err = fmt.Errorf("what it said to %s cannot be read", doing)
	}
}

// noSampling is what a server is told that asks for a model's answer.
const noSampling = "Everturn does not support sampling, which MCP deprecates (SEP-2577)"

// refuseSampling is receiving middleware that answers sampling/createMessage with an error that gives the reason. The code
// is not CodeMethodNotFound, because the SDK replaces the message of errors with that code.
func refuseSampling(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == "sampling/createMessage" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: noSampling}
		}
		return next(ctx, method, req)
	}
}

// complete is receiving middleware that refuses what lacks the params that the SDK takes for granted. It does so for some of
// them under a lock, which a panic would leave locked.
func complete(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		missing := false
		switch p := req.GetParams().(type) {
		case *mcp.ElicitParams:
			missing = p == nil
		case *mcp.ElicitationCompleteParams:
			missing = p == nil
		}
		if missing {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: method + " has no params"}
		}
		return next(ctx, method, req)
	}
}
