package inference

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// ErrGarbage means that the response contains an object that is not an event of the wire API.
var ErrGarbage = errors.New("the response is not one of the wire API")

// errOpenCall means that a response ended before a tool call in it was complete.
var errOpenCall = errors.New("a tool call is incomplete")

// Collector assembles the completion of one response. The reader of a wire API calls its methods with the content of
// the events; the Collector passes text to the sink at once. The errors of its methods mean that the response exceeds a
// bound.
type Collector struct {
	sink      turn.Sink
	began     bool // an event has arrived
	text      strings.Builder
	reasoning strings.Builder
	calls     []*Call
	items     []turn.ProviderItem
	textBytes int    // see maxTextBytes
	pieces    int    // see maxPieces
	finish    string // the finish reason; empty until the completion is complete
	refused   bool   // part of the text was a refusal
	model     string
	usage     *turn.Usage
	raw       rawLog
}

// Call is a tool call that is being assembled.
type Call struct {
	ID   string // the provider's
	Name string // the tool's wire name
	Open bool   // the provider will mark the call's end, and has not done so yet

	collector *Collector
	arguments strings.Builder
}

// newCollector returns a Collector that keeps at most maxRaw bytes of events verbatim.
func newCollector(sink turn.Sink, maxRaw int) *Collector {
	return &Collector{sink: sink, raw: rawLog{remaining: maxRaw}}
}

// Event records an event that is not an error. It counts as one piece, plus the number pieces of parts that it
// contains.
func (c *Collector) Event(data []byte, pieces int) error {
	c.began = true
	c.raw.add(data)
	return c.Pieces(1 + pieces)
}

// Pieces counts n more pieces of the response: events, choices, and parts of tool calls. Their number is bounded.
func (c *Collector) Pieces(n int) error {
	if c.pieces += n; c.pieces > maxPieces {
		return &overBound{maxPieces, "pieces"}
	}
	return nil
}

// countText counts n more bytes of text: see maxTextBytes.
func (c *Collector) countText(n int) error {
	if c.textBytes += n; c.textBytes > maxTextBytes {
		return &overBound{maxTextBytes, "bytes of text"}
	}
	return nil
}

// Text appends to the completion's text and passes s to the sink.
func (c *Collector) Text(s string) error {
	if s = replaceNUL(s); s == "" {
		return nil
	}
	c.text.WriteString(s)
	c.sink.Text(s)
	return c.countText(len(s))
}

// Refusal appends text that the provider marks as the model's refusal to answer.
func (c *Collector) Refusal(s string) error {
	c.refused = c.refused || s != ""
	return c.Text(s)
}

// Reasoning appends to the reasoning that the user may see, and passes s to the sink.
func (c *Collector) Reasoning(s string) error {
	if s = replaceNUL(s); s == "" {
		return nil
	}
	c.reasoning.WriteString(s)
	c.sink.Reasoning(s)
	return c.countText(len(s))
}

// Call adds a tool call to the completion and returns it, so that the reader can add its parts.
func (c *Collector) Call() (*Call, error) {
	if len(c.calls) == maxCalls {
		return nil, &overBound{maxCalls, "tool calls"}
	}
	call := &Call{collector: c}
	c.calls = append(c.calls, call)
	return call, nil
}

// Calls returns the tool calls so far.
func (c *Collector) Calls() []*Call { return c.calls }

// Add appends to the call's arguments. If id is not empty, it replaces the call's ID; name becomes the call's name only
// if the call has none yet, because some providers repeat it.
func (c *Call) Add(id, name, arguments string) error {
	if id != "" {
		c.ID = replaceNUL(id)
	}
	if c.Name == "" {
		c.Name = replaceNUL(name)
	}
	c.arguments.WriteString(replaceNUL(arguments))
	return c.collector.countText(len(id) + len(name) + len(arguments))
}

// Complete marks the call as complete. If arguments is not empty, it replaces the arguments that Add has collected.
func (c *Call) Complete(arguments string) error {
	c.Open = false
	if arguments == "" || arguments == c.arguments.String() {
		return nil
	}
	c.arguments.Reset()
	return c.Add("", "", arguments)
}

// Item adds an item that the provider needs back with the message: see turn.ProviderItem.
func (c *Collector) Item(part turn.ItemPart, raw json.RawMessage) error {
	c.items = append(c.items, turn.ProviderItem{Part: part, Raw: bytes.Clone(raw)})
	return c.countText(len(raw))
}

// Items returns the items so far. The caller may change the elements of the slice.
func (c *Collector) Items() []turn.ProviderItem { return c.items }

// Model records the model's name as the provider gives it.
func (c *Collector) Model(name string) {
	if name != "" {
		c.model = replaceNUL(name)
	}
}

// Usage records the provider's token counts, which replace earlier ones. It ignores implausible counts, and counts
// without an input or output token.
func (c *Collector) Usage(u turn.Usage) {
	plausible := func(n int64) bool { return n >= 0 && n < maxTokens }
	if plausible(u.InputTokens) && plausible(u.OutputTokens) && plausible(u.CachedTokens) &&
		plausible(u.CacheWriteTokens) && plausible(u.ReasoningTokens) && u.Total() > 0 {
		c.usage = &u
	}
}

// maxTokens is the token count from which a provider's usage counts as implausible.
const maxTokens = 1 << 40

// Tokens is a number of tokens in a provider's JSON. A value that is not a number decodes to 0, and an implausible
// number to -1, which Collector.Usage ignores.
type Tokens int64

// UnmarshalJSON implements json.Unmarshaler. It never fails, because a strange count must not lose the response.
func (t *Tokens) UnmarshalJSON(b []byte) error {
	var f float64
	*t = 0
	if err := json.Unmarshal(b, &f); err != nil {
		if b[0] == '-' || b[0] >= '0' && b[0] <= '9' { // a number that no float64 can hold
			*t = -1
		}
		return nil
	}
	if *t = Tokens(-1); f >= 0 && f < maxTokens {
		*t = Tokens(f)
	}
	return nil
}

// Finish records the finish reason. The completion is then complete; only its usage may follow. A later reason does not
// replace one that says that the completion ended early.
func (c *Collector) Finish(reason string) {
	if c.finish == "" || !c.endedEarly() {
		c.finish = replaceNUL(reason)
	}
}

// endedEarly reports whether the finish reason says that the completion ended early.
func (c *Collector) endedEarly() bool {
	return (turn.Completion{FinishReason: c.finish, Refused: c.refused}).Stop() != ""
}

// checkCalls returns errOpenCall if a finished completion contains an incomplete tool call. A completion that ended
// early may contain one, because its calls do not run.
func (c *Collector) checkCalls() error {
	if c.endedEarly() {
		return nil
	}
	for _, call := range c.calls {
		if call.Open {
			return errOpenCall
		}
	}
	return nil
}

// completion returns the completion collected so far. If the provider has reported no usage, the usage is an estimate;
// sent is the size of the request in bytes, from which the input tokens are estimated.
func (c *Collector) completion(sent int) turn.Completion {
	done := turn.Completion{
		Text: c.text.String(), Reasoning: c.reasoning.String(), Model: c.model, Raw: c.raw.json(),
		FinishReason: c.finish, Refused: c.refused,
	}
	size := len(done.Text) + len(done.Reasoning)
	for _, call := range c.calls {
		toolCall := turn.ToolCall{WireID: call.ID, Tool: call.Name, Arguments: call.arguments.String()}
		if call.ID != "" && slices.ContainsFunc(done.ToolCalls, func(before turn.ToolCall) bool {
			return before.WireID == call.ID && before.Tool == call.Name && before.Arguments == toolCall.Arguments
		}) {
			continue // the same call under another index
		}
		size += len(toolCall.Tool) + len(toolCall.Arguments)
		done.ToolCalls = append(done.ToolCalls, toolCall)
	}
	for _, item := range c.items { // items without content only mark an order, and are not worth keeping alone
		if len(item.Raw) > 0 {
			done.Items = &turn.ProviderItems{Items: c.items}
		}
	}
	if c.usage != nil {
		done.Usage = *c.usage
		return done
	}
	done.Usage = turn.Usage{InputTokens: turn.TokensOf(sent), OutputTokens: turn.TokensOf(size), Estimated: true}
	return done
}

// partialUsage returns the usage of a response that broke off before it was complete: the tokens that the provider has
// reported so far, or nothing. Providers report the output at the end, so the output tokens are at least the estimate
// for what has arrived.
func (c *Collector) partialUsage() turn.Usage {
	if c.usage == nil {
		return turn.Usage{}
	}
	size := c.text.Len() + c.reasoning.Len()
	for _, call := range c.calls {
		size += len(call.Name) + call.arguments.Len()
	}
	u := *c.usage
	u.OutputTokens, u.Estimated = max(u.OutputTokens, turn.TokensOf(size)), true
	return u
}

// replaceNUL replaces NUL with U+FFFD, because journals and terminals do not accept it. Package json has already
// replaced invalid UTF-8.
func replaceNUL(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }

// rawLog keeps the events of a response verbatim, up to a total size. It keeps the first ones and drops all others.
type rawLog struct {
	remaining    int
	kept         bytes.Buffer
	dropped      int // events
	droppedBytes int // of the dropped events
}

// add keeps an event, or counts it as dropped if it does not fit or an earlier one was dropped.
func (r *rawLog) add(data []byte) {
	if r.dropped > 0 || len(data)+1 > r.remaining {
		r.dropped++
		r.droppedBytes += len(data)
		return
	}
	if r.kept.Len() > 0 {
		r.kept.WriteByte(',')
	}
	r.kept.Write(data)
	r.remaining -= len(data) + 1
}

// json returns the kept events as a JSON array. If events were dropped, the last element gives their number and size.
func (r *rawLog) json() json.RawMessage {
	out := append([]byte{'['}, r.kept.Bytes()...)
	if r.dropped > 0 {
		if r.kept.Len() > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, `{"everturn_dropped":{"events":%d,"bytes":%d}}`, r.dropped, r.droppedBytes)
	}
	return append(out, ']')
}
