package httpapi

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/everturn/everturn/internal/items"
	"github.com/everturn/everturn/workflows/turn"
)

// change shows a change of the items as events of the response.
func (v *responseView) change(ctx context.Context, c items.Change) error {
	if c.Do == items.Finish {
		v.done = c.Done
		return nil
	}
	switch c.Item.Kind {
	case items.Message:
		return v.message(c)
	case items.Reasoning:
		return v.reasoning(c)
	case items.Call:
		if strings.HasPrefix(c.Item.Call.Tool, turn.ClientTools) {
			return nil // see ask
		}
		return v.callItem(c)
	case items.Request:
		if c.Do == items.Begin && c.Item.Request.Decision == nil { // otherwise an earlier response has asked
			return v.ask(ctx, c.Item)
		}
	}
	return nil
}

// add adds an item to the output.
func (v *responseView) add(i *items.Item, fields object) (*outputItem, error) {
	o := &outputItem{fields: fields, index: len(v.output)}
	v.output = append(v.output, o)
	v.parts[i] = o
	return o, v.emit("response.output_item.added", object{"output_index": o.index, "item": maps.Clone(fields)})
}

// endItem ends an item of the output.
func (v *responseView) endItem(o *outputItem) error {
	o.done = true
	return v.emit("response.output_item.done", object{"output_index": o.index, "item": maps.Clone(o.fields)})
}

// part emits an event about a part of an item.
func (v *responseView) part(kind string, o *outputItem, fields object) error {
	fields["item_id"], fields["output_index"] = o.fields["id"], o.index
	return v.emit(kind, fields)
}

// message shows text of the model. Text that is void ends as incomplete, and is no part of the final output.
func (v *responseView) message(c items.Change) error {
	part := func(text string) object {
		return object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
	}
	switch o := v.parts[c.Item]; c.Do {
	case items.Begin:
		o, err := v.add(c.Item, object{"type": "message", "id": v.itemID("msg", c.Item), "status": statusInProgress,
			"role": "assistant", "content": []object{}})
		if err != nil {
			return err
		}
		return v.part("response.content_part.added", o, object{"content_index": 0, "part": part("")})
	case items.Extend:
		return v.part("response.output_text.delta", o, object{"content_index": 0, "delta": c.Text, "logprobs": []any{}})
	case items.End, items.Withdraw:
		status := statusCompleted
		if c.Do == items.Withdraw {
			o.withdrawn, status = true, statusIncomplete
		}
		if o.done {
			return nil
		}
		o.fields["status"], o.fields["content"] = status, []object{part(c.Item.Text)}
		if err := v.part("response.output_text.done", o, object{"content_index": 0, "text": c.Item.Text,
			"logprobs": []any{}}); err != nil {
			return err
		}
		if err := v.part("response.content_part.done", o, object{"content_index": 0, "part": part(c.Item.Text)}); err != nil {
			return err
		}
		return v.endItem(o)
	}
	return nil
}

// reasoning shows reasoning of the model as a summary.
func (v *responseView) reasoning(c items.Change) error {
	part := func(text string) object { return object{"type": "summary_text", "text": text} }
	switch o := v.parts[c.Item]; c.Do {
	case items.Begin:
		o, err := v.add(c.Item, object{"type": "reasoning", "id": v.itemID("rs", c.Item), "summary": []object{}})
		if err != nil {
			return err
		}
		return v.part("response.reasoning_summary_part.added", o, object{"summary_index": 0, "part": part("")})
	case items.Extend:
		return v.part("response.reasoning_summary_text.delta", o, object{"summary_index": 0, "delta": c.Text})
	case items.End, items.Withdraw:
		o.withdrawn = c.Do == items.Withdraw
		if o.done {
			return nil
		}
		o.fields["summary"] = []object{part(c.Item.Text)}
		if err := v.part("response.reasoning_summary_text.done", o,
			object{"summary_index": 0, "text": c.Item.Text}); err != nil {
			return err
		}
		if err := v.part("response.reasoning_summary_part.done", o,
			object{"summary_index": 0, "part": part(c.Item.Text)}); err != nil {
			return err
		}
		return v.endItem(o)
	}
	return nil
}

// callItem shows a call. Every tool is one of a server, as OpenAI has it: a function call would be for the client to
// run.
func (v *responseView) callItem(c items.Change) error {
	call := c.Item.Call
	switch o := v.parts[c.Item]; c.Do {
	case items.Begin:
		server, name, _ := strings.Cut(call.Tool, "/")
		o, err := v.add(c.Item, object{"type": "mcp_call", "id": v.itemID("mcp", c.Item), "server_label": server,
			"name":      name,
			"arguments": call.Arguments, "output": nil, "error": nil, "approval_request_id": nil, "status": statusInProgress})
		if err != nil {
			return err
		}
		if err := v.part("response.mcp_call.in_progress", o, object{}); err != nil {
			return err
		}
		return v.part("response.mcp_call_arguments.done", o, object{"arguments": call.Arguments})
	case items.End:
		o.fields["status"], o.fields["output"] = statusCompleted, call.Preview
		kind := "response.mcp_call.completed"
		if call.Outcome != turn.OutcomeOK {
			kind = "response.mcp_call.failed"
			o.fields["status"], o.fields["output"] = statusFailed, nil
			o.fields["error"] = object{"type": "mcp_tool_execution_error",
				"content": []object{{"type": "text", "text": fmt.Sprintf("%s: %s", call.Outcome, call.Preview)}}}
		}
		if err := v.part(kind, o, object{}); err != nil {
			return err
		}
		return v.endItem(o)
	}
	return nil
}

// ask shows a request: an approval as OpenAI has it, and what else a turn waits for as a message.
func (v *responseView) ask(ctx context.Context, i *items.Item) error {
	r := i.Request
	switch r.Kind {
	case turn.RequestResult:
		if v.isFor(r.Tool, v.functions) {
			return v.handOut(ctx, i)
		}
		return v.say(fmt.Sprintf("[The call %s waits for a client that runs it: call %s of session %s.]", r.Tool, r.Call,
			v.rec.Session))
	case turn.RequestApproval:
		server, name, _ := strings.Cut(r.Tool, "/")
		id := v.itemID("mcpr", i)
		v.asked[id] = r
		o, err := v.add(i, object{"type": "mcp_approval_request", "id": id, "server_label": server, "name": name,
			"arguments": r.Arguments})
		if err != nil {
			return err
		}
		return v.endItem(o)
	case turn.RequestElicitation:
		return v.say(fmt.Sprintf("[A tool asks: %s It waits for the response to request %s.]",
			turn.Truncate(r.Elicitation.Message, 1000), r.ID))
	}
	for _, o := range v.output {
		if content, ok := o.fields["content"].([]object); ok && len(content) > 0 && !o.withdrawn {
			if text, _ := content[0]["text"].(string); strings.Contains(text, r.Question) {
				return nil // the model's text is the question
			}
		}
	}
	return v.say(r.Question)
}

// handOut shows a call for the client to run.
func (v *responseView) handOut(ctx context.Context, i *items.Item) error {
	arguments, err := v.argumentsOf(ctx, v.turn, i.Request)
	if err != nil {
		return err
	}
	o, err := v.add(i, object{"type": "function_call", "id": v.itemID("fc", i),
		"call_id": clientCall(v.turn, i.Request.Call), "name": strings.TrimPrefix(i.Request.Tool, turn.ClientTools),
		"arguments": "", "status": statusInProgress})
	if err != nil {
		return err
	}
	if err := v.part("response.function_call_arguments.delta", o, object{"delta": arguments}); err != nil {
		return err
	}
	o.fields["arguments"], o.fields["status"] = arguments, statusCompleted
	if err := v.part("response.function_call_arguments.done", o, object{"arguments": arguments,
		"name": o.fields["name"]}); err != nil {
		return err
	}
	return v.endItem(o)
}

// say shows a text as a whole message.
func (v *responseView) say(text string) error {
	if text == "" {
		return nil
	}
	i := &items.Item{ID: fmt.Sprintf("s%d", len(v.output)), Kind: items.Message, Text: text}
	for _, c := range []items.Change{{Do: items.Begin, Item: i}, {Do: items.Extend, Item: i, Text: text},
		{Do: items.End, Item: i}} {
		if err := v.message(c); err != nil {
			return err
		}
	}
	return nil
}
