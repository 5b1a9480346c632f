package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/turn"
)

type requestList struct {
	Requests []client.Request `json:"requests"`
}

func (c *call) listRequests(ctx context.Context, in listInput) (out requestList, err error) {
	return c.pending(ctx, "", in.Limit)
}

type sessionListInput struct {
	sessionInput
	listInput
}

func (c *call) listSessionRequests(ctx context.Context, in sessionListInput) (out requestList, err error) {
	return c.pending(ctx, in.Session, in.Limit)
}

// pending returns the open requests of a session, or of all sessions if session is empty.
func (c *call) pending(ctx context.Context, session string, limit int) (out requestList, err error) {
	if limit, err = limitOf(cmp.Or(limit, 100)); err != nil {
		return out, err
	}
	list, err := c.Pending(ctx, client.PendingInput{Session: session, Limit: limit})
	return requestList{listed(list)}, err
}

// decisionInput is a decision about a request. Which fields it needs depends on the request's kind.
type decisionInput struct {
	sessionInput
	Turn    string `path:"turn" json:"-"`
	Request string `path:"request" json:"-"`
	// An approval.
	Allow         *bool           `json:"allow,omitempty" jsonschema:"of an approval: whether the call may run"`
	ArgumentsHash string          `json:"arguments_hash,omitempty" jsonschema:"of an approval: that of the request whose arguments were seen; needed to allow"`
	Reason        string          `json:"reason,omitempty" jsonschema:"of an approval: recorded; the model is told why a call is denied"`
	Grant         turn.GrantScope `json:"grant,omitempty" jsonschema:"of an approval: later calls of the session that are allowed too"`
	Covered       bool            `json:"covered,omitempty" jsonschema:"of an approval: also allow the turn's other open requests that the grant makes unnecessary"`
	ChangedPlan   json.RawMessage `json:"changed_plan,omitempty" jsonschema:"of the approval of a plan: the plan that takes its place"`
	// A question.
	Text string `json:"text,omitempty" jsonschema:"of a question: the answer"`
	// An elicitation.
	Response *turn.ElicitationResponse `json:"response,omitempty" jsonschema:"of an elicitation: the response"`
}

type decisionList struct {
	Decisions []turn.Decision `json:"decisions" jsonschema:"the decision, and those of the requests that it covers"`
}

func (c *call) decide(ctx context.Context, in decisionInput) (out decisionList, err error) {
	given := 0
	for _, is := range []bool{in.Allow != nil, in.Text != "", in.Response != nil} {
		if is {
			given++
		}
	}
	if strings.HasPrefix(in.Request, turn.ResultRequest("")) {
		return out, invalid("request", "%.40s waits for the result of a call: send it to /calls/{call}/result", in.Request)
	}
	if given != 1 {
		return out, invalid("", "a decision has one of allow (an approval), text (a question) and response (an elicitation)")
	}
	allow := in.Allow != nil && *in.Allow
	if allow && in.ArgumentsHash == "" {
		return out, invalid("arguments_hash",
			"to allow a call, send the arguments_hash of the request whose arguments were seen")
	}
	out.Decisions, err = c.Decide(ctx, client.DecideInput{
		Session: in.Session, Turn: in.Turn, Request: in.Request, By: c.token.Principal, Allow: allow,
		ArgumentsHash: in.ArgumentsHash, Reason: in.Reason, Grant: in.Grant, Covered: in.Covered,
		ChangedPlan: in.ChangedPlan, Text: in.Text, Response: in.Response,
	})
	return out, err
}

// resultInput is the result of a call that a client has run.
type resultInput struct {
	sessionInput
	Turn   string `path:"turn" json:"-"`
	Call   string `path:"call" json:"-"`
	Text   string `json:"text" jsonschema:"what the model gets, at most 8 MiB"`
	Failed bool   `json:"failed,omitempty" jsonschema:"the tool returned an error, which the text describes"`
}

func (c *call) settleCall(ctx context.Context, in resultInput) (client.Settled, error) {
	return c.SettleCall(ctx, client.SettleInput{Session: in.Session, Turn: in.Turn, Call: in.Call, Text: in.Text,
		Failed: in.Failed, By: c.token.Principal})
}
