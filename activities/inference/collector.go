package inference

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// ErrGarbage means that an object of the response is not an event of the wire API.
var ErrGarbage = errors.New("the response is not one of the wire API")

// errOpenCall means that a response ended before it had sent a tool call completely.
var errOpenCall = errors.New("a tool call is incomplete")

// Collector assembles a completion from what a wire API reads, and passes text to the sink as it arrives. The errors of
// its methods mean that the response exceeds a bound.
type Collector struct {
	sink      turn.Sink
	began     bool // an event has arrived
	text      strings.Builder
	reasoning strings.Builder
	calls     []*Call
	items     []turn.ProviderItem
	textBytes int // bytes: see maxTextBytes
	pieces    int // see maxPieces
	finish    string
	refused   bool // part of the text was a refusal
	model     string
	usage     *turn.Usage
	raw       rawLog
}

// Call is a tool call that is being assembled.
type Call struct {
	ID   string // the provider's
	Name string // the tool's wire name
	Open bool   // the provider has not said yet that it is complete

	collector *Collector
	arguments strings.Builder
}

func newCollector(sink turn.Sink, maxRaw int) *Collector {
	return &Collector{sink: sink, raw: rawLog{left: maxRaw}}
}

// Event records an event that is not an error. It has consists of a number of pieces beside itself.
func (c *Collector) Event(data []byte, pieces int) error {
	c.began = true
	c.raw.add(data)
	return c.Pieces(1 + pieces)
}

// Pieces counts n pieces of the response.
func (c *Collector) Pieces(n int) error {
	if c.pieces += n; c.pieces > maxPieces {
		return &overBound{maxPieces, "pieces"}
	}
	return nil
}

// count adds n to the number of bytes of text.
func (c *Collector) count(n int) error {
	if c.textBytes += n; c.textBytes > maxTextBytes {
		return &overBound{maxTextBytes, "bytes of text"}
	}
	return nil
}

// Text adds to the completion's text.
func (c *Collector) Text(s string) error {
	if s = replaceNUL(s); s == "" {
		return nil
	}
	c.text.WriteString(s)
	c.sink.Text(s)
	return c.count(len(s))
}

// Refusal adds text that the provider marks as the model's refusal.
func (c *Collector) Refusal(s string) error {
	c.refused = c.refused || s != ""
	return c.Text(s)
}

// Reasoning adds to the model's reasoning as its user may see it.
func (c *Collector) Reasoning(s string) error {
	if s = replaceNUL(s); s == "" {
		return nil
	}
	c.reasoning.WriteString(s)
	c.sink.Reasoning(s)
	return c.count(len(s))
}

// Call adds a tool call.
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

// Add adds to the call's arguments. It sets the ID, and the name if there is none yet, unless they are empty.
func (c *Call) Add(id, name, arguments string) error {
	if id != "" {
		c.ID = replaceNUL(id)
	}
	if c.Name == "" {
		c.Name = replaceNUL(name)
	}
	c.arguments.WriteString(replaceNUL(arguments))
	return c.collector.count(len(id) + len(name) + len(arguments))
}

// Complete replaces the arguments by the whole ones and marks the call as complete. An empty string keeps them.
func (c *Call) Complete(arguments string) error {
	c.Open = false
	if arguments == "" || arguments == c.arguments.String() {
		return nil
	}
	c.arguments.Reset()
	return c.Add("", "", arguments)
}

// Item adds an item that the provider wants back: see turn.ProviderItem.
func (c *Collector) Item(part turn.ItemPart, raw json.RawMessage) error {
	c.items = append(c.items, turn.ProviderItem{Part: part, Raw: bytes.Clone(raw)})
	return c.count(len(raw))
}

// Items returns the items so far. The caller may replace their elements.
func (c *Collector) Items() []turn.ProviderItem { return c.items }

// Model records the model's name as the provider gives it.
func (c *Collector) Model(name string) {
	if name != "" {
		c.model = replaceNUL(name)
	}
}

// Usage records the tokens that the provider counts. Implausible counts are ignored.
func (c *Collector) Usage(u turn.Usage) {
	plausible := func(n int64) bool { return n >= 0 && n < maxTokens }
	if plausible(u.InputTokens) && plausible(u.OutputTokens) && plausible(u.CachedTokens) &&
		plausible(u.CacheWriteTokens) && plausible(u.ReasoningTokens) && u.Total() > 0 {
		c.usage = &u
	}
}

// maxTokens is the count from which a provider's usage is not believed.
const maxTokens = 1 << 40

// Tokens is a number of tokens in a provider's JSON. A value that is not a number decodes to 0, and one that no int64
// holds to -1.
type Tokens int64

// UnmarshalJSON reads a number.
func (t *Tokens) UnmarshalJSON(b []byte) error {
	var f float64
	*t = 0
	if err := json.Unmarshal(b, &f); err != nil {
		if b[0] == '-' || b[0] >= '0' && b[0] <= '9' {
			*t = -1
		}
		return nil
	}
	if *t = Tokens(-1); f >= 0 && f < maxTokens {
		*t = Tokens(f)
	}
	return nil
}

// Finish records the finish reason. The completion is then complete, and what follows is only its usage.
func (c *Collector) Finish(reason string) { c.finish = replaceNUL(reason) }

// check refuses a completion that claims to be complete and has an incomplete call.
func (c *Collector) check() error {
	if (turn.Completion{FinishReason: c.finish, Refused: c.refused}).Stop() != "" {
		return nil // its calls do not run
	}
	for _, call := range c.calls {
		if call.Open {
			return errOpenCall
		}
	}
	return nil
}

// completion returns the completion that the events add up to. sent is the size of the request in bytes, to estimate
// tokens from.
func (c *Collector) completion(sent int) turn.Completion {
	done := turn.Completion{
		Text: c.text.String(), Reasoning: c.reasoning.String(), Model: c.model, Raw: c.raw.json(),
		FinishReason: c.finish, Refused: c.refused,
	}
	size := len(done.Text) + len(done.Reasoning)
	for _, call := range c.calls {
		w := turn.ToolCall{WireID: call.ID, Tool: call.Name, Arguments: call.arguments.String()}
		size += len(w.Tool) + len(w.Arguments)
		done.ToolCalls = append(done.ToolCalls, w)
	}
	for _, item := range c.items {
		if len(item.Raw) > 0 {
			done.Items = &turn.ProviderItems{Items: c.items}
		}
	}
	if c.usage != nil {
		done.Usage = *c.usage
		return done
	}
	done.Usage = turn.Usage{InputTokens: estimate(sent), OutputTokens: estimate(size), Estimated: true}
	return done
}

// cutUsage returns the usage of a response that ends before it is complete: what the provider has reported so far, or
// nothing. Providers report the output at the end, so the output is at least an estimate.
func (c *Collector) cutUsage() turn.Usage {
	if c.usage == nil {
		return turn.Usage{}
	}
	size := c.text.Len() + c.reasoning.Len()
	for _, call := range c.calls {
		size += len(call.Name) + call.arguments.Len()
	}
	u := *c.usage
	u.OutputTokens, u.Estimated = max(u.OutputTokens, estimate(size)), true
	return u
}

// estimate estimates tokens as four bytes each, rounded up.
func estimate(bytes int) int64 { return int64(bytes+3) / 4 }

// replaceNUL replaces NUL, which journals and terminals do not accept. Package json has already replaced invalid UTF-8.
func replaceNUL(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }

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
