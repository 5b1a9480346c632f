package frozen

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// windowCache keeps the transcript windows of active sessions, by the hash of their head. A hash identifies its
// transcript exactly, so an entry can be old but never wrong. The cache is bounded in bytes; a miss only costs a read.
type windowCache struct {
	mu    sync.Mutex
	lru   *simplelru.LRU[string, window]
	bytes int64
	max   int64
}

// window is consecutive messages of a transcript. The last one is the head under whose hash the cache has the window,
// or the assistant message of a step, which the cache has under stepKey.
type window struct {
	from     int64 // sequence number of the first message
	messages []turn.Message
	bytes    int64     // estimated size in memory
	head     turn.Head // of the transcript after the message of a step
}

// newWindowCache returns an empty cache of at most maxBytes.
func newWindowCache(maxBytes int64) (*windowCache, error) {
	c := &windowCache{max: maxBytes}
	// Every removal runs the callback, whether the cache is full or Remove is called. The number of entries is bounded
	// only because the library needs a bound.
	l, err := simplelru.NewLRU(1<<16, func(_ string, w window) { c.bytes -= w.bytes })
	c.lru = l
	return c, err
}

// get returns the messages up to this head of which the first one has the sequence number from. They may be the end of
// a longer window. The result is false if the cache does not have all of them.
func (c *windowCache) get(head turn.Head, from int64) ([]turn.Message, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.lru.Get(head.Hash)
	if !ok || w.from > from || from-w.from > int64(len(w.messages)) || head.Hash == "" {
		return nil, false
	}
	return slices.Clip(w.messages[from-w.from:]), true // clipped, so that an append copies instead of changing the window
}

// put stores the window of head. Its first message has the sequence number from.
func (c *windowCache) put(head turn.Head, from int64, messages []turn.Message) {
	c.add(head.Hash, window{from: from, messages: slices.Clip(messages)})
}

// putStep stores the assistant message of a settled step, after which the transcript has this head.
func (c *windowCache) putStep(key journal.StepKey, head turn.Head, m turn.Message) {
	c.add(stepKey(key), window{messages: []turn.Message{m}, head: head})
}

// step returns the assistant message of a settled step. The result is false if the cache does not have it.
func (c *windowCache) step(key journal.StepKey) (turn.Message, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.lru.Get(stepKey(key))
	if !ok {
		return turn.Message{}, false
	}
	return w.messages[0], true
}

// forgetStep removes the assistant message of a step, and the window that ends with it.
func (c *windowCache) forgetStep(key journal.StepKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.lru.Get(stepKey(key)); ok {
		c.lru.Remove(w.head.Hash)
		c.lru.Remove(stepKey(key))
	}
}

// stepKey returns the key under which the cache has a step's assistant message. It cannot collide with a window's hash,
// which is hexadecimal.
func stepKey(key journal.StepKey) string { return fmt.Sprintf("step %d of %s", key.Step, key.Turn) }

// add stores a window under a key, unless it is too large to keep, or the key is empty, which means an empty
// transcript.
func (c *windowCache) add(key string, w window) {
	w.bytes = 256 // for the entry itself
	for _, m := range w.messages {
		w.bytes += MessageBytes(m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.bytes > c.max || key == "" {
		return
	}
	c.lru.Remove(key)
	c.lru.Add(key, w)
	c.bytes += w.bytes
	for c.bytes > c.max {
		c.lru.RemoveOldest()
	}
}

// forget removes the windows of these heads.
func (c *windowCache) forget(heads ...turn.Head) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range heads {
		c.lru.Remove(h.Hash)
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

// Turn is the part of a turn's recorded config that its inferences and calls need.
type Turn struct {
	Session, Tenant string
	Caller          turn.Caller  // of the session, if it is that of a subagent
	PromptConfig    string       // hash of its blob
	Models          []turn.Model // the turn's model and its fallbacks, in order
	Limits          turn.Limits
	Context         json.RawMessage // for the tools
	// RetryMax and FallbackAfter are those of the turn.Config.
	RetryMax      *int
	FallbackAfter time.Duration
}

// TurnOf returns the Turn of a turn with this config.
func TurnOf(session, tenant string, caller turn.Caller, cfg turn.Config) Turn {
	return Turn{Session: session, Tenant: tenant, Caller: caller, PromptConfig: cfg.PromptConfig, Models: cfg.Models,
		Limits: cfg.Limits, Context: cfg.Context, RetryMax: cfg.RetryMax,
		FallbackAfter: cfg.FallbackAfter}
}

// maxTurns bounds the number of turns whose config a worker keeps in memory; one takes about 600 bytes.
const maxTurns = 4096

// maxPromptConfigs bounds the number of prompt configs in memory; one with 80 tools takes about 100 KB.
const maxPromptConfigs = 32

// EncodePromptConfig returns the hash of a prompt config and its JSON, which is nil if the cache has the prompt config,
// because the journal has it then.
func (c *Cache) EncodePromptConfig(p turn.PromptConfig) (hash string, raw json.RawMessage, err error) {
	raw, err = json.Marshal(p)
	if err != nil {
		return "", nil, fmt.Errorf("encoding the prompt config: %w", err)
	}
	if hash = journal.HashOf(raw); c.promptConfigs.Contains(hash) {
		raw = nil
	}
	return hash, raw, nil
}

// AddPromptConfig adds a prompt config that the journal has.
func (c *Cache) AddPromptConfig(hash string, p turn.PromptConfig) { c.promptConfigs.Add(hash, p) }

// PutPromptConfig stores the prompt config as a blob of the journal, unless the journal has it, and returns its hash.
func (c *Cache) PutPromptConfig(ctx context.Context, p turn.PromptConfig) (string, error) {
	hash, raw, err := c.EncodePromptConfig(p)
	if err != nil || raw == nil {
		return hash, err
	}
	if _, err := c.journal.PutBlob(ctx, "application/json", raw); err != nil {
		return "", fmt.Errorf("storing the prompt config: %w", err)
	}
	c.AddPromptConfig(hash, p)
	return hash, nil
}

// PromptConfig returns the prompt config with this hash, from the cache or else from the journal.
func (c *Cache) PromptConfig(ctx context.Context, hash string) (turn.PromptConfig, error) {
	if p, ok := c.promptConfigs.Get(hash); ok {
		return p, nil
	}
	var p turn.PromptConfig
	b, err := c.journal.GetBlob(ctx, hash)
	if err != nil {
		return p, fmt.Errorf("reading the prompt config: %w", err)
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return p, turn.Errorf(turn.CodeInternal, err, "the turn's prompt config cannot be read")
	}
	c.promptConfigs.Add(hash, p)
	return p, nil
}
