package frozen

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Journal is what the cache needs of a journal.DB, which documents the methods.
type Journal interface {
	TurnConfig(ctx context.Context, turnID string) (journal.TurnConfig, error)
	StepMessage(ctx context.Context, key journal.StepKey) (turn.Message, error)
	PutBlob(ctx context.Context, mediaType string, b []byte) (hash string, err error)
	GetBlob(ctx context.Context, hash string) ([]byte, error)
}

// Cache has what never changes of the turns that run: their configs and prompt configs, and windows of transcripts. It
// reads from the journal what it does not have.
type Cache struct {
	journal       Journal
	windows       *windowCache
	promptConfigs *lru.Cache[string, turn.PromptConfig]
	turns         *lru.Cache[string, Turn]
}

// New returns an empty cache whose windows take at most maxBytes.
func New(j Journal, maxBytes int64) (*Cache, error) {
	windows, err := newWindowCache(maxBytes)
	if err != nil {
		return nil, fmt.Errorf("making the cache of prompts: %w", err)
	}
	promptConfigs, err := lru.New[string, turn.PromptConfig](maxPromptConfigs)
	if err != nil {
		return nil, fmt.Errorf("making the cache of prompt configs: %w", err)
	}
	turns, err := lru.New[string, Turn](maxTurns)
	if err != nil {
		return nil, fmt.Errorf("making the cache of turns: %w", err)
	}
	return &Cache{journal: j, windows: windows, promptConfigs: promptConfigs, turns: turns}, nil
}

// windowCache keeps the transcript windows of active sessions, by the hash of their head. A hash identifies its
// transcript exactly, so an entry can be old but never wrong. The cache is bounded in bytes; a miss only costs a read.
type windowCache struct {
	mu    sync.Mutex
	lru   *simplelru.LRU[string, window]
	bytes int64
	max   int64
}

// window is consecutive messages of a transcript. The last one is the head under whose hash the cache has the window.
type window struct {
	from     int64 // sequence number of the first message
	messages []turn.Message
	bytes    int64 // estimated size in memory
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
	size := int64(256) // for the entry itself
	for _, m := range messages {
		size += MessageBytes(m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if size > c.max || head.Hash == "" { // too large to keep, or an empty transcript
		return
	}
	c.lru.Remove(head.Hash)
	c.lru.Add(head.Hash, window{from: from, messages: slices.Clip(messages), bytes: size})
	c.bytes += size
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

// Window returns the messages up to this head of which the first one has the sequence number from, if the cache has all
// of them.
func (c *Cache) Window(head turn.Head, from int64) ([]turn.Message, bool) {
	return c.windows.get(head, from)
}

// PutWindow stores the window of head. Its first message has the sequence number from.
func (c *Cache) PutWindow(head turn.Head, from int64, messages []turn.Message) {
	c.windows.put(head, from, messages)
}

// ForgetWindows removes the windows of these heads.
func (c *Cache) ForgetWindows(heads ...turn.Head) { c.windows.forget(heads...) }

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
	MaxCost         *turn.USD    // nil means no limit
	Limits          turn.Limits
	Context         json.RawMessage // for the tools
	// RetryMax and FallbackAfter are those of the turn.Config.
	RetryMax      *int
	FallbackAfter time.Duration
}

// TurnOf returns the Turn of a turn with this config.
func TurnOf(session, tenant string, caller turn.Caller, cfg turn.Config) Turn {
	return Turn{Session: session, Tenant: tenant, Caller: caller, PromptConfig: cfg.PromptConfig, Models: cfg.Models,
		MaxCost: cfg.Limits.MaxCost(), Limits: cfg.Limits, Context: cfg.Context, RetryMax: cfg.RetryMax,
		FallbackAfter: cfg.FallbackAfter}
}

// maxTurns bounds the number of turns whose config a worker keeps in memory; one takes about 600 bytes.
const maxTurns = 4096

// maxPromptConfigs bounds the number of prompt configs in memory; one with 80 tools takes about 100 KB.
const maxPromptConfigs = 32

// PutPromptConfig stores the prompt config as a blob of the journal and returns its hash. A prompt config in the cache is in the
// journal already, so it is not written again.
func (c *Cache) PutPromptConfig(ctx context.Context, p turn.PromptConfig) (string, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encoding the prompt config: %w", err)
	}
	if hash := journal.HashOf(b); c.promptConfigs.Contains(hash) {
		return hash, nil
	}
	hash, err := c.journal.PutBlob(ctx, "application/json", b)
	if err != nil {
		return "", fmt.Errorf("storing the prompt config: %w", err)
	}
	c.promptConfigs.Add(hash, p)
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

// Turn returns what Begin recorded of a turn, from the cache or else from the journal. It does not change while
// the turn runs.
func (c *Cache) Turn(ctx context.Context, id string) (Turn, error) {
	if t, ok := c.turns.Get(id); ok {
		return t, nil
	}
	rec, err := c.journal.TurnConfig(ctx, id)
	if err != nil {
		return Turn{}, fmt.Errorf("reading the configuration of turn %s: %w", id, attempt.BehindIfMissing(err))
	}
	cfg, err := DecodeConfig(rec.Config)
	if err != nil {
		return Turn{}, err
	}
	t := TurnOf(rec.Session, rec.Tenant, rec.Caller, cfg)
	c.turns.Add(id, t)
	return t, nil
}

// PutTurn stores what Begin has recorded of a turn.
func (c *Cache) PutTurn(id string, t Turn) { c.turns.Add(id, t) }

// Config reads the config of a turn from the journal.
func (c *Cache) Config(ctx context.Context, turnID string) (turn.Config, error) {
	rec, err := c.journal.TurnConfig(ctx, turnID)
	if err != nil {
		return turn.Config{}, fmt.Errorf("reading the configuration of turn %s: %w", turnID, attempt.BehindIfMissing(err))
	}
	return DecodeConfig(rec.Config)
}

// DecodeConfig decodes a turn config from the JSON in the journal.
func DecodeConfig(raw json.RawMessage) (turn.Config, error) {
	var c turn.Config
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, turn.Errorf(turn.CodeInternal, err, "the turn's config cannot be read")
	}
	return c, nil
}

// StepMessage returns the assistant message of a settled step. It never changes, so the worker that ran the inference
// has it in its cache.
func (c *Cache) StepMessage(ctx context.Context, key journal.StepKey) (turn.Message, error) {
	if messages, ok := c.Window(StepHead(key), 0); ok {
		return messages[0], nil
	}
	return c.journal.StepMessage(ctx, key)
}

// StepHead returns the key under which the window cache has a step's assistant message. It cannot collide with a
// window's hash, which is hexadecimal.
func StepHead(key journal.StepKey) turn.Head {
	return turn.Head{Hash: fmt.Sprintf("step %d of %s", key.Step, key.Turn)}
}
