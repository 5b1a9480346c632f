package look

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// contextUse is how much of the model's context window a session's conversation takes.
type contextUse struct {
	Tokens        int64 `json:"tokens"` // of the last prompt and its completion, or of the condensed prompt
	ContextTokens int64 `json:"context_tokens"`
	Percent       int64 `json:"percent"`
	// CondensesAt is the percentage from which prompts are condensed; 0 means that they are not.
	CondensesAt int64 `json:"condenses_at,omitempty"`
}

// readContext returns the use of the context window after the session's last inference, nil if the size of the window
// or of the prompt is not known.
func readContext(ctx context.Context, store *journal.DB, h history) (*contextUse, error) {
	if len(h.Turns) == 0 {
		return nil, nil
	}
	last := h.Turns[len(h.Turns)-1]
	c, err := condensingOf(ctx, store, last.Turn.ID)
	if err != nil || c == nil || c.ContextTokens == 0 {
		return nil, err
	}
	u := contextUse{ContextTokens: c.ContextTokens, CondensesAt: turn.Percent(c.Trigger(), c.ContextTokens)}
	var upTo int64
	for _, i := range last.Inferences {
		if i.Settled {
			u.Tokens, upTo = i.Completion.Usage.Total(), i.Base.Seq
		}
	}
	if n := len(h.Condensations); n > 0 && h.Condensations[n-1].At.Seq > upTo {
		u.Tokens = h.Condensations[n-1].After
	}
	u.Percent = turn.Percent(u.Tokens, u.ContextTokens)
	return &u, nil
}

// condensingOf returns how a turn condenses its prompts, nil if it does not.
func condensingOf(ctx context.Context, store *journal.DB, turnID string) (*turn.Condensing, error) {
	frozen, err := store.TurnConfig(ctx, turnID)
	if err != nil {
		return nil, err
	}
	var cfg turn.Config
	var prompt turn.PromptConfig
	if json.Unmarshal(frozen.Config, &cfg) != nil || cfg.PromptConfig == "" {
		return nil, nil // an imported turn may have any configuration
	}
	b, err := store.GetBlob(ctx, cfg.PromptConfig)
	if err != nil || json.Unmarshal(b, &prompt) != nil {
		return nil, nil // the configuration's blob stays where the turn ran
	}
	return prompt.Condense, nil
}

// printContext prints the use of the context window and what stands for the beginning of the conversation.
func (h history) printContext(w io.Writer) {
	if c := h.Context; c != nil {
		fmt.Fprintf(w, "context %d %%, condenses at %d %% of %d tokens\n", c.Percent, c.CondensesAt, c.ContextTokens)
	}
	for _, c := range h.Condensations {
		fmt.Fprintf(w, "  at message %d (%s) %s\n", c.At.Seq, c.Reason,
			app.Line(c.Report().String(), 400))
	}
}
