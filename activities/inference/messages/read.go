package messages

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/workflows/turn"
)

// event is one event of a stream, or a whole message if the response is not streamed.
type event struct {
	Type  string          `json:"type"`
	Index int             `json:"index"`
	Block json.RawMessage `json:"content_block"`
	Delta struct {
		Type       string `json:"type"`
		Text       string `json:"text"`
		Thinking   string `json:"thinking"`
		Signature  string `json:"signature"`
		JSON       string `json:"partial_json"`
		StopReason string `json:"stop_reason"`
	} `json:"delta"`
	Usage   *usage       `json:"usage"`
	Message *fullMessage `json:"message"`
	fullMessage
}

// fullMessage is a message as a single object: the response that is not streamed, or the message that begins a stream.
type fullMessage struct {
	Model      string            `json:"model"`
	Content    []json.RawMessage `json:"content"`
	StopReason string            `json:"stop_reason"`
	Usage      *usage            `json:"usage"`
}

// usage contains a provider's token counts. input_tokens does not include the tokens read from or written to the cache.
// The counts at the end of a stream replace those at its beginning; a nil count is absent and replaces nothing.
type usage struct {
	Input      *inference.Tokens `json:"input_tokens"`
	Output     *inference.Tokens `json:"output_tokens"`
	CacheWrite *inference.Tokens `json:"cache_creation_input_tokens"`
	CacheRead  *inference.Tokens `json:"cache_read_input_tokens"`
	Details    struct {
		Thinking inference.Tokens `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// block is a content block, with the fields of the types that the reader understands.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`

	call      *inference.Call
	raw       json.RawMessage // the whole block, if its type is not text, thinking or tool_use
	thinking  strings.Builder
	signature strings.Builder
}

// reader adds the events of one response to a Collector.
type reader struct {
	collector *inference.Collector
	blocks    map[int]*block // the blocks that have begun and not ended, by index
	usage     usage          // the latest counts
}

// Reader implements inference.Wire.
func (Wire) Reader(c *inference.Collector) func([]byte) error {
	return (&reader{collector: c, blocks: map[int]*block{}}).add
}

// add decodes the next event and passes its content to the Collector. It returns inference.ErrGarbage if data is not an
// event of the API, and an *inference.StreamError for an error event. It ignores unknown types of events.
func (r *reader) add(data []byte) error {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("%w: %w", inference.ErrGarbage, err)
	}
	switch e.Type {
	case "error":
		return &inference.StreamError{Body: data}
	case "": // every event of the API has a type
		return inference.ErrGarbage
	}
	if err := r.collector.Event(data, 0); err != nil { // 0: addMessage counts the parts of a whole message
		return err
	}
	switch e.Type {
	case "message": // the whole answer, from an endpoint that does not stream
		return r.addMessage(e)
	case "message_start":
		if e.Message != nil {
			r.collector.Model(e.Message.Model)
			r.addUsage(e.Message.Usage)
		}
	case "content_block_start":
		return r.beginBlock(e.Index, e.Block)
	case "content_block_delta":
		return r.addDelta(e)
	case "content_block_stop":
		return r.endBlock(e.Index)
	case "message_delta":
		r.addUsage(e.Usage)
		if e.Delta.StopReason != "" {
			r.collector.Finish(e.Delta.StopReason)
		}
	}
	return nil
}

// addMessage adds the message of a response that is not streamed.
func (r *reader) addMessage(e event) error {
	r.collector.Model(e.Model)
	r.addUsage(e.Usage)
	if err := r.collector.Pieces(len(e.fullMessage.Content)); err != nil {
		return err
	}
	for i, raw := range e.fullMessage.Content {
		if err := r.beginBlock(i, raw); err != nil {
			return err
		}
		if err := r.endBlock(i); err != nil {
			return err
		}
	}
	if e.StopReason != "" {
		r.collector.Finish(e.StopReason)
	}
	return nil
}

// beginBlock begins the block with this index. raw is the block as far as it is known: empty at the beginning of a
// stream, complete if the response is not streamed.
func (r *reader) beginBlock(index int, raw json.RawMessage) error {
	b := &block{}
	if err := json.Unmarshal(raw, b); err != nil {
		return fmt.Errorf("%w: %w", inference.ErrGarbage, err)
	}
	r.blocks[index] = b
	switch b.Type {
	case "text":
		return r.collector.Text(b.Text)
	case "thinking":
		b.thinking.WriteString(b.Thinking)
		b.signature.WriteString(b.Signature)
		return r.collector.Reasoning(b.Thinking)
	case "tool_use":
		call, err := r.collector.Call()
		if err != nil {
			return err
		}
		b.call, call.Open = call, true
		return call.Add(b.ID, b.Name, "")
	}
	b.raw = raw // a block of another type, such as redacted thinking, is sent back unchanged
	return nil
}

// addDelta adds the next part of a block. It ignores deltas of blocks that have not begun.
func (r *reader) addDelta(e event) error {
	b := r.blocks[e.Index]
	if b == nil {
		return nil
	}
	switch e.Delta.Type {
	case "text_delta":
		return r.collector.Text(e.Delta.Text)
	case "thinking_delta":
		b.thinking.WriteString(e.Delta.Thinking)
		return r.collector.Reasoning(e.Delta.Thinking)
	case "signature_delta":
		b.signature.WriteString(e.Delta.Signature)
	case "input_json_delta":
		if b.call != nil {
			return b.call.Add("", "", e.Delta.JSON)
		}
	}
	return nil
}

// endBlock ends the block with this index, and records the item to send back: the thinking with its signature, a marker
// for the place of the text or call, or the whole block of another type. It does nothing if the block has not begun.
func (r *reader) endBlock(index int) error {
	b := r.blocks[index]
	delete(r.blocks, index)
	switch {
	case b == nil:
		return nil
	case b.call != nil:
		input := ""
		if string(b.Input) != "{}" { // the block began with all arguments; a stream begins it with {}
			input = string(b.Input)
		}
		if err := b.call.Complete(input); err != nil {
			return err
		}
		return r.collector.Item(turn.PartCall, nil)
	case b.Type == "text":
		return r.collector.Item(turn.PartText, nil)
	case b.Type == "thinking":
		if b.signature.Len() == 0 { // the API refuses thinking that it has not signed
			return nil
		}
		b.raw, _ = json.Marshal(struct { // strings always marshal
			Type      string `json:"type"`
			Thinking  string `json:"thinking"`
			Signature string `json:"signature"`
		}{b.Type, b.thinking.String(), b.signature.String()})
	}
	return r.collector.Item("", b.raw)
}

// addUsage merges the counts of a usage object into those seen before, and passes the totals to the Collector.
func (r *reader) addUsage(u *usage) {
	if u == nil {
		return
	}
	for _, c := range []struct{ to, from **inference.Tokens }{
		{&r.usage.Input, &u.Input}, {&r.usage.Output, &u.Output}, {&r.usage.CacheWrite, &u.CacheWrite},
		{&r.usage.CacheRead, &u.CacheRead},
	} {
		if *c.from != nil {
			*c.to = *c.from
		}
	}
	if u.Details.Thinking > 0 {
		r.usage.Details = u.Details
	}
	get := func(t *inference.Tokens) int64 {
		if t == nil {
			return 0
		}
		return int64(*t)
	}
	read, written := get(r.usage.CacheRead), get(r.usage.CacheWrite)
	r.collector.Usage(turn.Usage{InputTokens: get(r.usage.Input) + read + written, OutputTokens: get(r.usage.Output),
		CachedTokens: read, CacheWriteTokens: written, ReasoningTokens: int64(r.usage.Details.Thinking)})
}
