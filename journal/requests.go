package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// Ask records what the turn waits for, emits approval_requested and question_asked once for each request, and shows the
// turn as waiting. It returns the decisions that the requests have already, so that a reset turn does not ask twice.
// ErrClosed if the turn is settled and a request has no decision.
func (s *DB) Ask(ctx context.Context, in turn.AskInput) (ruled []turn.Decision, err error) {
	err = s.writeScope(ctx, in.Turn, in.Session, "recording the requests of", func(t *tx, sc scope) error {
		ruled = nil
		for _, w := range in.Requests {
			decision, err := t.openOnce(&sc, w, in.At)
			if err != nil {
				return fmt.Errorf("request %s: %w", w.ID, err)
			}
			if decision != nil {
				ruled = append(ruled, *decision)
			}
		}
		return t.updateWaitingState(sc, in.At)
	})
	return ruled, err
}

// openOnce opens a request once, and returns its decision if it has one already.
func (t *tx) openOnce(sc *scope, w turn.Request, at time.Time) (*turn.Decision, error) {
	if err := checkID("request", w.ID); err != nil {
		return nil, err
	}
	old, err := t.request(sc.turn, w.ID)
	switch {
	case err == nil && !sameRequest(old.rec.Request, CleanRequest(w)):
		return nil, fmt.Errorf("the request exists and is about something else: %w", ErrConflict)
	case err == nil:
		return old.rec.Decision, nil
	case !errors.Is(err, sql.ErrNoRows):
		return nil, err
	case sc.closed:
		return nil, ErrClosed
	}
	return nil, t.openRequest(sc, w, at)
}

// sameRequest reports whether a and b are the same request.
func sameRequest(a, b turn.Request) bool {
	return a.Kind == b.Kind && a.ArgumentsHash == b.ArgumentsHash && a.Call == b.Call &&
		reflect.DeepEqual(a.Elicitation, b.Elicitation)
}

// openRequest records a new request and tells followers.
func (t *tx) openRequest(sc *scope, w turn.Request, at time.Time) (err error) {
	x := request{size: int64(len(w.Arguments))}
	x.rec.Request = CleanRequest(w)
	if err := checkRequest(x.rec.Request); err != nil {
		return err
	}
	switch {
	case w.Kind == turn.RequestApproval:
		err = t.copyCall(sc, &x)
	case w.Kind == turn.RequestElicitation:
		x.size, x.rec.Arguments = 0, ""
		err = t.copyTool(sc, &x)
	default:
		x.size, x.rec.Arguments = 0, ""
	}
	if err != nil {
		return err
	}
	x.rec.AskedAt = at
	if x.arguments, err = t.put(x.rec.Arguments, textPlain); err != nil {
		return err
	}
	if err := t.insertRequest(sc.session, sc.turn, &x); err != nil {
		return err
	}
	return t.emitRequest(sc, x, at)
}

// copyCall copies the call that needs the approval from the transcript.
func (t *tx) copyCall(sc *scope, x *request) error {
	list, _, err := t.openCalls(sc)
	if err != nil {
		return err
	}
	for _, c := range list {
		if c.call.ID != x.rec.ID {
			continue
		}
		if hash := HashOf([]byte(c.call.Arguments)); hash != x.rec.ArgumentsHash {
			return fmt.Errorf("the call's arguments have the hash %.8s, not %.8s: %w", hash, x.rec.ArgumentsHash, ErrConflict)
		}
		x.rec.Tool, x.size = c.call.Tool, int64(len(c.call.Arguments))
		x.rec.Arguments = Preview(c.call.Arguments, turn.WaitArguments)
		return nil
	}
	return fmt.Errorf("the model's last message does not request this call: %w", ErrConflict)
}

// copyTool copies the tool of an elicitation from the ledger, so that a server cannot ask in the name of a call that
// never ran.
func (t *tx) copyTool(sc *scope, x *request) error {
	c, err := t.call(sc.turnID, x.rec.Call)
	if err != nil {
		return err
	}
	if c.row == 0 || c.rec.Runs == 0 {
		return fmt.Errorf("call %s has never run, so its server cannot have sent an elicitation: %w", x.rec.Call, ErrConflict)
	}
	x.rec.Tool = c.rec.Call.Tool
	return nil
}

// updateWaitingState records in the turn's row whether the turn waits for a decision. A repeated Ask or Decide has
// changed nothing.
func (t *tx) updateWaitingState(sc scope, at time.Time) error {
	if len(t.changed) == 0 {
		return nil
	}
	err := t.exec(`UPDATE turns SET state = CASE WHEN EXISTS (SELECT 1 FROM requests WHERE turn = ?1
		AND status = '') THEN ?2 ELSE ?3 END
		WHERE id = ?1`, sc.turn, string(turn.StateWaiting), string(turn.StateRunning))
	if err != nil {
		return err
	}
	return t.touchUpdatedAt(sc, at)
}

// Decide records decisions, emits approval_decided and question_answered, keeps new grants, and shows the turn as
// running when it has no open request left. The first decision of a request stands; another one changes nothing.
// ErrNotFound if a request does not exist, ErrClosed if the turn is settled and a request has no decision.
func (s *DB) Decide(ctx context.Context, in turn.DecideInput) error {
	return s.writeScope(ctx, in.Turn, in.Session, "recording the decisions of", func(t *tx, sc scope) error {
		for _, r := range in.Decisions {
			if err := t.decide(sc, r, in.At); err != nil {
				return fmt.Errorf("request %s: %w", r.ID, err)
			}
		}
		return t.updateWaitingState(sc, in.At)
	})
}

func (t *tx) decide(sc scope, r turn.Decision, at time.Time) error {
	x, err := t.request(sc.turn, r.ID)
	if errors.Is(err, sql.ErrNoRows) && sc.closed {
		return ErrClosed
	}
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("there is no such request: %w", ErrNotFound)
	}
	if err != nil || x.rec.Decision != nil { // the first decision stands
		return err
	}
	if sc.closed {
		return ErrClosed
	}
	if r, err = CheckDecision(x.rec.Request, r); err != nil {
		return err
	}
	if r.At.IsZero() {
		r.At = at
	}
	if err := t.decideRequest(&x, r); err != nil {
		return err
	}
	if err := t.emitRequest(&sc, x, at); err != nil {
		return err
	}
	if r.Grant == "" {
		return nil
	}
	rule := turn.Grant{Tool: x.rec.Tool, By: r.By, At: r.At}
	if r.Grant == turn.GrantCall {
		rule.ArgumentsHash = x.rec.ArgumentsHash
	}
	return t.insertGrant(sc.session, rule)
}

func (t *tx) insertGrant(session int64, r turn.Grant) error {
	return t.exec(`INSERT INTO grants (session, tool, arguments_hash, decided_by, at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`,
		session, r.Tool, r.ArgumentsHash, r.By, nanos(r.At))
}

// cancelRequests cancels the open requests of a turn that ends.
func (t *tx) cancelRequests(sc *scope, at time.Time) error {
	list, err := t.requests(`w.turn = ? AND w.status = '' ORDER BY w.id`, sc.turn)
	if err != nil {
		return err
	}
	for _, x := range list {
		if err := t.decideRequest(&x, turn.Decision{ID: x.rec.ID, Status: turn.StatusCancelled, At: at}); err != nil {
			return err
		}
		if err := t.emitRequest(sc, x, at); err != nil {
			return err
		}
	}
	return nil
}

// checkApproval checks that a decision allows the call, if the claim needs one: the caller says so, or the journal has
// an approval request for this call.
func (t *tx) checkApproval(c *call, in ClaimInput) error {
	if !c.requests && !in.Approved {
		return nil
	}
	x, err := t.request(c.turn, in.Call.ID)
	asked := err == nil && x.rec.Kind == turn.RequestApproval
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if !asked && !in.Approved {
		return nil
	}
	r := x.rec.Decision
	if !asked || r == nil || !r.Allowed || r.ArgumentsHash != HashOf([]byte(in.Call.Arguments)) {
		return ErrUnapproved
	}
	return nil
}

// Grants returns the grants of the turn's session in the order in which they were given. ErrNotFound.
func (s *DB) Grants(ctx context.Context, turnID string) ([]turn.Grant, error) {
	return getOfTurn(ctx, s, turnID, "reading the grants",
		func(q querier, sc scope) ([]turn.Grant, error) { return q.grants(sc.session) })
}

func (q querier) grants(session int64) ([]turn.Grant, error) {
	return collect(q, func(scan scanner) (r turn.Grant, err error) {
		var at int64
		err = scan(&r.Tool, &r.ArgumentsHash, &r.By, &at)
		r.At = instant(at)
		return r, err
	}, `SELECT tool, arguments_hash, decided_by, at FROM grants WHERE session = ? ORDER BY id`, session)
}
