package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/internal/items"
	"github.com/everturn/everturn/workflows/turn"
)

// function is a tool that an OpenAI client runs, as Chat Completions and Responses have it.
type function struct {
	Type string `json:"type"`
	signature
	Function *signature `json:"function,omitempty"`
}

// signature is what the model knows of a function.
type signature struct {
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// functions are the tools of a request.
type functions []function

// tools returns the functions as client tools.
func (f functions) tools() (list []turn.ClientTool, err error) {
	for _, t := range f {
		if t.Type != "function" {
			return nil, invalid("tools", "tools of type %.40q are not supported: agents have the tools of their configuration, "+
				"and a request can bring functions", t.Type)
		}
		if t.Function != nil {
			t.signature = *t.Function
		}
		list = append(list, turn.ClientTool{Name: t.Name, Description: t.Description, Schema: t.Parameters})
	}
	return list, nil
}

// isFor reports whether the caller runs the calls of a client tool: it is one of the request's functions, or one of an
// earlier request, but not one of the configuration, whose calls another client runs.
func (c *call) isFor(tool string, own functions) bool {
	name := strings.TrimPrefix(tool, turn.ClientTools)
	sent := slices.ContainsFunc(own, func(f function) bool {
		return f.Name == name || f.Function != nil && f.Function.Name == name
	})
	return sent || !slices.ContainsFunc(c.server.Config.AllClientTools(),
		func(t turn.ClientTool) bool { return t.Name == name })
}

// toolChoice is what the first answer does with tools. In JSON it is a word or an object with a name.
type toolChoice string

// UnmarshalJSON implements json.Unmarshaler.
func (c *toolChoice) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, (*string)(c)) == nil {
		return nil
	}
	var named function
	if err := json.Unmarshal(b, &named); err != nil {
		return err
	}
	if named.Function != nil {
		named.signature = *named.Function
	}
	if named.Name == "" {
		return fmt.Errorf("tool_choice has no name of a function")
	}
	*c = toolChoice(turn.ClientTools + named.Name)
	return nil
}

// output is the result of a call that a client has run.
type output struct {
	call string // the ID that the client got
	text string
}

// clientCall returns the ID by which a client knows a call. It names the turn, so that the result finds it.
func clientCall(turnID, call string) string {
	return "call_" + turnID + "_" + strings.ReplaceAll(call, ".", "-")
}

// settleOutputs sends the results of calls to their turn, and returns the turn and the index of the event with which it
// goes on.
func (c *call) settleOutputs(ctx context.Context, outputs []output) (rec client.TurnRecord, from int64, err error) {
	calls := map[string]bool{}
	for _, o := range outputs {
		rest, ok := strings.CutPrefix(o.call, "call_")
		n := strings.LastIndexByte(rest, '_')
		if !ok || n < 0 {
			return rec, 0, invalid("call_id", "%.100q is not the ID of a call", o.call)
		}
		turnID, id := rest[:n], strings.ReplaceAll(rest[n+1:], "-", ".")
		if rec.ID != "" && rec.ID != turnID {
			return rec, 0, invalid("call_id", "the results are of calls of several turns")
		}
		if rec, err = c.Journal().Turn(ctx, turnID); err != nil {
			return rec, 0, err
		}
		calls[id] = true
		if _, err := c.SettleCall(ctx, client.SettleInput{Session: rec.Session, Turn: turnID, Call: id, Text: o.text,
			By: c.token.Principal}); err != nil {
			return rec, 0, err
		}
	}
	start := client.Cursor{Turn: rec.ID, Index: -1}
	for e, err := range present(ctx, c.Journal(), eventsInput{Turn: rec.ID}, start) {
		if err != nil {
			return rec, 0, err
		}
		var r turn.Request
		if e.Kind == turn.EventQuestionAsked && json.Unmarshal(e.Data, &r) == nil && calls[r.Call] {
			from = e.Index + 1
		}
	}
	return rec, from, nil
}

// handouts are the calls of client tools that a turn has handed out, or that have ended.
type handouts map[string]bool

// add notes a change of the items.
func (h handouts) add(c items.Change) {
	switch {
	case c.Do == items.Begin && c.Item.Kind == items.Request && c.Item.Request.Kind == turn.RequestResult:
		h[c.Item.Request.Call] = true
	case c.Do == items.End && c.Item.Kind == items.Call:
		h[c.Item.Call.CallID] = true
	}
}

// complete reports whether all calls of client tools of a step are handed out or have ended: a client gets the calls of
// a step together.
func (h handouts) complete(ctx context.Context, j client.Journal, turnID string, step int) (bool, error) {
	list, err := j.Inferences(ctx, turnID)
	for _, i := range list {
		if i.Key.Step != step {
			continue
		}
		for _, c := range i.Message.ToolCalls {
			if strings.HasPrefix(c.Tool, turn.ClientTools) && !h[c.ID] {
				return false, nil
			}
		}
	}
	return true, err
}

// argumentsOf returns the whole arguments of a call that is handed out.
func (c *call) argumentsOf(ctx context.Context, turnID string, r turn.Request) (string, error) {
	list, err := c.Journal().Requests(ctx, turnID)
	for _, whole := range list {
		if whole.ID == r.ID {
			return whole.Arguments, err
		}
	}
	return r.Arguments, err
}
