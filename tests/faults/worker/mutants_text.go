//go:build mutants

package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// write changes the journal's database without the journal. The parameters are $1, $2, ....
func (m mutant) write(ctx context.Context, args []any, statements ...string) error {
	driver, source := "sqlite", "file:"+m.cfg.Journal.Path+"?_pragma=busy_timeout(5000)"
	if m.cfg.Journal.Postgres() {
		driver, source = "pgx", m.cfg.Journal.URL.Reveal()
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement, args...); err != nil {
			return fmt.Errorf("writing past the journal: %w", err)
		}
	}
	return nil
}

// dedupForgotten answers a message that another turn has already taken.
type dedupForgotten struct{ mutant }

func (m *dedupForgotten) Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error) {
	begun, err := m.Journal.Begin(ctx, in)
	if err != nil || begun.DuplicateOf == nil {
		return begun, err
	}
	in.Message.ID = rand.Text()
	return m.Journal.Begin(ctx, in)
}

// messageLost removes the message from the transcript once the turn has begun.
type messageLost struct{ mutant }

func (m *messageLost) Finish(ctx context.Context, in turn.FinishInput) (journal.TurnRecord, error) {
	record, err := m.Journal.Finish(ctx, in)
	if err != nil {
		return record, err
	}
	return record, m.write(ctx, []any{rand.Text(), in.Turn},
		`UPDATE messages SET message_id = $1 WHERE role = 'user' AND turn = (SELECT id FROM turns WHERE turn_id = $2)`,
		`UPDATE turns SET message_id = $1 WHERE turn_id = $2`)
}

// textForgotten ends a turn in the middle of an inference without the text that was shown: meanwhile the inference
// seems to be at an attempt that has shown nothing. A worker that dies meanwhile leaves it so until the next one
// repeats Finish.
type textForgotten struct{ mutant }

func (m *textForgotten) Finish(ctx context.Context, in turn.FinishInput) (journal.TurnRecord, error) {
	const open = ` AND settled_at IS NULL AND turn = (SELECT id FROM turns WHERE turn_id = $1)`
	err := m.write(ctx, []any{in.Turn}, `UPDATE inferences SET attempt = attempt + 1000 WHERE attempt < 1000`+open)
	if err != nil {
		return journal.TurnRecord{}, err
	}
	record, err := m.Journal.Finish(ctx, in)
	return record, errors.Join(err, m.write(ctx, []any{in.Turn},
		`UPDATE inferences SET attempt = attempt - 1000 WHERE attempt >= 1000`+open))
}

// paidAgain does not find settled inferences.
type paidAgain struct{ mutant }

func (m *paidAgain) StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error) {
	inf, err := m.Journal.StartInference(ctx, in)
	inf.Settled = false
	return inf, err
}

// promptVaries gives each process a slightly different transcript.
type promptVaries struct{ mutant }

var variation = rand.Text()

func (m *promptVaries) PromptContext(ctx context.Context, in journal.PromptContextInput) (journal.PromptContext, error) {
	found, err := m.Journal.PromptContext(ctx, in)
	for i, message := range found.Messages {
		if message.Role == turn.RoleTool {
			found.Messages[i].Text += variation
		}
	}
	return found, err
}

// eventIndexReused overwrites the last event with text instead of appending an event.
type eventIndexReused struct {
	mutant
	mu   sync.Mutex
	seen map[journal.StepKey]bool
}

func (m *eventIndexReused) AppendStream(ctx context.Context, in journal.StreamInput) error {
	key := in.Key
	m.mu.Lock()
	seen := m.seen[key]
	if m.seen == nil {
		m.seen = map[journal.StepKey]bool{}
	}
	m.seen[key] = true
	m.mu.Unlock()
	if !seen {
		return m.Journal.AppendStream(ctx, in)
	}
	for _, c := range in.Events {
		err := m.write(ctx, []any{c.Text, key.Turn},
			`UPDATE events SET text = $1 WHERE turn = (SELECT id FROM turns WHERE turn_id = $2) AND idx =
			(SELECT max(idx) FROM events WHERE turn = (SELECT id FROM turns WHERE turn_id = $2))`)
		if err != nil {
			return err
		}
	}
	return nil
}

// secretStreamed writes the provider's key to the stream.
type secretStreamed struct{ mutant }

func (m *secretStreamed) FailInference(ctx context.Context, key journal.StepKey, attempt int, code turn.Code,
	_ string) (int, error) {
	return m.Journal.FailInference(ctx, key, attempt, code, "refused with the key "+m.cfg.LLM.APIKey.Reveal())
}
