package frozen

import (
	"context"
	"encoding/json"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"

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
	if m, ok := c.windows.step(key); ok {
		return m, nil
	}
	return c.journal.StepMessage(ctx, key)
}

// PutStep stores the assistant message of a settled step, after which the transcript has this head.
func (c *Cache) PutStep(key journal.StepKey, head turn.Head, m turn.Message) {
	c.windows.putStep(key, head, m)
}

// ForgetStep removes the assistant message of a step, and the window that ends with it.
func (c *Cache) ForgetStep(key journal.StepKey) { c.windows.forgetStep(key) }

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
