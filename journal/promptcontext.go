package journal

import (
	"context"
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

// PromptContextInput is the input of DB.PromptContext.
type PromptContextInput struct {
	Turn string
	// From and To are the sequence numbers of the first and the last message. A From after To means no messages.
	From, To int64
	// Compacted means that a compaction replaces the messages that it covers.
	Compacted bool
	// MaxBytes bounds the texts and calls of the messages.
	MaxBytes int64
}

// PromptContext is what the journal has for the prompt of an inference.
type PromptContext struct {
	// Compaction is the one that applies to the prompt, if PromptContextInput.Compacted is set; nil if none does.
	Compaction *turn.Compaction
	// Messages are those of the input, in order, with their provider items, but none that Compaction covers.
	Messages []turn.Message
	// Last is the size of the prompt of the last assistant message among Messages.
	Last PromptSize
}

// PromptSize is the size of the prompt of an inference, as its provider counted it.
type PromptSize struct {
	Turn, Provider, Model string
	Tokens                int64 // 0 if the provider did not report its usage
	UpTo                  int64 // the seq of the prompt's last message
}

// PromptContext returns what the prompt of an inference of the turn is rendered from. If the texts and calls of the
// messages exceed in.MaxBytes, the error is a *TooLargeError, and the result has the compaction and no messages. Items
// that exceed in.MaxBytes together are left out. ErrNotFound if the turn does not exist.
func (db *DB) PromptContext(ctx context.Context, in PromptContextInput) (out PromptContext, err error) {
	err = db.read(ctx, "reading the prompt of turn "+in.Turn, func(q querier) error {
		out = PromptContext{}
		line, err := q.line(`s.id = (SELECT t.session FROM turns t WHERE t.turn_id = ?2)`, in.Turn, in.To)
		if err == nil && len(line) == 0 {
			err = fmt.Errorf("turn %s: %w", in.Turn, ErrNotFound)
		}
		if err == nil && in.Compacted {
			out.Compaction, err = q.compactionOf(line)
		}
		if err != nil {
			return err
		}
		from := max(in.From, 1)
		if c := out.Compaction; c != nil {
			from = max(from, c.To+1)
		}
		parts := segmentsFrom(line, from)
		if out.Messages, err = q.messagesOf(parts, in.MaxBytes); err != nil {
			out.Messages = nil
			return err
		}
		out.Last, err = q.addItems(parts, in.MaxBytes, out.Messages)
		return err
	})
	return out, err
}
