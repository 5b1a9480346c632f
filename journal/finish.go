package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// Finish appends results that are still open and turn.FinishInput.Messages, settles the turn and emits
// turn_completed. Calls of the last assistant message that have no result get one: a settled call its own outcome, a
// claimed call unknown, any other call cancelled. Open requests are cancelled. If the turn ends in the middle of an
// inference, the text that the last attempt has emitted becomes a message, and the answer of a cancelled turn, up to
// SummaryBytes.
func (db *DB) Finish(ctx context.Context, in turn.FinishInput) (out TurnRecord, err error) {
	in.Result.Message = record.Preview(record.CleanText(in.Result.Message), record.SummaryBytes)
	in.Answer = record.Preview(record.CleanText(in.Answer), record.SummaryBytes)
	err = db.writeScope(ctx, in.Turn, in.Session, "finishing", func(t *tx, sc scope) (err error) {
		if !sc.Closed {
			if !in.State.Terminal() {
				return fmt.Errorf("a turn cannot finish in state %q", in.State)
			}
			if err := t.endTurn(&sc, in); err != nil {
				return err
			}
		}
		if err := t.keepLeft(sc, in.Left); err != nil {
			return err
		}
		out, err = t.TurnRecord(`t.id = ?`, sc.Turn)
		return err
	})
	return out, err
}

// endTurn gives every call of the turn one result, settles the turn and emits its last event.
func (t *tx) endTurn(sc *scope, in turn.FinishInput) error {
	before := sc.Head
	if err := t.appendResults(sc, in.Outcomes, in.At, lenient); err != nil {
		return err
	}
	if err := t.settleOpen(sc, in.At); err != nil {
		return err
	}
	if err := t.cancelRequests(sc, in.At); err != nil {
		return err
	}
	partial, err := t.endInference(sc, in.State, in.At)
	if err != nil {
		return err
	}
	if partial != "" && in.State == turn.StateCancelled {
		in.Answer = record.Preview(partial, record.SummaryBytes)
	}
	if err := t.appendUserMessages(sc, in.Counters.Step, in.Messages, in.At, lenient); err != nil {
		return err
	}
	if before != sc.Head {
		if err := t.SaveHead(*sc); err != nil {
			return err
		}
	}
	used, err := turnUsage(t.Querier, sc.Turn)
	if err != nil {
		return err
	}
	if used != (turn.Usage{}) { // otherwise the turn was imported, or has used nothing
		in.Counters.Usage = used
	}
	if err := t.closeTurn(*sc, in); err != nil {
		return err
	}
	return t.emitData(sc, turn.Event{Kind: turn.EventTurnCompleted, Step: in.Counters.Step, At: in.At}, turn.DoneEvent{
		State: in.State, FinishReason: in.Reason, Message: in.Result.Message, Usage: in.Counters.Usage,
		Steps: in.Counters.Step, ToolCalls: in.Counters.ToolCalls,
	})
}

// closeTurn writes the turn's end into its row.
func (t *tx) closeTurn(sc scope, in turn.FinishInput) error {
	usage, err := json.Marshal(in.Counters.Usage)
	if err != nil {
		return err
	}
	spent := ""
	if in.State != turn.StateClosed { // a closed turn has no counters of its workflow
		spent = string(record.MustJSON(in.Counters.Used()))
	}
	err = t.Exec(`UPDATE turns SET state = ?, reason = ?, code = ?, message = ?, answer = ?, usage = ?, steps = ?, calls = ?,
		spent = ?, ended_at = ? WHERE id = ?`, string(in.State), string(in.Reason), string(in.Code), tables.ContentOf(in.Result.Message),
		tables.ContentOf(in.Answer), string(usage),
		in.Counters.Step, in.Counters.ToolCalls, tables.Null(spent), tables.Nanos(in.At), sc.Turn)
	if err != nil {
		return err
	}
	return t.touchUpdatedAt(sc, in.At)
}

// touchUpdatedAt updates the time of the session's last change.
func (t *tx) touchUpdatedAt(sc scope, at time.Time) error {
	return t.Exec(`UPDATE sessions SET updated_at = ?1 WHERE id = ?2 AND updated_at < ?1`, tables.Nanos(at), sc.Session)
}

// strictness tells how to handle a result of a call that the last assistant message did not ask for.
type strictness bool

const (
	strict  strictness = true  // refuse it
	lenient strictness = false // skip it: a turn must be able to end
)

// appendResults appends the results that the turn's last assistant message waits for, one for each call, in request
// order. A call that has a result in the transcript gets no second one.
func (t *tx) appendResults(sc *scope, results []turn.CallOutcome, at time.Time, mode strictness) error {
	given := make(map[string]turn.CallOutcome, len(results))
	for _, r := range results {
		given[r.CallID] = r
	}
	asked, step, err := t.openCalls(sc)
	if err != nil {
		return err
	}
	for _, c := range asked {
		delete(given, c.call.ID)
	}
	for id := range given {
		if mode == strict {
			return fmt.Errorf("a result for call %q, which the model's last message does not request", id)
		}
	}
	for _, r := range results {
		given[r.CallID] = r
	}
	for _, c := range asked {
		if c.done {
			continue
		}
		if err := t.appendResult(sc, step, c.call, given[c.call.ID], at); err != nil {
			return fmt.Errorf("the result of call %s: %w", c.call.ID, err)
		}
	}
	return nil
}

// asked is a call of an assistant message; done means that its result is in the transcript.
type asked struct {
	call turn.ToolCall
	done bool
}

// openCalls returns the calls of the turn's last assistant message. It reads from the head back to that message; only
// results of its calls are in between.
func (t *tx) openCalls(sc *scope) (list []asked, step int, err error) {
	var seq int64
	var stored tables.Content
	err = t.Row(`SELECT seq, step, tool_calls FROM messages WHERE session = ? AND seq > ? AND role = 'assistant'
		ORDER BY seq DESC LIMIT 1`, sc.Session, sc.MessageSeq).Scan(&seq, &step, &stored)
	if errors.Is(err, sql.ErrNoRows) || !stored.Valid {
		return nil, 0, tables.IgnoreNoRows(err)
	}
	if err != nil {
		return nil, 0, err
	}
	calls, err := t.GetCalls(stored)
	if err != nil {
		return nil, 0, err
	}
	done, err := tables.Column[string](t.Querier,
		`SELECT call_id FROM messages WHERE session = ? AND seq > ? AND role = 'tool'`, sc.Session, seq)
	for _, c := range calls {
		list = append(list, asked{c, slices.Contains(done, c.ID)})
	}
	return list, step, err
}

// appendResult writes one call's result. The ledger's settled outcome takes precedence over the caller's: a call that
// the workflow abandoned may have ended after all. If the ledger has none, the caller's outcome settles the call.
func (t *tx) appendResult(sc *scope, step int, tc turn.ToolCall, r turn.CallOutcome, at time.Time) error {
	c, err := t.Call(sc.TurnID, tc.ID)
	if err != nil {
		return err
	}
	c.Scope = *sc
	if c.Rec.Outcome == "" {
		if err := t.settleWithoutReport(&c, step, tc, r, at); err != nil {
			return err
		}
	}
	if err := t.Load(&c); err != nil {
		return err
	}
	_, err = t.AppendMessage(sc, turn.Message{
		Role: turn.RoleTool, Text: c.Rec.Text, CallID: tc.ID, Outcome: c.Rec.Outcome, Media: c.Rec.Media, Step: step,
	})
	return err
}

// settleWithoutReport settles a call that is still open: as unknown if the call may have run, whatever the caller says;
// otherwise with the caller's outcome, and as cancelled if there is none.
func (t *tx) settleWithoutReport(c *call, step int, tc turn.ToolCall, r turn.CallOutcome, at time.Time) error {
	if mayRun(c) && r.Outcome != turn.OutcomeUnknown {
		r = turn.CallOutcome{Outcome: turn.OutcomeUnknown}
	}
	outcome, text := r.Outcome, record.CleanText(r.Text)
	switch {
	case outcome != "":
	case c.Rec.Suspended != 0:
		outcome, text = turn.OutcomeUnknown, record.SuspendedText
	default:
		outcome = turn.OutcomeCancelled
	}
	if c.Row == 0 {
		c.Rec = CallRecord{Turn: c.TurnID, Step: step, Call: tc}
		if err := t.insertCall(c, at); err != nil {
			return err
		}
	}
	if text == "" {
		text = record.ResultText(outcome)
	}
	return t.settle(c, c.Rec.Attempt, turn.ToolResult{Outcome: outcome, Code: record.CleanCode(outcome, r.Code),
		Text: text}, at)
}

// settleOpen settles claims that the transcript does not wait for, so that each tool_call_started has its
// tool_call_completed.
func (t *tx) settleOpen(sc *scope, at time.Time) error {
	ids, err := tables.Column[string](t.Querier,
		`SELECT call_id FROM calls WHERE turn = ? AND settled_at IS NULL ORDER BY id`,
		sc.Turn)
	if err != nil {
		return err
	}
	for _, id := range ids {
		c, err := t.Call(sc.TurnID, id)
		if err != nil {
			return err
		}
		if err := t.settleWithoutReport(&c, c.Rec.Step, c.Rec.Call, turn.CallOutcome{}, at); err != nil {
			return err
		}
	}
	return nil
}
