package journal

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/workflows/turn"
)

// A turn may end in the middle of an inference: it is stopped, its time is up, its provider fails for good, or a later
// turn closes it. What the readers of the turn have seen of the answer becomes a message, so that the next prompt has it
// too, and the usage of the attempt is estimated.

// StreamInput is what an attempt of an inference has received.
type StreamInput struct {
	Key     StepKey
	Attempt int
	// PromptTokens estimates the size of the prompt. The first call that has it marks the attempt as billed.
	PromptTokens int64
	Events       []turn.Event // see DB.AppendEvents
}

// AppendStream is AppendEvents for an attempt whose provider has begun to answer. Events may be empty.
func (db *DB) AppendStream(ctx context.Context, in StreamInput) error {
	return db.appendEvents(ctx, in)
}

// markBilled records the size of the prompt that the provider has begun to answer.
func (t *tx) markBilled(a tables.Attempt, promptTokens int64) error {
	if promptTokens <= 0 || a.PromptTokens > 0 {
		return nil
	}
	return t.Exec(`UPDATE inferences SET prompt_tokens = ? WHERE id = ?`, promptTokens, a.Row)
}

// endInference ends the turn's last inference if it was never settled. It returns the text that it has kept.
func (t *tx) endInference(sc *scope, state turn.State, at time.Time) (string, error) {
	var step int
	err := t.Row(`SELECT step FROM inferences WHERE turn = ?1 AND settled_at IS NULL
		AND step = (SELECT max(step) FROM inferences WHERE turn = ?1)`, sc.Turn).Scan(&step)
	if err != nil {
		return "", tables.IgnoreNoRows(err)
	}
	a, err := t.Attempt(StepKey{Turn: sc.TurnID, Step: step})
	if err != nil {
		return "", err
	}
	deltas, err := t.Texts(`SELECT text FROM events WHERE turn = ? AND step = ? AND attempt = ? AND kind = ? ORDER BY idx`,
		sc.Turn, step, a.Inf.Attempt, string(turn.EventTextDelta))
	if err == nil {
		err = t.estimate(a, at)
	}
	text := strings.Join(deltas, "")
	if err != nil || strings.TrimSpace(text) == "" { // providers refuse a message without text
		return "", err
	}
	outcome := turn.OutcomeError
	if state == turn.StateCancelled {
		outcome = turn.OutcomeCancelled
	}
	_, err = t.AppendMessage(sc, turn.Message{Role: turn.RoleAssistant, Text: text, Outcome: outcome, Step: step})
	return text, err
}

// estimate reserves what an attempt has used by its prompt and its events, if the provider has begun to answer and
// nothing is reserved. The attempt's worker knows more and replaces the estimate, if it is still alive.
func (t *tx) estimate(a tables.Attempt, at time.Time) error {
	lost, err := t.lostAttempt(a)
	if err != nil || lost.Attempt == 0 || a.PromptTokens == 0 {
		return err
	}
	model, err := t.askedModel(a)
	if err != nil {
		return err
	}
	used := AttemptUsage{Key: a.Inf.Key, Attempt: lost.Attempt, Provider: model.Provider, Model: model.Name, At: at,
		Usage: turn.Usage{InputTokens: a.PromptTokens, OutputTokens: (lost.OutputBytes + 3) / 4, Estimated: true}}
	if used.Usage.Unpriced = model.Price == nil; model.Price != nil {
		used.Usage.Cost = model.Price.Cost(used.Usage)
	}
	day := dayOf(at)
	if err := t.insertUsage(a.Scope, used, day, true); err != nil || used.Usage.Cost == 0 {
		return err
	}
	return t.addSpending(a.Tenant, day, used.Usage.Cost)
}

// askedModel returns the model of the turn's config that a step asks. A turn without one has a model without a price.
func (t *tx) askedModel(a tables.Attempt) (turn.Model, error) {
	var stored tables.Stored
	err := t.Row(`SELECT config, config_blob FROM turns WHERE id = ?`, a.Turn).Scan(&stored.Inline, &stored.Blob)
	if err != nil {
		return turn.Model{}, err
	}
	raw, err := t.GetJSON(stored)
	if err != nil {
		return turn.Model{}, err
	}
	var config turn.Config
	_ = json.Unmarshal(raw, &config) // a config of another form names no model
	change, err := modelChange(t.Querier, a.Inf.Key)
	if err == nil && change.Model != "" {
		config.Provider, config.Model = change.Provider, change.Model
	}
	return turn.FindModel(config.Models, config.Provider, config.Model), err
}
