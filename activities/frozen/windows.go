package frozen

import (
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// windows keeps the transcript windows of active sessions, by the hash of their head. A hash identifies its transcript
// exactly, so an entry can be old but never wrong. They are bounded in bytes; a miss only costs a read.
type windows struct {
	mu    sync.Mutex
	lru   *simplelru.LRU[key, window]
	bytes int64
	max   int64
}

// key is what a window is found by: the hash of the head that is its last message, or else the step of which it has the
// assistant message.
type key struct {
	hash string
	step journal.StepKey
}

// window is consecutive messages of a transcript.
type window struct {
	from     int64 // sequence number of the first message
	messages []turn.Message
	bytes    int64     // estimated size in memory
	head     turn.Head // of the transcript after the message of a step
}

// init empties the windows, which are then of at most maxBytes.
func (c *windows) init(maxBytes int64) (err error) {
	c.max = maxBytes
	// Every removal runs the callback, whether the cache is full or Remove is called. The number of entries is bounded
	// only because the library needs a bound.
	c.lru, err = simplelru.NewLRU(1<<16, func(_ key, w window) { c.bytes -= w.bytes })
	return err
}

// Window returns the messages up to this head of which the first one has the sequence number from, if the cache has all
// of them. They may be the end of a longer window.
func (c *windows) Window(head turn.Head, from int64) ([]turn.Message, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.lru.Get(key{hash: head.Hash})
	if !ok || w.from > from || from-w.from > int64(len(w.messages)) || head.Hash == "" {
		return nil, false
	}
	return slices.Clip(w.messages[from-w.from:]), true // clipped, so that an append copies instead of changing the window
}

// AddWindow stores the window of head, and removes those of older heads, which it replaces. Its first message has the
// sequence number from.
func (c *windows) AddWindow(head turn.Head, from int64, messages []turn.Message, older ...turn.Head) {
	c.add(key{hash: head.Hash}, window{from: from, messages: slices.Clip(messages)}, older...)
}

// AddStep stores the assistant message of a settled step, after which the transcript has this head.
func (c *windows) AddStep(step journal.StepKey, head turn.Head, m turn.Message) {
	c.add(key{step: step}, window{messages: []turn.Message{m}, head: head})
}

// ForgetStep removes the assistant message of a step, and the window that ends with it.
func (c *windows) ForgetStep(step journal.StepKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.lru.Get(key{step: step}); ok {
		c.lru.Remove(key{hash: w.head.Hash})
		c.lru.Remove(key{step: step})
	}
}

// add stores a window under a key, unless it is too large to keep, or the key is empty, which means an empty
// transcript. It removes the windows of older heads.
func (c *windows) add(k key, w window, older ...turn.Head) {
	w.bytes = 256 // for the entry itself
	for _, m := range w.messages {
		w.bytes += MessageBytes(m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range older {
		c.lru.Remove(key{hash: h.Hash})
	}
	if w.bytes > c.max || k == (key{}) {
		return
	}
	c.lru.Remove(k)
	c.lru.Add(k, w)
	c.bytes += w.bytes
	for c.bytes > c.max {
		c.lru.RemoveOldest()
	}
}

// ForgetWindows removes the windows of these heads.
func (c *windows) ForgetWindows(heads ...turn.Head) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range heads {
		c.lru.Remove(key{hash: h.Hash})
	}
}

// MessageBytes returns the approximate size of a message in memory, in bytes, without the data of its media. The
// constants stand for the fixed fields.
func MessageBytes(m turn.Message) int64 {
	n := len(m.Text) + 256
	for _, call := range m.ToolCalls {
		n += len(call.Arguments) + 128
	}
	if m.Items != nil {
		for _, item := range m.Items.Items {
			n += len(item.Raw) + 32
		}
	}
	return int64(n)
}
