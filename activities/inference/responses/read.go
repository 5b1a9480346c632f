package responses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/workflows/turn"
)

// event is one event of a stream, or a whole response that is not streamed.
type event struct {
	Type  string          `json:"type"`
	Index int             `json:"output_index"`
	Item  json.RawMessage `json:"item"`
	Delta string          `json:"delta"`

	Object   string    `json:"object"` // "response", if it is not streamed
	Response *response `json:"response"`
	response
}

// response is the API's response object. The last event of a stream contains it.
type response struct {
	Status     string            `json:"status"`
	Model      string            `json:"model"`
	Output     []json.RawMessage `json:"output"`
	Error      json.RawMessage   `json:"error"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage *struct {
		Input   inference.Tokens `json:"input_tokens"`
		Output  inference.Tokens `json:"output_tokens"`
		Details struct {
			Cached inference.Tokens `json:"cached_tokens"`
			Write  inference.Tokens `json:"cache_write_tokens"`
		} `json:"input_tokens_details"`
		OutputDetails struct {
			Reasoning inference.Tokens `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
}

// outputItem is an item of the output, with the fields of messages and calls.
type outputItem struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Phase     string `json:"phase"`
	Status    string `json:"status"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Content   []struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
}

// reader adds the events of one response to a Collector.
type reader struct {
	collector *inference.Collector
	outputs   []*output // in the order in which they began
	byIndex   map[int]*output
}

// output is the state of an output item that is being received.
type output struct {
	call     *inference.Call // nil: not a call, or not begun
	streamed bool            // its text has arrived in deltas
	done     bool            // the whole item has arrived
	part     turn.ItemPart   // see turn.ProviderItem
	raw      json.RawMessage // see turn.ProviderItem
}

// Reader implements inference.Wire.
func (Wire) Reader(c *inference.Collector) func([]byte) error {
	return (&reader{collector: c, byIndex: map[int]*output{}}).add
}

// add decodes the next event and passes its content to the Collector. It returns inference.ErrGarbage if data is not an
// event of the API, and an *inference.StreamError for an error event. It ignores unknown types of events.
func (r *reader) add(data []byte) error {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("%w: %w", inference.ErrGarbage, err)
	}
	hasError := len(e.Error) > 0 && !bytes.Equal(e.Error, []byte("null"))
	if e.Type == "error" || e.Type == "" && hasError { // an error event, or an error object without a stream
		return &inference.StreamError{Body: data}
	}
	if e.Type == "" && e.Object != "response" {
		return inference.ErrGarbage
	}
	if err := r.collector.Event(data, 0); err != nil {
		return err
	}
	switch e.Type {
	case "": // a response that is not streamed
		return r.endResponse(e.response)
	case "response.output_item.added":
		return r.beginItem(r.outputAt(e.Index), e.Item)
	case "response.output_item.done":
		return r.completeItem(r.outputAt(e.Index), e.Item)
	case "response.output_text.delta":
		r.outputAt(e.Index).streamed = true
		return r.collector.Text(e.Delta)
	case "response.refusal.delta":
		r.outputAt(e.Index).streamed = true
		return r.collector.Refusal(e.Delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return r.collector.Reasoning(e.Delta)
	case "response.function_call_arguments.delta":
		if call := r.outputAt(e.Index).call; call != nil {
			return call.Add("", "", e.Delta)
		}
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		if e.Response == nil {
			return inference.ErrGarbage
		}
		return r.endResponse(*e.Response)
	}
	return nil
}

// outputAt returns the output item with an index, which it creates if there is none.
func (r *reader) outputAt(index int) *output {
	o := r.byIndex[index]
	if o == nil {
		o = &output{}
		r.byIndex[index] = o
		r.outputs = append(r.outputs, o)
	}
	return o
}

// beginItem begins a tool call if raw is one, with its ID and name; its arguments follow. It does nothing for other
// items, and for a call that has begun already.
func (r *reader) beginItem(o *output, raw json.RawMessage) error {
	var i outputItem
	if json.Unmarshal(raw, &i) != nil || i.Type != "function_call" || o.call != nil {
		return nil
	}
	call, err := r.collector.Call()
	if err != nil {
		return err
	}
	o.call, call.Open = call, true
	return call.Add(i.CallID, i.Name, "")
}

// completeItem adds the content of a whole item that has not arrived yet, and keeps what must be sent back. It may be
// called twice for an item: when the item is done, and at the end of the response.
func (r *reader) completeItem(o *output, raw json.RawMessage) error {
	var i outputItem
	if err := json.Unmarshal(raw, &i); err != nil {
		return fmt.Errorf("%w: %w", inference.ErrGarbage, err)
	}
	wasDone := o.done
	o.done = true
	switch {
	case i.Type == "function_call":
		if err := r.beginItem(o, raw); err != nil {
			return err
		}
		o.part, o.raw = turn.PartCall, itemReference(i)
		if o.call == nil || wasDone || i.Status == "incomplete" { // an incomplete call stays open
			return nil
		}
		return o.call.Complete(i.Arguments)
	case i.Type == "message":
		o.part, o.raw = turn.PartText, itemReference(i)
		if o.streamed || wasDone {
			return nil
		}
		for _, c := range i.Content {
			if err := r.collector.Text(c.Text); err != nil {
				return err
			}
			if err := r.collector.Refusal(c.Refusal); err != nil {
				return err
			}
		}
	default: // replaces what came before: Azure may send the encrypted content of reasoning only at the end
		o.raw = raw
	}
	return nil
}

// itemReference returns the fields of a call or a message that the transcript does not keep and that the provider needs
// back, as the JSON of an item; nil if the item has no ID.
func itemReference(i outputItem) json.RawMessage {
	if i.ID == "" {
		return nil
	}
	b, _ := json.Marshal(item{Type: i.Type, ID: i.ID, Phase: i.Phase}) // strings always marshal
	return b
}

// endResponse adds the usage, the remaining items and the finish reason of the response object, which ends the
// response. It returns a *StreamError if the response has failed or was cancelled. A response with a reason why it is
// incomplete, or that is still in progress, counts as incomplete; any other unknown status counts as complete.
func (r *reader) endResponse(res response) error {
	r.collector.Model(res.Model)
	if u := res.Usage; u != nil {
		r.collector.Usage(turn.Usage{InputTokens: int64(u.Input), OutputTokens: int64(u.Output),
			CachedTokens: int64(u.Details.Cached), CacheWriteTokens: int64(u.Details.Write),
			ReasoningTokens: int64(u.OutputDetails.Reasoning)})
	}
	if res.Status == "failed" || res.Status == "cancelled" {
		body, _ := json.Marshal(map[string]json.RawMessage{"error": orNull(res.Error)}) // decoded JSON always marshals
		return &inference.StreamError{Body: body}
	}
	// The API has no finish reason. The reasons are those of Chat Completions, except for an incomplete response.
	reason := "stop"
	incomplete := res.Incomplete.Reason != "" || slices.Contains([]string{"incomplete", "queued", "in_progress"}, res.Status)
	if incomplete {
		reason = res.Incomplete.Reason
		if stopped := (turn.Completion{FinishReason: reason}).Stop(); stopped == "" { // an unknown reason
			reason = string(turn.StopLength)
		}
	}
	if err := r.addFinalItems(res, incomplete); err != nil {
		return err
	}
	if reason == "stop" && len(r.collector.Calls()) > 0 {
		reason = "tool_calls"
	}
	r.collector.Finish(reason)
	return nil
}

// addFinalItems completes the items that are in the response object, and then passes all complete items to the
// Collector in their order, to be sent back.
func (r *reader) addFinalItems(res response, incomplete bool) error {
	if err := r.collector.Pieces(len(res.Output)); err != nil {
		return err
	}
	if !incomplete { // the last item of an incomplete response may be incomplete
		for index, raw := range res.Output {
			if err := r.completeItem(r.outputAt(index), raw); err != nil {
				return err
			}
		}
	}
	for _, o := range r.outputs {
		if o.done {
			if err := r.collector.Item(o.part, o.raw); err != nil {
				return err
			}
		}
	}
	return nil
}

// orNull returns raw, or the JSON null if raw is empty, because an empty RawMessage does not marshal.
func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}
