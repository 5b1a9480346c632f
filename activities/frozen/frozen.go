package frozen

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

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
	journal Journal
	windows
	promptConfigs *lru.Cache[string, turn.PromptConfig]
	turns         *lru.Cache[string, Turn]
}

// New returns an empty cache whose windows take at most maxBytes.
func New(j Journal, maxBytes int64) (*Cache, error) {
	promptConfigs, err := lru.New[string, turn.PromptConfig](maxPromptConfigs)
	if err != nil {
		return nil, fmt.Errorf("making the cache of prompt configs: %w", err)
	}
	turns, err := lru.New[string, Turn](maxTurns)
	if err != nil {
		return nil, fmt.Errorf("making the cache of turns: %w", err)
	}
	c := &Cache{journal: j, promptConfigs: promptConfigs, turns: turns}
	if err := c.init(maxBytes); err != nil {
		return nil, fmt.Errorf("making the cache of prompts: %w", err)
	}
	return c, nil
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

// AddTurn stores what Begin has recorded of a turn.
func (c *Cache) AddTurn(id string, t Turn) { c.turns.Add(id, t) }

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
		return c, turn.NewError(turn.CodeInternal, err, "the turn's config cannot be read")
	}
	return c, nil
}

// StepMessage returns the assistant message of a settled step. It never changes, so the worker that ran the inference
// has it in its cache. If the journal lacks it, the error wraps journal.ErrBehind.
func (c *Cache) StepMessage(ctx context.Context, step journal.StepKey) (turn.Message, error) {
	c.mu.Lock()
	w, ok := c.lru.Get(key{step: step})
	c.mu.Unlock()
	if ok {
		return w.messages[0], nil
	}
	m, err := c.journal.StepMessage(ctx, step)
	return m, attempt.BehindIfMissing(err)
}

// Turn is the part of a turn's recorded config that its inferences and calls need.
type Turn struct {
	Session, Tenant string
	Caller          turn.Caller  // of the session, if it is that of a subagent
	PromptConfig    string       // hash of its blob
	Models          []turn.Model // the turn's model and its fallbacks, in order
	Limits          turn.Limits
	PlanAgent       string          // see turn.Config.PlanAgent
	Context         json.RawMessage // for the tools
	// RetryMax and FallbackAfter are those of the turn.Config.
	RetryMax      *int
	FallbackAfter time.Duration
}

// TurnOf returns the Turn of a turn with this config.
func TurnOf(session, tenant string, caller turn.Caller, cfg turn.Config) Turn {
	return Turn{Session: session, Tenant: tenant, Caller: caller, PromptConfig: cfg.PromptConfig, Models: cfg.Models,
		Limits: cfg.Limits, PlanAgent: cfg.PlanAgent(), Context: cfg.Context, RetryMax: cfg.RetryMax,
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

// StorePromptConfig stores the prompt config as a blob of the journal, unless the journal has it, and returns its hash.
func (c *Cache) StorePromptConfig(ctx context.Context, p turn.PromptConfig) (string, error) {
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
		return p, turn.NewError(turn.CodeInternal, err, "the turn's prompt config cannot be read")
	}
	c.promptConfigs.Add(hash, p)
	return p, nil
}
