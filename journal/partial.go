package journal

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// A turn may end in the middle of an inference: it is stopped, its time is up, its provider fails permanently, or the
// session's next turn closes it. The partial answer that followers have seen then becomes a message, so that later
// prompts contain it, and the usage of the attempt is estimated.

// StreamInput is what an attempt of an inference has received from its provider.
type StreamInput struct {
	Key     StepKey
	Attempt int
	// PromptTokens estimates the size of the prompt. The first call that sets it marks the attempt as billed: the
	// provider has begun to answer.
	PromptTokens int64
	Events       []turn.Event // see DB.AppendEvents
}

// AppendStream is AppendEvents for an attempt whose provider has begun to answer: it also records in.PromptTokens.
// in.Events may be empty.
func (db *DB) AppendStream(ctx context.Context, in StreamInput) error {
	return db.appendEvents(ctx, in)
}

// markBilled records, once for each attempt, that the provider has begun to answer a prompt of this size and will
// bill it. With promptTokens 0 it changes nothing.
func (t *tx) markBilled(a attemptRow, promptTokens int64) error {
	if promptTokens <= 0 || a.PromptTokens > 0 {
		return nil
	}
	return t.Exec(`UPDATE inferences SET prompt_tokens = ? WHERE id = ?`, promptTokens, a.Row)
}

// endInference ends the last inference of a turn that ends in the given state. If the inference was not settled, it
// estimates the running attempt's usage, appends the text that the attempt has emitted as an assistant message with the
// outcome cancelled or error, and returns the text. It returns "" if the turn has no such inference or the attempt has
// emitted no text.
func (t *tx) endInference(sc *scope, state turn.State, at time.Time) (string, error) {
	var step int
	err := t.Row(`SELECT step FROM inferences WHERE turn = ?1 AND settled_at IS NULL
		AND step = (SELECT max(step) FROM inferences WHERE turn = ?1)`, sc.Turn).Scan(&step)
	if err != nil {
		return "", ignoreNoRows(err)
	}
	a, err := t.Attempt(StepKey{Turn: sc.TurnID, Step: step})
	if err != nil {
		return "", err
	}
	deltas, err := t.Texts(`SELECT text FROM events WHERE turn = ? AND step = ? AND attempt = ? AND kind = ? ORDER BY idx`,
		sc.Turn, step, a.Inf.Attempt, string(turn.EventTextDelta))
	if err == nil {
		err = t.recordEstimate(a, at)
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

// recordEstimate records an estimate of what the running attempt has used, from the size of its prompt and of the
// text that it has emitted (about 4 bytes a token). It records nothing if the provider has not begun to answer, or
// the ledger has a row of the attempt. The estimate is a reservation, so that the attempt's worker, if it is still
// alive, replaces it by the usage that the provider reports.
func (t *tx) recordEstimate(a attemptRow, at time.Time) error {
	lost, err := t.lostAttempt(a)
	if err != nil || lost.Attempt == 0 || a.PromptTokens == 0 {
		return err
	}
	model, err := t.modelOfStep(a)
	if err != nil {
		return err
	}
	used := AttemptUsage{Key: a.Inf.Key, Attempt: lost.Attempt, Provider: model.Provider, Model: model.Name, At: at,
		Usage: turn.Usage{InputTokens: a.PromptTokens, OutputTokens: (lost.OutputBytes + 3) / 4, Estimated: true}}
	if used.Usage.Unpriced = model.Price == nil; model.Price != nil {
		used.Usage.Cost = model.Price.Cost(used.Usage)
	}
	day := dayOf(at)
	if err := t.insertUsage(a.scope, used, day, true /* replaceable */); err != nil {
		return err
	}
	return t.addSpending(a.scope, day, used.Usage, turn.Usage{})
}

// modelOfStep returns the model of a step with its price: that of the turn config, or the fallback that has taken over.
// The model has no price if the config does not list it.
func (t *tx) modelOfStep(a attemptRow) (turn.Model, error) {
	var stored stored
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
	change, err := modelChange(t.querier, a.Inf.Key)
	if err == nil && change.Model != "" {
		config.Provider, config.Model = change.Provider, change.Model
	}
	return turn.FindModel(config.Models, config.Provider, config.Model), err
}
