package look

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// contextUse is how much of the model's context window a session's conversation fills.
type contextUse struct {
	Tokens        int64 `json:"tokens"` // of the last prompt and its completion, or of the compacted prompt
	ContextTokens int64 `json:"context_tokens"`
	Percent       int64 `json:"percent"`
	// CompactsAt is the percentage from which prompts are compacted; 0 means that they are not.
	CompactsAt int64 `json:"compacts_at,omitempty"`
}

// readContext returns the use of the context window after the session's last inference or compaction. It returns nil if
// the last turn does not compact its prompts, or if the size of the window is unknown.
func readContext(ctx context.Context, j client.Journal, h history) (*contextUse, error) {
	if len(h.Turns) == 0 {
		return nil, nil
	}
	last := h.Turns[len(h.Turns)-1]
	c, err := compactingOf(ctx, j, last.Turn.ID)
	if err != nil || c == nil || c.ContextTokens == 0 {
		return nil, err
	}
	u := contextUse{ContextTokens: c.ContextTokens, CompactsAt: turn.Percent(c.Trigger(), c.ContextTokens)}
	var upTo int64 // the sequence number of the last message in the last inference's prompt
	for _, i := range last.Inferences {
		if i.Settled {
			u.Tokens, upTo = i.Completion.Usage.Total(), i.Base.Seq
		}
	}
	if n := len(h.Compactions); n > 0 && h.Compactions[n-1].At.Seq > upTo { // compacted after the last inference
		u.Tokens = h.Compactions[n-1].After
	}
	u.Percent = turn.Percent(u.Tokens, u.ContextTokens)
	return &u, nil
}

// compactingOf returns the settings with which a turn compacts its prompts. It returns nil if the turn does not, or if
// its configuration cannot be read.
func compactingOf(ctx context.Context, j client.Journal, turnID string) (*turn.CompactionSettings, error) {
	frozen, err := j.TurnConfig(ctx, turnID)
	if err != nil {
		return nil, err
	}
	var cfg turn.Config
	var prompt turn.PromptConfig
	if json.Unmarshal(frozen.Config, &cfg) != nil || cfg.PromptConfig == "" {
		return nil, nil // an imported turn may have any configuration
	}
	b, err := j.GetBlob(ctx, cfg.PromptConfig)
	if err != nil || json.Unmarshal(b, &prompt) != nil {
		return nil, nil // the configuration's blob stays where the turn ran
	}
	return prompt.Compaction, nil
}

// printContext prints the use of the context window and the session's compactions.
func (h history) printContext(w io.Writer) {
	if c := h.Context; c != nil {
		fmt.Fprintf(w, "context %d %%, compacts at %d %% of %d tokens\n", c.Percent, c.CompactsAt, c.ContextTokens)
	}
	for _, c := range h.Compactions {
		fmt.Fprintf(w, "  at message %d (%s) %s\n", c.At.Seq, c.Reason,
			app.Line(c.Report().String(), 400))
	}
}
