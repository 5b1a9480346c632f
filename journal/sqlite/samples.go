package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// sample is a row of samples with its turn. row is 0 where there is none.
type sample struct {
	scope
	row     int64
	rec     journal.SampleRecord
	failed  int // the last attempt whose failure was counted
	request stored
	answer  stored
}

const sampleColumns = `coalesce(p.n, 0), coalesce(c.call_id, ''), coalesce(c.step, 0), coalesce(c.tool, ''), coalesce(p.sample_id, ''), coalesce(p.server, ''),
	coalesce(p.request_hash, ''), coalesce(p.free, 0), coalesce(p.attempt, 0), coalesce(p.failures, 0), coalesce(p.failed_attempt, 0), coalesce(p.model, ''),
	p.request, p.request_blob, p.answer, p.answer_blob, coalesce(p.refused, ''), coalesce(p.asked_at, 0), coalesce(p.ended_at, 0)`

func (x *sample) scan(scan func(...any) error) error {
	var asked, ended int64
	r := &x.rec
	err := scan(append(x.fields(), &x.row, &r.CallID, &r.Step, &r.Tool, &r.ID, &r.Server, &r.Hash, &r.Free, &r.Attempt, &r.Failures, &x.failed, &r.Model,
		&x.request.inline, &x.request.blob, &x.answer.inline, &x.answer.blob, &r.Refused, &asked, &ended)...)
	r.Turn, r.AskedAt, r.EndedAt = x.turnID, instant(asked), instant(ended)
	return err
}

// sample returns a turn's sample. Its row is 0 where there is none.
func (q querier) sample(turnID, id string) (x sample, err error) {
	err = x.scan(q.row(`SELECT `+scopeColumns+`, `+sampleColumns+` FROM turns t JOIN sessions s ON s.n = t.session
		LEFT JOIN samples p ON p.turn = t.n AND p.sample_id = ? LEFT JOIN calls c ON c.n = p.call WHERE t.id = ?`, id, turnID).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return x, fmt.Errorf("turn %s: %w", turnID, journal.ErrNotFound)
	}
	if err != nil || x.row == 0 {
		return x, err
	}
	return x, q.loadSample(&x)
}

// known is sample where there has to be one.
func (q querier) known(turnID, id string) (sample, error) {
	x, err := q.sample(turnID, id)
	if err == nil && x.row == 0 {
		err = fmt.Errorf("it was never asked for: %w", journal.ErrNotFound)
	}
	return x, err
}

func (q querier) loadSample(x *sample) error {
	request, err := q.get(x.request)
	x.rec.Request = json.RawMessage(request)
	if err != nil {
		return err
	}
	answer, err := q.getJSON(x.answer)
	if err == nil && answer != nil {
		err = json.Unmarshal(answer, &x.rec.Answer)
	}
	return err
}

func sampleName(doing, turnID, id string) string {
	return fmt.Sprintf("%s sample %s of turn %s", doing, id, turnID)
}

// AskSample implements journal.Journal.
func (s *Store) AskSample(ctx context.Context, in journal.SampleInput) (out journal.SampleRecord, err error) {
	err = s.write(ctx, sampleName("asking for", in.Turn, in.ID), func(t *tx) error {
		if err := checkSample(in); err != nil {
			return err
		}
		x, err := t.sample(in.Turn, in.ID)
		switch {
		case err != nil:
			return err
		case x.row != 0 && (x.rec.Hash != journal.HashOf(in.Request) || x.rec.CallID != in.CallID):
			return fmt.Errorf("it was asked for before, and about something else: %w", journal.ErrConflict)
		case x.row == 0 && x.closed:
			return journal.ErrClosed
		case x.row == 0:
			if err := t.insertSample(x.scope, in); err != nil {
				return err
			}
			x, err = t.sample(in.Turn, in.ID)
		}
		out = x.rec
		return err
	})
	return out, err
}

func checkSample(in journal.SampleInput) error {
	if n := len(in.Request); n > journal.MaxSampleBytes {
		return fmt.Errorf("what the model would be asked has %d bytes: at most %d", n, journal.MaxSampleBytes)
	}
	if !json.Valid(in.Request) {
		return errors.New("what the model would be asked is no JSON")
	}
	return checkID("sample", in.ID)
}

// insertSample keeps a request, in the name of a call that has run, unless its server has had as many as it may.
func (t *tx) insertSample(sc scope, in journal.SampleInput) error {
	c, err := t.call(in.Turn, in.CallID)
	if err != nil {
		return err
	}
	if c.row == 0 || c.rec.Runs == 0 {
		return fmt.Errorf("call %s has never run, so that its server cannot have asked: %w", in.CallID, journal.ErrConflict)
	}
	var before int
	if err := t.row(`SELECT count(*) FROM samples WHERE turn = ? AND server = ?`, sc.turn, in.Server).Scan(&before); err != nil {
		return err
	}
	if before >= in.Most {
		return fmt.Errorf("the server has asked %d times in this turn: %w", before, journal.ErrSpent)
	}
	request, err := t.put(string(in.Request), "application/json")
	if err != nil {
		return err
	}
	return t.exec(`INSERT INTO samples (turn, call, sample_id, server, request, request_blob, request_hash, free, asked_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		sc.turn, c.row, in.ID, journal.CleanText(in.Server), request.inline, request.blob, journal.HashOf(in.Request), in.Free, nanos(in.At))
}

// StartSample implements journal.Journal.
func (s *Store) StartSample(ctx context.Context, in journal.StartSample) (out journal.SampleRecord, err error) {
	err = s.write(ctx, sampleName("starting", in.Turn, in.ID), func(t *tx) error {
		x, err := t.known(in.Turn, in.ID)
		if err == nil {
			err = x.check(in.Session)
		}
		switch {
		case err != nil:
			return err
		case x.rec.Over():
			out = x.rec
			return nil
		case x.closed:
			return journal.ErrClosed
		}
		if err := t.allowed(x, in.Hash); err != nil {
			return err
		}
		x.rec.Attempt++
		x.rec.Model = journal.CleanText(in.Model)
		out = x.rec
		return t.exec(`UPDATE samples SET attempt = ?, model = ? WHERE n = ?`, x.rec.Attempt, x.rec.Model, x.row)
	})
	return out, err
}

// allowed checks that a person's word covers exactly this request, where one is needed.
func (t *tx) allowed(x sample, hash string) error {
	if hash != x.rec.Hash {
		return fmt.Errorf("the request has the hash %.8s, and %.8s was allowed: %w", x.rec.Hash, hash, journal.ErrUnapproved)
	}
	if x.rec.Free {
		return nil
	}
	w, err := t.wait(x.turn, x.rec.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return journal.ErrUnapproved
	}
	if err != nil {
		return err
	}
	r := w.rec.Ruling
	if w.rec.Sampling() == nil || r == nil || !r.Allowed || r.ArgumentsHash != x.rec.Hash {
		return journal.ErrUnapproved
	}
	return nil
}

// SettleSample implements journal.Journal.
func (s *Store) SettleSample(ctx context.Context, in journal.SettleSample) (out journal.SampleRecord, err error) {
	if (in.Answer == nil) == (in.Refused == "") {
		return out, errors.New("a sample ends with an answer, or with a reason why there is none")
	}
	err = s.write(ctx, sampleName("settling", in.Turn, in.ID), func(t *tx) error {
		x, err := t.known(in.Turn, in.ID)
		switch {
		case err != nil:
			return err
		case x.rec.Over():
			out = x.rec
			return nil
		case x.closed:
			return journal.ErrClosed
		case in.Answer != nil && (in.Attempt > x.rec.Attempt || in.Attempt < 1):
			return fmt.Errorf("attempt %d was never started: %w", in.Attempt, journal.ErrNotFound)
		}
		out, err = t.settleSample(x, in)
		return err
	})
	return out, err
}

// settleSample takes the first answer that comes, of whichever attempt: it was paid for.
func (t *tx) settleSample(x sample, in journal.SettleSample) (journal.SampleRecord, error) {
	chunk := turn.SampleChunk{ID: x.rec.ID, CallID: x.rec.CallID, Tool: x.rec.Tool}
	var answer stored
	if in.Answer != nil {
		clean := journal.CleanSampled(*in.Answer)
		var err error
		if answer, err = t.putJSON(plainJSON(clean)); err != nil {
			return x.rec, err
		}
		x.rec.Answer = &clean
		chunk.Model, chunk.StopReason, chunk.Usage = clean.Model, clean.StopReason, clean.Usage
	}
	x.rec.Refused = journal.Preview(journal.CleanText(in.Refused), journal.PreviewBytes)
	chunk.Refused, x.rec.EndedAt = x.rec.Refused, instant(nanos(in.At))
	err := t.exec(`UPDATE samples SET answer = ?, answer_blob = ?, refused = ?, ended_at = ? WHERE n = ?`,
		answer.inline, answer.blob, x.rec.Refused, nanos(in.At), x.row)
	if err != nil {
		return x.rec, err
	}
	return x.rec, t.emitData(x.turn, turn.Chunk{Kind: turn.ChunkSampleMade, Step: x.rec.Step, Attempt: x.rec.Attempt, At: in.At}, chunk)
}

// FailSample implements journal.Journal. An attempt's failure counts once.
func (s *Store) FailSample(ctx context.Context, turnID, id string, attempt int) (failures int, err error) {
	err = s.write(ctx, sampleName("counting a failure of", turnID, id), func(t *tx) error {
		x, err := t.known(turnID, id)
		if err != nil {
			return err
		}
		failures = x.rec.Failures
		if attempt > x.rec.Attempt {
			return fmt.Errorf("attempt %d was never started: %w", attempt, journal.ErrNotFound)
		}
		if x.rec.Over() || x.closed || attempt <= x.failed {
			return nil
		}
		failures++
		return t.exec(`UPDATE samples SET failures = ?, failed_attempt = ? WHERE n = ?`, failures, attempt, x.row)
	})
	return failures, err
}

// Sample implements journal.Journal.
func (s *Store) Sample(ctx context.Context, turnID, id string) (out journal.SampleRecord, err error) {
	err = s.read(ctx, sampleName("reading", turnID, id), func(q querier) error {
		x, err := q.known(turnID, id)
		out = x.rec
		return err
	})
	return out, err
}

// Samples implements journal.Store.
func (s *Store) Samples(ctx context.Context, turnID string) (out []journal.SampleRecord, err error) {
	err = s.read(ctx, "listing the samples of turn "+turnID, func(q querier) error {
		out = nil
		var list []sample
		err := q.each(func(rows *sql.Rows) error {
			var x sample
			err := x.scan(rows.Scan)
			list = append(list, x)
			return err
		}, `SELECT `+scopeColumns+`, `+sampleColumns+` FROM samples p JOIN turns t ON t.n = p.turn JOIN sessions s ON s.n = t.session
			JOIN calls c ON c.n = p.call WHERE t.id = ? ORDER BY p.n`, turnID)
		for i := range list {
			if err == nil {
				err = q.loadSample(&list[i])
			}
			out = append(out, list[i].rec)
		}
		return err
	})
	return out, err
}

// fillSample takes what a model would be asked from the request that was kept, so that a person is shown that.
func (t *tx) fillSample(sc *scope, x *wait) error {
	p, err := t.known(sc.turnID, x.rec.ID)
	switch {
	case err != nil:
		return err
	case p.rec.CallID != x.rec.Call || p.rec.Hash != x.rec.ArgumentsHash:
		return fmt.Errorf("what was asked for is of call %s and has the hash %.8s: %w", p.rec.CallID, p.rec.Hash, journal.ErrConflict)
	}
	x.rec.Tool, x.size = p.rec.Tool, int64(len(p.rec.Request))
	x.rec.Arguments = journal.Preview(string(p.rec.Request), turn.WaitArguments)
	return nil
}
