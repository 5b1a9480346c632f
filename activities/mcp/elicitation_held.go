package mcp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/workflows/turn"
)

// Servers of older protocols send an elicitation in the middle of a call and hold the call open until they have the
// response. They get the elicitation capability only if the operator allows it (Server.ElicitationTimeout). The attempt
// then waits for the user through ToolRequest.Elicit.

// handleElicitation handles elicitation/create, which a server of an older protocol sends in the middle of a call. It
// blocks until the user has responded, or until the call or ctx ends: the server then gets the action "cancel". If the
// user cannot be asked, the server gets an error, because "cancel" would claim that a user had cancelled. The request
// does not say to which call it belongs, so no user is asked if several calls are possible.
func (s *session) handleElicitation(ctx context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	a, err := s.elicitingCall()
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "The user was not asked: " + err.Error()}
	}
	q, err := s.elicitation("1", req.Params)
	if err != nil {
		s.owner.log.Info("refused an elicitation of an MCP server", "server", s.owner.id(), "reason", err)
		text := "The user was not asked: " + s.owner.clean(err.Error(), 400)
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: text}
	}
	return responseOf(a.elicit(ctx, q)), nil
}

// elicitingCall returns the call to which an elicitation of the server belongs. It fails if no call or several calls
// are possible, or if the call has sent too many elicitations. If several are possible, it logs a warning for each of
// them, once per call.
func (s *session) elicitingCall() (a *attempt, err error) {
	a, ambiguous, err := s.attempts.onlyCandidate()
	if err == nil {
		err = s.link.meter.countElicitation(int(a.elicitations.Add(1)))
	}
	for _, candidate := range ambiguous {
		req := candidate.req
		s.owner.log.Warn("refused an elicitation of an MCP server; the user was not asked", "server", s.owner.id(),
			"tool", req.Tool, "session", req.Session, "turn", req.Turn, "call", req.CallID, "reason", err)
	}
	return a, err
}

// elicit asks the user and returns the response, which fits the elicitation: if the user's does not, elicit asks again.
// This time does not count against the call's timeout. If ctx or the attempt ends first, the response is a cancel.
func (a *attempt) elicit(ctx context.Context, q turn.Elicitation) turn.ElicitationResponse {
	defer a.deadline.hold()()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.waitCtx, cancel)()
	for asked := q; ; {
		response, err := fit(q, a.req.Elicit(asked, ctx.Done()))
		if err == nil {
			return response
		}
		asked.Message = doesNotFit(q, err)
	}
}

// doesNotFit returns the message with which an elicitation is repeated after a response that does not fit it.
func doesNotFit(q turn.Elicitation, err error) string {
	return fmt.Sprintf("(The last response does not fit: %v.) %s", err, q.Message)
}

// responseOf converts a response to the SDK's type.
func responseOf(r turn.ElicitationResponse) *sdk.ElicitResult {
	out := &sdk.ElicitResult{Action: string(r.Action)}
	if r.Action == turn.ElicitationAccept && len(r.Content) > 0 {
		_ = json.Unmarshal(r.Content, &out.Content) // fit has parsed it before
	}
	return out
}
