package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/everturn/everturn/workflows/turn"
)

// Ask records the requests that a turn waits for, emits approval_requested or question_asked once for each of them, and
// sets the turn's state to waiting if one of them is new. It returns the decisions of requests that have been decided
// before: a turn that was reset makes the same requests again. ErrClosed if the turn has ended and a request is new;
// ErrConflict if a request of the same ID is about something else, or a request does not fit the calls in the journal.
func (db *DB) Ask(ctx context.Context, session, turnID string, requests []turn.Request,
	at time.Time) (decided []turn.Decision, err error) {
	err = db.writeScope(ctx, turnID, session, "recording the requests of", func(t *tx, sc scope) error {
		decided = nil // this may be another run of the transaction
		for _, r := range requests {
			decision, err := t.openRequestOnce(&sc, r, at)
			if err != nil {
				return fmt.Errorf("request %s: %w", r.ID, err)
			}
			if decision != nil {
				decided = append(decided, *decision)
			}
		}
		return t.updateWaitingState(sc, at)
	})
	return decided, err
}

// openRequestOnce records a request unless the turn has a request of this ID. It returns the decision of the existing
// request, nil if the request is new or open. ErrConflict if the existing request is about something else, ErrClosed
// if the request is new and the turn has ended.
func (t *tx) openRequestOnce(sc *scope, r turn.Request, at time.Time) (*turn.Decision, error) {
	if err := checkID("request", r.ID); err != nil {
		return nil, err
	}
	old, err := t.Request(sc.Turn, r.ID)
	switch {
	case err == nil && !sameRequest(old.Rec, CleanRequest(r)):
		return nil, fmt.Errorf("the request exists and is about something else: %w", ErrConflict)
	case err == nil:
		return old.Rec.Decision, nil
	case !errors.Is(err, sql.ErrNoRows):
		return nil, err
	case sc.Closed:
		return nil, ErrClosed
	}
	return nil, t.openRequest(sc, r, at)
}

// sameRequest reports whether two requests of the same ID are about the same: kind, call, arguments and elicitation.
func sameRequest(a, b turn.Request) bool {
	return a.Kind == b.Kind && a.ArgumentsHash == b.ArgumentsHash && a.Call == b.Call &&
		reflect.DeepEqual(a.Elicitation, b.Elicitation)
}

// openRequest records a new request and emits its event. The tool and the arguments of an approval or a result, and the
// tool of an elicitation, come from the journal and not from r, so that users see what was really requested.
func (t *tx) openRequest(sc *scope, r turn.Request, at time.Time) (err error) {
	row := requestRow{Rec: CleanRequest(r)}
	row.Rec.AskedAt, row.Rec.Decision = at, nil
	if err := checkRequest(row.Rec); err != nil {
		return err
	}
	switch {
	case r.Kind == turn.RequestApproval:
		err = t.copyCall(sc, &row)
	case r.Kind == turn.RequestElicitation:
		row.Rec.ArgumentsBytes, row.Rec.Arguments = 0, "" // only an approval and a result have arguments
		_, err = t.copyTool(sc, &row)
	case r.Kind == turn.RequestResult:
		err = t.copyHandedOut(sc, &row)
	default:
		row.Rec.ArgumentsBytes, row.Rec.Arguments = 0, ""
	}
	if err != nil {
		return err
	}
	if row.Arguments, err = t.Put(row.Rec.Arguments, textPlain); err != nil {
		return err
	}
	if err := t.InsertRequest(sc.Session, sc.Turn, &row); err != nil {
		return err
	}
	return t.emitRequest(sc, row, at)
}

// copyCall sets the tool, the arguments and their size of an approval request from the call with the request's ID in
// the turn's last assistant message. ErrConflict if that message does not request the call, or with other arguments.
func (t *tx) copyCall(sc *scope, r *requestRow) error {
	last, err := t.lastRequestedCalls(sc)
	if err != nil {
		return err
	}
	list, err := last.list(t.querier, sc.TurnID)
	if err != nil {
		return err
	}
	for _, requested := range list {
		c := requested.Rec.Call
		if c.ID != r.Rec.ID {
			continue
		}
		if hash := HashOf([]byte(c.Arguments)); hash != r.Rec.ArgumentsHash {
			return fmt.Errorf("the call's arguments have the hash %.8s, not %.8s: %w", hash, r.Rec.ArgumentsHash, ErrConflict)
		}
		r.Rec.Tool, r.Rec.ArgumentsBytes = c.Tool, int64(len(c.Arguments))
		r.Rec.Arguments = preview(c.Arguments, turn.WaitArguments)
		return copyBeside(r.Rec.Beside, list)
	}
	return fmt.Errorf("the model's last message does not request this call: %w", ErrConflict)
}

// copyBeside sets the tools and the previews of the arguments of the calls beside an approval from the calls of the
// turn's last assistant message. ErrConflict if that message does not request one of them.
func copyBeside(beside *turn.Beside, list []callRow) error {
	if beside == nil {
		return nil
	}
	for i, c := range beside.Calls {
		requested := slices.IndexFunc(list, func(r callRow) bool { return r.Rec.Call.ID == c.ID })
		if requested < 0 {
			return fmt.Errorf("the model's last message does not request call %s, which should run beside: %w", c.ID,
				ErrConflict)
		}
		call := list[requested].Rec.Call
		beside.Calls[i].Tool, beside.Calls[i].Arguments = call.Tool, bothEnds(call.Arguments, turn.BesideArguments)
	}
	return nil
}

// bothEnds returns at most limit bytes of s: if s is longer, its beginning and its end with an ellipsis between them. A
// long member of a JSON object so does not hide those after it.
func bothEnds(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	room := (limit - len("…")) / 2
	end := len(s) - room
	for end < len(s) && !utf8.RuneStart(s[end]) {
		end++
	}
	return preview(s, room) + "…" + s[end:]
}

// copyTool sets the tool of an elicitation or a result from the ledger's record of the call, which it returns.
// ErrConflict if the call has never run: only the server of a running call can send an elicitation, and a client gets no
// call before its claim.
func (t *tx) copyTool(sc *scope, r *requestRow) (callRow, error) {
	c, err := t.Call(sc.TurnID, r.Rec.Call)
	if err == nil && (c.Row == 0 || c.Rec.Runs == 0) {
		err = fmt.Errorf("call %s has never run, so there is nothing to ask for: %w", r.Rec.Call, ErrConflict)
	}
	r.Rec.Tool = c.Rec.Call.Tool
	return c, err
}

// copyHandedOut sets the tool, the arguments and their size of a request for a result from the ledger's record of the
// call. ErrConflict if the ledger has the call with other arguments.
func (t *tx) copyHandedOut(sc *scope, r *requestRow) error {
	c, err := t.copyTool(sc, r)
	if err == nil {
		err = t.Load(&c)
	}
	if err == nil && c.ArgumentsHash != r.Rec.ArgumentsHash {
		err = fmt.Errorf("the call's arguments have the hash %.8s, not %.8s: %w", c.ArgumentsHash, r.Rec.ArgumentsHash,
			ErrConflict)
	}
	r.Rec.ArgumentsBytes = int64(len(c.Rec.Call.Arguments))
	r.Rec.Arguments = preview(c.Rec.Call.Arguments, turn.WaitArguments)
	return err
}

// updateWaitingState sets the state in the turn's row, if the transaction has emitted events: waiting if the turn has
// an open request, running otherwise.
func (t *tx) updateWaitingState(sc scope, at time.Time) error {
	if len(t.Changed) == 0 { // no event was emitted: the Ask or Decide is a repetition
		return nil
	}
	err := t.Exec(`UPDATE turns SET state = CASE WHEN EXISTS (SELECT 1 FROM requests WHERE turn = ?1
		AND status = '') THEN ?2 ELSE ?3 END
		WHERE id = ?1`, sc.Turn, string(turn.StateWaiting), string(turn.StateRunning))
	if err != nil {
		return err
	}
	return t.touchUpdatedAt(sc, at)
}

// Decide records decisions and their grants, and emits approval_decided or question_answered for each. If no open
// request is left, it sets the turn's state to running. The first decision of a request stands; another one changes
// nothing. ErrClosed if the turn has ended and a request has no decision or does not exist, ErrNotFound if the turn
// runs and a request does not exist. See turn.Request.Settle for the decisions that are refused. After an error
// nothing is recorded.
func (db *DB) Decide(ctx context.Context, session, turnID string, decisions []turn.Decision, at time.Time) error {
	return db.writeScope(ctx, turnID, session, "recording the decisions of", func(t *tx, sc scope) error {
		for _, r := range decisions {
			if err := t.decide(sc, r, at); err != nil {
				return fmt.Errorf("request %s: %w", r.ID, err)
			}
		}
		return t.updateWaitingState(sc, at)
	})
}

// decide records one decision and its event, and the grant if the decision gives one. It changes nothing if the request
// has a decision already.
func (t *tx) decide(sc scope, r turn.Decision, at time.Time) error {
	row, err := t.Request(sc.Turn, r.ID)
	if errors.Is(err, sql.ErrNoRows) && sc.Closed {
		return ErrClosed
	}
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("there is no such request: %w", ErrNotFound)
	}
	if err != nil || row.Rec.Decision != nil { // the first decision stands
		return err
	}
	if sc.Closed {
		return ErrClosed
	}
	if r, err = checkDecision(row.Rec, r); err != nil {
		return err
	}
	if r.At.IsZero() {
		r.At = at
	}
	if err := t.DecideRequest(&row, r); err != nil {
		return err
	}
	if err := t.emitRequest(&sc, row, at); err != nil {
		return err
	}
	if r.Grant == "" {
		return nil
	}
	grant := turn.Grant{Tool: row.Rec.Tool, By: r.By, At: r.At} // without ArgumentsHash: for any arguments
	switch r.Grant {
	case turn.GrantCommand:
		return t.grantCommands(sc.Session, grant, row.Rec)
	case turn.GrantCall:
		grant.ArgumentsHash = row.Rec.ArgumentsHash
	case turn.GrantHost:
		if grant.ArgumentsHash = turn.HostGrant(row.Rec.Arguments); grant.ArgumentsHash == "" {
			grant.ArgumentsHash = row.Rec.ArgumentsHash // the arguments name no host, or are cut: only the same arguments
		}
	}
	return t.insertGrant(sc.Session, grant)
}

// grantCommands records a grant for each command of a request. If its arguments have no plain command line, or are cut,
// the grant is for exactly these arguments.
func (t *tx) grantCommands(session int64, g turn.Grant, r turn.Request) error {
	prefixes := turn.CommandPrefixes(r.Arguments)
	if len(prefixes) == 0 {
		g.ArgumentsHash = r.ArgumentsHash
		return t.insertGrant(session, g)
	}
	for _, prefix := range prefixes {
		g.ArgumentsHash = turn.CommandGrant(prefix)
		if err := t.insertGrant(session, g); err != nil {
			return err
		}
	}
	return nil
}

// insertGrant records a grant of the session, once.
func (t *tx) insertGrant(session int64, g turn.Grant) error {
	return t.Exec(`INSERT INTO grants (session, tool, arguments_hash, decided_by, at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`,
		session, g.Tool, g.ArgumentsHash, g.By, nanos(g.At))
}

// cancelRequests decides the open requests of a turn that ends as cancelled, and emits their events.
func (t *tx) cancelRequests(sc *scope, at time.Time) error {
	list, err := t.Requests(`w.turn = ? AND w.status = '' ORDER BY w.id`, sc.Turn)
	if err != nil {
		return err
	}
	for _, r := range list {
		if err := t.DecideRequest(&r, turn.Decision{ID: r.Rec.ID, Status: turn.StatusCancelled, At: at}); err != nil {
			return err
		}
		if err := t.emitRequest(sc, r, at); err != nil {
			return err
		}
	}
	return nil
}

// checkApproval returns ErrUnapproved if a call needs an approval and no decision allows it with these arguments. A
// call needs an approval if approved is set or the turn has an approval request for it.
func (t *tx) checkApproval(c *callRow, call turn.ToolCall, approved bool) error {
	if !c.Requests && !approved {
		return nil
	}
	row, err := t.Request(c.Turn, call.ID) // the request of an approval has the ID of its call
	hasRequest := err == nil && row.Rec.Kind == turn.RequestApproval
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if !hasRequest && !approved {
		return nil
	}
	r := row.Rec.Decision
	if !hasRequest || r == nil || !r.Allowed || r.ArgumentsHash != HashOf([]byte(call.Arguments)) {
		return ErrUnapproved
	}
	return nil
}

// Grants returns the grants of the turn's session in the order in which they were given. ErrNotFound if the turn
// does not exist.
func (db *DB) Grants(ctx context.Context, turnID string) ([]turn.Grant, error) {
	return getOfTurn(ctx, db, turnID, "reading the grants",
		func(q querier, sc scope) ([]turn.Grant, error) { return q.Grants(sc.Session) })
}

// emitRequest emits the event of a request: that it was decided if r has a decision, and otherwise that it was made.
func (t *tx) emitRequest(sc *scope, r requestRow, at time.Time) error {
	kinds := map[turn.RequestKind][2]turn.EventKind{
		turn.RequestApproval:    {turn.EventApprovalRequested, turn.EventApprovalDecided},
		turn.RequestQuestion:    {turn.EventQuestionAsked, turn.EventQuestionAnswered},
		turn.RequestElicitation: {turn.EventQuestionAsked, turn.EventQuestionAnswered},
		turn.RequestResult:      {turn.EventQuestionAsked, turn.EventQuestionAnswered},
	}[r.Rec.Kind]
	e := turn.Event{Kind: kinds[0], Step: r.Rec.Step, At: at}
	if r.Rec.Decision != nil {
		e.Kind = kinds[1]
	}
	shown := r.Rec
	shown.Session, shown.Turn, shown.AskedAt = "", "", time.Time{}
	if r.Rec.Kind == turn.RequestResult && r.Rec.Decision != nil {
		decision := *r.Rec.Decision
		decision.Response, shown.Decision = nil, &decision // tool_call_completed has the result
	}
	return t.emitData(sc, e, shown)
}

// Requests returns a turn's requests in the order in which they were made.
func (db *DB) Requests(ctx context.Context, turnID string) ([]turn.Request, error) {
	return getOfNamedTurn(ctx, db, turnID, "listing the requests",
		func(q querier, sc scope) ([]turn.Request, error) {
			return q.Records(`w.turn = ? ORDER BY w.id`, sc.Turn)
		})
}

// PendingRequests returns at most limit open requests, the oldest first: those of one session and of the subagents that
// work for it, or those of all the tenant's sessions if session is empty. It returns none for a session that does not
// exist.
func (db *DB) PendingRequests(ctx context.Context, session string, limit int) ([]turn.Request, error) {
	if session == "" {
		return db.pending(ctx, `w.status = '' AND s.tenant = ? ORDER BY w.id LIMIT ?`, db.tenant, limit)
	}
	return db.pending(ctx, `w.session IN (`+
		belowSession(`(SELECT id FROM sessions WHERE tenant = ? AND session_id = ?)`)+
		`) AND w.status = '' ORDER BY w.id LIMIT ?`, db.tenant, session, limit)
}

// PendingOfTurn returns the open requests that a turn waits for, the oldest first: its own and those of its inline
// subagents. ErrNotFound if the turn does not exist.
func (db *DB) PendingOfTurn(ctx context.Context, turnID string) ([]turn.Request, error) {
	return getOfNamedTurn(ctx, db, turnID, "listing the open requests",
		func(q querier, sc scope) ([]turn.Request, error) {
			return q.Records(`w.status = '' AND (w.turn = ?1 OR w.session IN (`+belowTurn(`?1`)+`)) ORDER BY w.id`,
				sc.Turn)
		})
}

// pending returns the requests that the SQL condition where selects.
func (db *DB) pending(ctx context.Context, where string, args ...any) ([]turn.Request, error) {
	return get(ctx, db, "listing the open requests",
		func(q querier) ([]turn.Request, error) { return q.Records(where, args...) })
}

// OpenRequests returns the number of open requests of all tenants, by kind.
func (db *DB) OpenRequests(ctx context.Context) (map[turn.RequestKind]int64, error) {
	return get(ctx, db, "counting the open requests", func(q querier) (map[turn.RequestKind]int64, error) {
		open := map[turn.RequestKind]int64{}
		_, err := collect(q, func(scan scanner) (kind turn.RequestKind, err error) {
			n := int64(0)
			err = scan(&kind, &n)
			open[kind] = n
			return kind, err
		}, `SELECT w.kind, count(*) FROM requests w WHERE w.status = '' GROUP BY w.kind`)
		return open, err
	})
}

// Delivered returns the turn that took the message with this ID: the turn that began with it, or into which it was
// merged. ErrNotFound if the session has no such message.
func (db *DB) Delivered(ctx context.Context, session, messageID string) (TurnRecord, error) {
	return getOfSession(ctx, db, session, fmt.Sprintf("looking for message %q", messageID),
		func(q querier, n int64) (out TurnRecord, err error) {
			turnRow, _, err := q.FindMessage(n, messageID)
			if err != nil {
				return out, err
			}
			return q.TurnRecord(`t.id = ?`, turnRow)
		})
}
