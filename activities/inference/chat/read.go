package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/everturn/everturn/activities/inference"
)

// reader adds the events of one response to a Collector.
type reader struct {
	collector        *inference.Collector
	states           map[*inference.Call]*callState
	byIndex          map[int]*inference.Call    // the latest call of each index
	byID             map[string]*inference.Call // the latest call of each ID
	reasoningContent strings.Builder            // the fields reasoning_content, joined
	reasoning        strings.Builder            // the fields reasoning, joined
	reasoningDetails details                    // the elements of the fields reasoning_details
}

// callState holds the fields of a call that an inference.Call does not have.
type callState struct {
	index int             // the provider's; -1 if it gave none
	extra json.RawMessage // extra_content
}

// Reader implements inference.Wire.
func (Wire) Reader(c *inference.Collector) func([]byte) error {
	r := &reader{collector: c, states: map[*inference.Call]*callState{}, byIndex: map[int]*inference.Call{},
		byID: map[string]*inference.Call{}}
	return r.add
}

// add decodes the next event and passes its content to the Collector. It returns inference.ErrGarbage if data is not an
// event of the API, and an *inference.StreamError for an error event.
func (r *reader) add(data []byte) error {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("%w: %w", inference.ErrGarbage, err)
	}
	if len(e.Error) > 0 && !bytes.Equal(e.Error, []byte("null")) {
		return &inference.StreamError{Body: data}
	}
	if err := r.collector.Event(data, len(e.Choices)); err != nil {
		return err
	}
	r.collector.Model(string(e.Model))
	if u, ok := parseUsage(e.Usage); ok {
		r.collector.Usage(u)
	}
	for _, ch := range e.Choices {
		if ch.Index != 0 {
			continue // the request asked for one choice
		}
		if err := r.addChoice(ch, data); err != nil {
			return err
		}
	}
	return nil
}

// addChoice adds a part of the completion, and its finish reason if it has one. data is the whole event, for an error.
func (r *reader) addChoice(ch choice, data []byte) error {
	for _, p := range []*piece{ch.Delta, ch.Message} {
		if p == nil {
			continue
		}
		if err := r.addPiece(p); err != nil {
			return err
		}
	}
	switch strings.ToLower(string(ch.FinishReason)) {
	case "", "null": // not finished
	// The provider failed in the middle of the response: OpenRouter, vLLM and SGLang, and DeepSeek.
	case "error", "abort", "aborted", "cancelled", "canceled", "timeout", "time_limit", "insufficient_system_resource":
		return &inference.StreamError{Body: data}
	default:
		r.collector.Finish(string(ch.FinishReason)) // its length is bounded later, after redaction
		return r.recordOwnFields()
	}
	return nil
}

// addPiece adds the text, the reasoning and the tool calls of a piece.
func (r *reader) addPiece(p *piece) error {
	thought := p.Thinking // the two fields are names for the same text
	if thought == "" {
		thought = p.Reasoning
	}
	r.reasoningContent.WriteString(string(p.Thinking))
	r.reasoning.WriteString(string(p.Reasoning))
	for _, d := range p.Details {
		r.reasoningDetails.add(d)
	}
	if err := r.collector.Reasoning(string(thought)); err != nil {
		return err
	}
	if err := r.collector.Text(string(p.Content)); err != nil {
		return err
	}
	if err := r.collector.Refusal(string(p.Refusal)); err != nil {
		return err
	}
	if err := r.collector.Pieces(len(p.ToolCalls) + len(p.Details)); err != nil {
		return err
	}
	for _, part := range p.ToolCalls {
		if err := r.addCallPart(part); err != nil {
			return err
		}
	}
	return nil
}

// addCallPart adds a part of a tool call to the call that it continues, or to a new one.
func (r *reader) addCallPart(part callPart) error {
	call := r.continuedCall(part)
	if call == nil {
		var err error
		if call, err = r.collector.Call(); err != nil {
			return err
		}
		r.states[call] = &callState{index: -1}
		if part.Index != nil {
			r.states[call].index = *part.Index
			r.byIndex[*part.Index] = call
		}
	}
	if part.ID != "" {
		r.byID[string(part.ID)] = call
	}
	if len(part.Extra) > 0 {
		r.states[call].extra = part.Extra
	}
	return call.Add(string(part.ID), string(part.Function.Name), string(part.Function.Arguments))
}

// continuedCall returns the call that a part continues, or nil if the part begins a new one. It finds the call by the
// part's index, or by its ID if there is no index. A part with neither continues the last call, unless it names a
// function. Some servers give all calls the index 0: so a part with a known index, but with another ID and the name of
// a function, continues the call with its own ID and index, or begins a new one.
func (r *reader) continuedCall(part callPart) *inference.Call {
	id := strings.ReplaceAll(string(part.ID), "\x00", "\uFFFD") // as Call.Add has stored it
	named, calls := part.Function.Name != "", r.collector.Calls()
	known := r.byID[string(part.ID)]
	if known != nil && known.ID != id { // the call has since got another ID
		known = nil
	}
	switch {
	case part.Index == nil && id != "":
		return known
	case part.Index == nil && (named || len(calls) == 0):
		return nil
	case part.Index == nil:
		return calls[len(calls)-1]
	}
	latest := r.byIndex[*part.Index]
	otherID := id != "" && latest != nil && latest.ID != "" && latest.ID != id
	if !otherID || !named {
		return latest
	}
	if known != nil && r.states[known].index == *part.Index {
		return known
	}
	return nil
}

// recordOwnFields records the provider's own fields of a complete response, for the next request. It does so only for a
// response with tool calls, because providers need the fields back only with calls.
func (r *reader) recordOwnFields() error {
	calls := r.collector.Calls()
	if len(calls) == 0 || len(r.collector.Items()) > 0 { // none to record, or recorded with an earlier finish reason
		return nil
	}
	var o ownFields
	if r.reasoningContent.Len() > 0 {
		o.ReasoningContent, _ = json.Marshal(r.reasoningContent.String()) // strings always marshal
	}
	if len(r.reasoningDetails) > 0 {
		o.ReasoningDetails, _ = json.Marshal(r.reasoningDetails) // decoded JSON always marshals
	}
	if r.reasoning.Len() > 0 && o.ReasoningContent == nil && o.ReasoningDetails == nil { // newer vLLM
		o.Reasoning, _ = json.Marshal(r.reasoning.String()) // strings always marshal
	}
	extra := make([]json.RawMessage, len(calls))
	for i, call := range calls {
		extra[i] = r.states[call].extra
	}
	return o.record(r.collector, extra)
}
