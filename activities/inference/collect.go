package inference

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// errGarbage means that an object of the response is not an event of a chat completion.
var errGarbage = errors.New("the response is not a chat completion")

// collector assembles a completion from its events and passes text to the sink as it arrives.
type collector struct {
	sink      turn.Sink
	began     bool // an event has arrived
	text      strings.Builder
	reasoning strings.Builder
	calls     []*partialCall
	byIndex   map[int]*partialCall    // the latest call of each index
	byID      map[string]*partialCall // the latest call of each ID
	textBytes int                     // bytes: see maxTextBytes
	pieces    int                     // see maxPieces
	finish    string
	refused   bool // part of the text was a refusal
	model     string
	usage     *usage
	raw       rawLog
}

// partialCall is a tool partialCall that is being assembled.
type partialCall struct {
	index     int // the provider's; -1 if it gave none
	id        string
	name      string
	arguments strings.Builder
}

func newCollector(sink turn.Sink, maxRaw int) *collector {
	return &collector{sink: sink, raw: rawLog{left: maxRaw}, byIndex: map[int]*partialCall{},
		byID: map[string]*partialCall{}}
}

// add takes the next event, which is within the bounds of one event (see events.next). The error is errGarbage, an
// *overBound of the response, or a *streamError if the provider sent an error in the stream.
func (c *collector) add(data []byte) error {
	data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("%w: %w", errGarbage, err)
	}
	if len(e.Error) > 0 && !bytes.Equal(e.Error, []byte("null")) {
		return &streamError{body: data}
	}
	c.began = true
	c.raw.add(data)
	if e.Model != "" {
		c.model = replaceNUL(e.Model)
	}
	if u, ok := parseUsage(e.Usage); ok {
		c.usage = &u
	}
	if err := c.countPieces(1 + len(e.Choices)); err != nil {
		return err
	}
	for _, ch := range e.Choices {
		if ch.Index != 0 {
			continue // the request asked for one choice
		}
		if err := c.addChoice(ch, data); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) addChoice(ch choice, data []byte) error {
	for _, p := range []*piece{ch.Delta, ch.Message} {
		if p == nil {
			continue
		}
		if err := c.addPiece(p); err != nil {
			return err
		}
	}
	switch ch.FinishReason {
	case "", "null":
	case "error": // OpenRouter: the upstream provider failed in the middle of the response
		return &streamError{body: data}
	default:
		c.finish = replaceNUL(ch.FinishReason) // truncated later, after redaction
	}
	return nil
}

// countPieces adds n to the number of pieces of the response.
func (c *collector) countPieces(n int) error {
	if c.pieces += n; c.pieces > maxPieces {
		return &overBound{maxPieces, "pieces"}
	}
	return nil
}

// countText adds n to the number of bytes of text.
func (c *collector) countText(n int) error {
	if c.textBytes += n; c.textBytes > maxTextBytes {
		return &overBound{maxTextBytes, "bytes of text"}
	}
	return nil
}

func (c *collector) addPiece(p *piece) error {
	if err := c.countText(len(p.Content) + len(p.Refusal) + len(p.Reasoning) + len(p.Thinking)); err != nil {
		return err
	}
	if thought := replaceNUL(p.Thinking); thought != "" || p.Reasoning != "" {
		if thought == "" {
			thought = replaceNUL(p.Reasoning)
		}
		c.reasoning.WriteString(thought)
		c.sink.Reasoning(thought)
	}
	c.refused = c.refused || p.Refusal != ""
	if said := replaceNUL(p.Content + p.Refusal); said != "" {
		c.text.WriteString(said)
		c.sink.Text(said)
	}
	if err := c.countPieces(len(p.ToolCalls)); err != nil {
		return err
	}
	for _, part := range p.ToolCalls {
		if err := c.countText(len(part.ID) + len(part.Function.Name) + len(part.Function.Arguments)); err != nil {
			return err
		}
		if err := c.addCallPart(part); err != nil {
			return err
		}
	}
	return nil
}

// addCallPart adds a part to its call.
func (c *collector) addCallPart(part callPart) error {
	id := replaceNUL(part.ID)
	to := c.continuedCall(part, id)
	if to == nil {
		if len(c.calls) == maxCalls {
			return &overBound{maxCalls, "tool calls"}
		}
		to = &partialCall{index: -1}
		if part.Index != nil {
			to.index = *part.Index
			c.byIndex[to.index] = to
		}
		c.calls = append(c.calls, to)
	}
	if id != "" {
		to.id = id
		c.byID[id] = to
	}
	if to.name == "" {
		to.name = replaceNUL(part.Function.Name)
	}
	to.arguments.WriteString(replaceNUL(part.Function.Arguments))
	return nil
}

// continuedCall returns the call that a part continues, or nil for a new one. It matches by index if the part has one,
// otherwise by ID. A part with neither continues the last call unless it names a function. Some servers give all calls
// the index 0: there, a part with another ID and a name of its own begins a new call.
func (c *collector) continuedCall(part callPart, id string) *partialCall {
	named := part.Function.Name != ""
	known := c.byID[id]
	if known != nil && known.id != id { // the call has since got another ID
		known = nil
	}
	switch {
	case part.Index == nil && id != "":
		return known
	case part.Index == nil && (named || len(c.calls) == 0):
		return nil
	case part.Index == nil:
		return c.calls[len(c.calls)-1]
	}
	latest := c.byIndex[*part.Index]
	if latest == nil || id == "" || latest.id == "" || latest.id == id || !named {
		return latest
	}
	if known != nil && known.index == *part.Index {
		return known
	}
	return nil
}

// completion returns the completion that the events add up to. sent is the size of the request in bytes, to estimate
// tokens from.
func (c *collector) completion(sent int) turn.Completion {
	a := turn.Completion{
		Text: c.text.String(), Reasoning: c.reasoning.String(), Model: c.model, Raw: c.raw.json(),
		FinishReason: c.finish, Refused: c.refused,
	}
	size := len(a.Text) + len(a.Reasoning)
	for _, call := range c.calls {
		w := turn.ToolCall{WireID: call.id, Tool: call.name, Arguments: call.arguments.String()}
		size += len(w.Tool) + len(w.Arguments)
		a.ToolCalls = append(a.ToolCalls, w)
	}
	if c.usage == nil {
		a.Usage = turn.Usage{InputTokens: tokens(sent), OutputTokens: tokens(size), Estimated: true}
		return a
	}
	a.Usage = turn.Usage{
		InputTokens: int64(c.usage.Prompt), OutputTokens: int64(c.usage.Completion),
		CachedTokens: int64(c.usage.Details.Cached),
	}
	return a
}

// tokens estimates tokens as four bytes each, rounded up.
func tokens(bytes int) int64 { return int64(bytes+3) / 4 }

// rawLog keeps the events verbatim, up to a size.
type rawLog struct {
	left    int
	kept    bytes.Buffer
	dropped int // events
	bytes   int // of the dropped events
}

func (r *rawLog) add(data []byte) {
	if r.dropped > 0 || len(data)+1 > r.left {
		r.dropped++
		r.bytes += len(data)
		return
	}
	if r.kept.Len() > 0 {
		r.kept.WriteByte(',')
	}
	r.kept.Write(data)
	r.left -= len(data) + 1
}

// json returns the events as an array. If some were dropped, its last element gives their number.
func (r *rawLog) json() json.RawMessage {
	out := append([]byte{'['}, r.kept.Bytes()...)
	if r.dropped > 0 {
		if r.kept.Len() > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, `{"everturn_dropped":{"events":%d,"bytes":%d}}`, r.dropped, r.bytes)
	}
	return append(out, ']')
}
