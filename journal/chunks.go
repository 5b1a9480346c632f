package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// emit appends a chunk under the turn's next index.
func (t *tx) emit(sc *scope, c turn.Chunk) error {
	t.Changed[Topic{Turn: sc.TurnID}] = true
	return t.Exec(`INSERT INTO chunks (turn, idx, step, attempt, kind, at, text, data)
		SELECT ?1, coalesce(max(idx), -1) + 1, ?2, ?3, ?4, ?5, ?6, ?7 FROM chunks WHERE turn = ?1`,
		sc.Turn, c.Step, c.Attempt, string(c.Kind), tables.Nanos(c.At), tables.ContentOf(record.CleanText(c.Text)),
		tables.ContentOrNull(record.CleanText(string(c.Data))))
}

func (t *tx) emitData(sc *scope, c turn.Chunk, data any) (err error) {
	if c.Data, err = json.Marshal(data); err != nil {
		return err
	}
	return t.emit(sc, c)
}

// AppendChunks numbers chunks and appends them. Only Kind, Text, Data and At are read from each chunk; Step and Attempt
// come from the key. Kinds that the journal writes itself are refused. AppendChunks and NoteCall have no idempotency
// key: an error means that nothing was appended, and a call that is repeated after success appends again. With attempt
// 0, AppendChunks accepts error chunks after the step is settled, for calls that failed. ErrStale if a newer attempt of
// the step runs or the step is settled, ErrClosed, ErrNotFound if the attempt never started.
func (s *DB) AppendChunks(ctx context.Context, key StepKey, attempt int, chunks []turn.Chunk) error {
	return s.appendChunks(ctx, StreamInput{Key: key, Attempt: attempt, Chunks: chunks})
}

func (s *DB) appendChunks(ctx context.Context, in StreamInput) error {
	key, attempt, chunks := in.Key, in.Attempt, in.Chunks
	doing := stepName("appending chunks to", key)
	if err := checkChunks(chunks); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if len(chunks) == 0 && in.PromptTokens <= 0 {
		return nil
	}
	return s.write(ctx, doing, func(t *tx) error {
		a, err := t.LockedAttempt(key)
		if err != nil {
			return err
		}
		switch {
		case attempt == 0 && a.Inf.Settled && !a.Closed && onlyErrors(chunks):
			a.Inf.Attempt = 0
		case a.Inf.Settled:
			return fmt.Errorf("the step is settled: %w", ErrStale)
		default:
			if err := current(a, attempt); err != nil {
				return err
			}
		}
		if err := t.markBilled(a, in.PromptTokens); err != nil || len(chunks) == 0 {
			return err
		}
		last := chunks[len(chunks)-1]
		last.Step, last.Attempt = key.Step, attempt
		if there, err := t.appended(&a.Scope, last); there || err != nil {
			return err
		}
		return t.emitDeltas(a, chunks)
	})
}

// appended reports whether an earlier run of this transaction, which was lost while it was being committed, has
// appended c.
func (t *tx) appended(sc *scope, c turn.Chunk) (there bool, err error) {
	if !t.Again() {
		return false, nil
	}
	texts, err := t.Texts(`SELECT text FROM chunks WHERE turn = ? AND step = ? AND attempt = ? AND kind = ? AND at = ?`,
		sc.Turn, c.Step, c.Attempt, string(c.Kind), tables.Nanos(c.At))
	return slices.Contains(texts, record.CleanText(c.Text)), err
}

func onlyErrors(chunks []turn.Chunk) bool {
	return !slices.ContainsFunc(chunks, func(c turn.Chunk) bool { return c.Kind != turn.ChunkError })
}

// checkChunks refuses chunks that callers may not append: kinds that the journal itself writes, and chunks over the
// bounds.
func checkChunks(chunks []turn.Chunk) error {
	if len(chunks) > record.MaxChunks {
		return fmt.Errorf("%d chunks at once; the maximum is %d", len(chunks), record.MaxChunks)
	}
	for _, c := range chunks {
		switch c.Kind {
		case turn.ChunkTextDelta, turn.ChunkReasoningDelta, turn.ChunkError, turn.ChunkPhase,
			turn.ChunkInferenceWaiting:
		default:
			return fmt.Errorf("a chunk of kind %q: the journal writes those itself", c.Kind)
		}
		if n := len(c.Text) + len(c.Data); n > record.MaxChunkBytes {
			return fmt.Errorf("a chunk is %d bytes; the maximum is %d", n, record.MaxChunkBytes)
		}
		if len(c.Data) > 0 && !json.Valid(c.Data) {
			return fmt.Errorf("a chunk of kind %q: its data is not JSON", c.Kind)
		}
	}
	return nil
}

// emitDeltas appends an attempt's chunks and records, once for each attempt, that it has emitted text.
func (t *tx) emitDeltas(a tables.Attempt, chunks []turn.Chunk) error {
	for _, c := range chunks {
		c.Step, c.Attempt = a.Inf.Key.Step, a.Inf.Attempt
		if err := t.emit(&a.Scope, c); err != nil {
			return err
		}
		if a.Emitted || (c.Kind != turn.ChunkTextDelta && c.Kind != turn.ChunkReasoningDelta) {
			continue
		}
		a.Emitted = true
		if err := t.Exec(`UPDATE inferences SET emitted = TRUE WHERE id = ?`, a.Row); err != nil {
			return err
		}
	}
	return nil
}

// Chunks returns at most limit chunks of a turn with index > after (-1 for all), in order. A turn that has not begun
// has no chunks.
func (s *DB) Chunks(ctx context.Context, turnID string, after int64, limit int) ([]turn.Chunk, error) {
	return tables.Get(ctx, s.tables, "reading the chunks of turn "+turnID, func(q querier) ([]turn.Chunk, error) {
		return tables.Collect(q, func(scan tables.Scanner) (turn.Chunk, error) {
			c := turn.Chunk{Turn: turnID}
			err := tables.ScanChunk(scan, &c)
			return c, err
		}, `SELECT idx, step, attempt, kind, at, text, coalesce(data, '') FROM chunks
			WHERE turn = (SELECT t.id FROM turns t JOIN sessions s ON s.id = t.session WHERE t.turn_id = ? AND s.tenant = ?)
				AND idx > ?
			ORDER BY idx LIMIT ?`, turnID, q.Tenant, after, limit)
	})
}

// LastChunk returns the last chunk of a turn. ErrNotFound if there is none.
func (s *DB) LastChunk(ctx context.Context, turnID string) (turn.Chunk, error) {
	const doing = "reading the last chunk"
	last, err := tables.GetOfNamedTurn(ctx, s.tables, turnID, doing, func(q querier, sc scope) (n int64, err error) {
		err = q.Row(`SELECT coalesce(max(idx), -1) FROM chunks WHERE turn = ?`, sc.Turn).Scan(&n)
		return n, err
	})
	if err != nil {
		return turn.Chunk{}, err
	}
	chunks, err := s.Chunks(ctx, turnID, last-1, 1)
	if err == nil && len(chunks) == 0 {
		err = fmt.Errorf("%s of turn %s: %w", doing, turnID, ErrNotFound)
	}
	if err != nil {
		return turn.Chunk{}, err
	}
	return chunks[0], nil
}
