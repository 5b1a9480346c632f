package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// Finish ends a turn and emits turn_completed. It appends the missing results of the last assistant message's calls: a
// settled call gets its own outcome, a claimed one unknown, and any other one that of in.Outcomes or, without one,
// unknown if it is suspended and cancelled if not. Finish cancels open requests and appends in.Messages. If the turn
// ends in the middle of an inference, the text that the last attempt has emitted becomes a message and, if the turn is
// cancelled, also its answer, up to SummaryBytes. If the turn has ended already, Finish only records in.Left.
func (db *DB) Finish(ctx context.Context, in turn.FinishInput) (out TurnRecord, err error) {
	in.Result.Message = preview(CleanText(in.Result.Message), SummaryBytes)
	in.Answer = preview(CleanText(in.Answer), SummaryBytes)
	err = db.writeScope(ctx, in.Turn, in.Session, "finishing", func(t *tx, sc scope) (err error) {
		if !sc.Closed {
			if !in.State.Terminal() {
				return fmt.Errorf("a turn cannot finish in state %q", in.State)
			}
			if err := t.endTurn(&sc, in); err != nil {
				return err
			}
		}
		if err := t.saveLeftMessages(sc.Turn, in.Left); err != nil {
			return err
		}
		out, err = t.TurnRecord(`t.id = ?`, sc.Turn)
		return err
	})
	return out, err
}

// endTurn ends an open turn for Finish or closeUnfinished. Afterwards each of its calls has one result, no request is
// open, and its last event is written. The results come first, because they belong to the last assistant message, and
// endInference may append another one.
func (t *tx) endTurn(sc *scope, in turn.FinishInput) error {
	last, err := t.lastRequestedCalls(sc)
	if err == nil {
		err = t.appendResults(sc, last, in.Outcomes, in.At, lenient)
	}
	if err != nil {
		return err
	}
	partial, err := t.endOpenWork(sc, in.State, in.At)
	if err != nil {
		return err
	}
	if partial != "" && in.State == turn.StateCancelled {
		in.Answer = preview(partial, SummaryBytes)
	}
	if err := t.appendUserMessages(sc, in.Counters.Step, in.Messages, in.At, lenient); err != nil {
		return err
	}
	used, err := turnUsage(t.querier, sc.Turn)
	if err != nil {
		return err
	}
	if used != (turn.Usage{}) { // otherwise the turn was imported, or has used nothing
		in.Counters.Usage = used
	}
	if err := t.closeTurn(*sc, in); err != nil {
		return err
	}
	var events []turn.Event
	if in.State != turn.StateClosed { // the workflow of a closed turn never reached Done
		events = append(events, phaseEvent(in.Counters.Step, 0, in.At, turn.PhaseEvent{Phase: turn.PhaseDone}))
	}
	return t.emit(sc, append(events, turn.Event{Kind: turn.EventTurnCompleted, Step: in.Counters.Step, At: in.At,
		Data: mustJSON(turn.DoneEvent{
			State: in.State, FinishReason: in.Reason, Message: in.Result.Message, Usage: in.Counters.Usage,
			Steps: in.Counters.Step, ToolCalls: in.Counters.ToolCalls,
		})})...)
}

// endOpenWork ends the calls, the requests and the inference that are still open when the turn ends. It returns the
// text that the inference has emitted: see endInference.
func (t *tx) endOpenWork(sc *scope, state turn.State, at time.Time) (partial string, err error) {
	var open bool
	err = t.Row(`SELECT EXISTS (SELECT 1 FROM calls c WHERE c.turn = ?1 AND c.settled_at IS NULL)
		OR EXISTS (SELECT 1 FROM requests w WHERE w.turn = ?1 AND w.status = '')
		OR EXISTS (SELECT 1 FROM inferences i WHERE i.turn = ?1 AND i.settled_at IS NULL)`, sc.Turn).Scan(&open)
	if err != nil || !open {
		return "", err
	}
	if err := t.settleOpenCalls(sc, at); err != nil {
		return "", err
	}
	if err := t.cancelRequests(sc, at); err != nil {
		return "", err
	}
	return t.endInference(sc, state, at)
}

// closeTurn writes the state, the result and the usage of an ended turn to its row.
func (t *tx) closeTurn(sc scope, in turn.FinishInput) error {
	usage, err := json.Marshal(in.Counters.Usage)
	if err != nil {
		return err
	}
	spent := "" // null: only the turn's workflow knows what the turn spent, and it did not end a closed turn
	if in.State != turn.StateClosed {
		spent = string(mustJSON(in.Counters.Used()))
	}
	err = t.Exec(`UPDATE turns SET state = ?, reason = ?, code = ?, message = ?, answer = ?, usage = ?, steps = ?, calls = ?,
		spent = ?, ended_at = ? WHERE id = ?`, string(in.State), string(in.Reason), string(in.Code), contentOf(in.Result.Message),
		contentOf(in.Answer), string(usage),
		in.Counters.Step, in.Counters.ToolCalls, textOrNull(spent), nanos(in.At), sc.Turn)
	if err != nil {
		return err
	}
	return t.touchUpdatedAt(sc, in.At)
}

// touchUpdatedAt sets the time of the session's last change, unless a later one is recorded.
func (t *tx) touchUpdatedAt(sc scope, at time.Time) error {
	return t.Exec(`UPDATE sessions SET updated_at = ?1 WHERE id = ?2 AND updated_at < ?1`, nanos(at), sc.Session)
}

// strictness says what happens to a result of a call that the last assistant message does not request.
type strictness bool

const (
	strict  strictness = true  // refuse it
	lenient strictness = false // skip it: a turn must be able to end
)

// appendResults appends a result for each call of the turn's last assistant message that has none in the transcript, in
// the order of the calls: see appendResult for the calls that results does not name.
func (t *tx) appendResults(sc *scope, last requestedCalls, results []turn.CallOutcome, at time.Time, mode strictness) error {
	byCall := make(map[string]turn.CallOutcome, len(results))
	for _, r := range results {
		byCall[r.CallID] = r
	}
	requested, err := last.list(t.querier, sc.TurnID)
	if err != nil {
		return err
	}
	for _, r := range results {
		isRequested := slices.ContainsFunc(requested, func(c callRow) bool { return c.Rec.Call.ID == r.CallID })
		if mode == strict && !isRequested {
			return fmt.Errorf("a result for call %q, which the model's last message does not request", r.CallID)
		}
	}
	for _, c := range requested {
		if c.HasResult {
			continue
		}
		if err := t.appendResult(sc, last.step, c, byCall[c.Rec.Call.ID], at); err != nil {
			return fmt.Errorf("the result of call %s: %w", c.Rec.Call.ID, err)
		}
	}
	return nil
}

// requestedCalls are the calls of a turn's last assistant message. All results after that message are those of its
// calls.
type requestedCalls struct {
	step   int     // of the message
	column content // the message's column tool_calls; null if it requests none, or the turn has no such message
	ledger []callRow
}

// requestedColumns and requestedJoins read requestedCalls of turns t: a row for each call that the ledger has, or one
// row without a call.
const (
	requestedColumns = `coalesce(m.step, 0), m.tool_calls, EXISTS (SELECT 1 FROM messages r WHERE r.session = m.session
		AND r.seq > m.seq AND r.role = 'tool' AND r.call_id = calls.call_id), ` + callColumns
	requestedJoins = ` LEFT JOIN messages m ON m.session = t.session AND m.seq = (SELECT a.seq FROM messages a
			WHERE a.session = t.session AND a.seq > t.message_seq AND a.role = 'assistant' ORDER BY a.seq DESC LIMIT 1)
		LEFT JOIN calls ON calls.turn = t.id AND calls.step = m.step`
)

// scan adds a row to r. The columns of the row are those for the destinations in before, followed by requestedColumns.
func (r *requestedCalls) scan(scan scanner, before ...any) error {
	var c callRow
	err := c.Scan(scan, append(before, &r.step, &r.column, &c.HasResult)...)
	r.ledger = append(r.ledger, c)
	return err
}

// list returns the calls in the order in which the message requests them. The Row of a call that the ledger does not
// have is 0.
func (r requestedCalls) list(q querier, turnID string) (list []callRow, err error) {
	calls, err := q.GetCalls(r.column)
	for _, c := range calls {
		requested := callRow{}
		if i := slices.IndexFunc(r.ledger, func(l callRow) bool { return l.Rec.Call.ID == c.ID }); i >= 0 {
			requested = r.ledger[i]
		}
		requested.Rec.Call, requested.Rec.Turn = c, turnID
		list = append(list, requested)
	}
	return list, err
}

// lastRequestedCalls reads the calls of the turn's last assistant message.
func (t *tx) lastRequestedCalls(sc *scope) (r requestedCalls, err error) {
	err = t.Each(func(rows Rows) error { return r.scan(rows.Scan) },
		`SELECT `+requestedColumns+` FROM turns t`+requestedJoins+` WHERE t.id = ?`, sc.Turn)
	return r, err
}

// appendResult appends the result of a call to the transcript. If the ledger has no outcome of the call, r settles it:
// see settleOpenCall. Otherwise the ledger's outcome is appended instead of r: a call that the workflow abandoned may
// have ended after all.
func (t *tx) appendResult(sc *scope, step int, c callRow, r turn.CallOutcome, at time.Time) error {
	c.scope = *sc
	if c.Rec.Outcome == "" {
		if err := t.settleOpenCall(&c, step, r, at); err != nil {
			return err
		}
	}
	if err := t.Load(&c); err != nil {
		return err
	}
	_, err := t.AppendMessage(sc, turn.Message{
		Role: turn.RoleTool, Text: c.Rec.Text, CallID: c.Rec.Call.ID, Outcome: c.Rec.Outcome, Media: c.Rec.Media, Step: step,
	})
	return err
}

// settleOpenCall settles a call that has no outcome. If the call may have run, its outcome is unknown, and r.Text is
// used only if r says the same. Otherwise r.Outcome settles it. If r has none, a suspended call is unknown and any
// other call is cancelled. step is that of a call that the ledger does not have yet.
func (t *tx) settleOpenCall(c *callRow, step int, r turn.CallOutcome, at time.Time) error {
	if mayHaveRun(c) && r.Outcome != turn.OutcomeUnknown {
		r = turn.CallOutcome{Outcome: turn.OutcomeUnknown}
	}
	outcome, text := r.Outcome, CleanText(r.Text)
	switch {
	case outcome != "":
	case c.Rec.Suspended != 0:
		outcome, text = turn.OutcomeUnknown, SuspendedText
	default:
		outcome = turn.OutcomeCancelled
	}
	if c.Row == 0 {
		c.Rec = CallRecord{Turn: c.TurnID, Step: step, Call: c.Rec.Call}
		if err := t.insertCall(c, nil, at, false); err != nil {
			return err
		}
	}
	if text == "" {
		text = ResultText(outcome)
	}
	return t.settle(c, c.Rec.Attempt, turn.ToolResult{Outcome: outcome, Code: cleanCode(outcome, r.Code),
		Text: text}, at)
}

// settleOpenCalls settles the remaining open calls of a turn that ends, which the last assistant message does not
// request, so that each tool_call_started has its tool_call_completed.
func (t *tx) settleOpenCalls(sc *scope, at time.Time) error {
	ids, err := column[string](t.querier,
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
		if err := t.settleOpenCall(&c, c.Rec.Step, turn.CallOutcome{}, at); err != nil {
			return err
		}
	}
	return nil
}
