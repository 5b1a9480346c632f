package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/record"
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
	if err := record.CheckID("request", w.ID); err != nil {
		return nil, err
	}
	old, err := t.Request(sc.Turn, w.ID)
	switch {
	case err == nil && !sameRequest(old.Rec.Request, record.CleanRequest(w)):
		return nil, fmt.Errorf("the request exists and is about something else: %w", ErrConflict)
	case err == nil:
		return old.Rec.Decision, nil
	case !errors.Is(err, sql.ErrNoRows):
		return nil, err
	case sc.Closed:
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
	x := tables.Request{Size: int64(len(w.Arguments))}
	x.Rec.Request = record.CleanRequest(w)
	if err := record.CheckRequest(x.Rec.Request); err != nil {
		return err
	}
	switch {
	case w.Kind == turn.RequestApproval:
		err = t.copyCall(sc, &x)
	case w.Kind == turn.RequestElicitation:
		x.Size, x.Rec.Arguments = 0, ""
		err = t.copyTool(sc, &x)
	default:
		x.Size, x.Rec.Arguments = 0, ""
	}
	if err != nil {
		return err
	}
	x.Rec.AskedAt = at
	if x.Arguments, err = t.Put(x.Rec.Arguments, tables.TextPlain); err != nil {
		return err
	}
	if err := t.InsertRequest(sc.Session, sc.Turn, &x); err != nil {
		return err
	}
	return t.emitRequest(sc, x, at)
}

// copyCall copies the call that needs the approval from the transcript.
func (t *tx) copyCall(sc *scope, x *tables.Request) error {
	list, _, err := t.openCalls(sc)
	if err != nil {
		return err
	}
	for _, c := range list {
		if c.call.ID != x.Rec.ID {
			continue
		}
		if hash := record.HashOf([]byte(c.call.Arguments)); hash != x.Rec.ArgumentsHash {
			return fmt.Errorf("the call's arguments have the hash %.8s, not %.8s: %w", hash, x.Rec.ArgumentsHash, ErrConflict)
		}
		x.Rec.Tool, x.Size = c.call.Tool, int64(len(c.call.Arguments))
		x.Rec.Arguments = record.Preview(c.call.Arguments, turn.WaitArguments)
		return nil
	}
	return fmt.Errorf("the model's last message does not request this call: %w", ErrConflict)
}

// copyTool copies the tool of an elicitation from the ledger, so that a server cannot ask in the name of a call that
// never ran.
func (t *tx) copyTool(sc *scope, x *tables.Request) error {
	c, err := t.Call(sc.TurnID, x.Rec.Call)
	if err != nil {
		return err
	}
	if c.Row == 0 || c.Rec.Runs == 0 {
		return fmt.Errorf("call %s has never run, so its server cannot have sent an elicitation: %w", x.Rec.Call, ErrConflict)
	}
	x.Rec.Tool = c.Rec.Call.Tool
	return nil
}

// updateWaitingState records in the turn's row whether the turn waits for a decision. A repeated Ask or Decide has
// changed nothing.
func (t *tx) updateWaitingState(sc scope, at time.Time) error {
	if len(t.Changed) == 0 {
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
	x, err := t.Request(sc.Turn, r.ID)
	if errors.Is(err, sql.ErrNoRows) && sc.Closed {
		return ErrClosed
	}
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("there is no such request: %w", ErrNotFound)
	}
	if err != nil || x.Rec.Decision != nil { // the first decision stands
		return err
	}
	if sc.Closed {
		return ErrClosed
	}
	if r, err = record.CheckDecision(x.Rec.Request, r); err != nil {
		return err
	}
	if r.At.IsZero() {
		r.At = at
	}
	if err := t.DecideRequest(&x, r); err != nil {
		return err
	}
	if err := t.emitRequest(&sc, x, at); err != nil {
		return err
	}
	if r.Grant == "" {
		return nil
	}
	rule := turn.Grant{Tool: x.Rec.Tool, By: r.By, At: r.At}
	switch r.Grant {
	case turn.GrantCall:
		rule.ArgumentsHash = x.Rec.ArgumentsHash
	case turn.GrantHost:
		if rule.ArgumentsHash = turn.HostGrant(x.Rec.Arguments); rule.ArgumentsHash == "" {
			rule.ArgumentsHash = x.Rec.ArgumentsHash
		}
	}
	return t.insertGrant(sc.Session, rule)
}

func (t *tx) insertGrant(session int64, r turn.Grant) error {
	return t.Exec(`INSERT INTO grants (session, tool, arguments_hash, decided_by, at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`,
		session, r.Tool, r.ArgumentsHash, r.By, tables.Nanos(r.At))
}

// cancelRequests cancels the open requests of a turn that ends.
func (t *tx) cancelRequests(sc *scope, at time.Time) error {
	list, err := t.Requests(`w.turn = ? AND w.status = '' ORDER BY w.id`, sc.Turn)
	if err != nil {
		return err
	}
	for _, x := range list {
		if err := t.DecideRequest(&x, turn.Decision{ID: x.Rec.ID, Status: turn.StatusCancelled, At: at}); err != nil {
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
	if !c.Requests && !in.Approved {
		return nil
	}
	x, err := t.Request(c.Turn, in.Call.ID)
	asked := err == nil && x.Rec.Kind == turn.RequestApproval
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if !asked && !in.Approved {
		return nil
	}
	r := x.Rec.Decision
	if !asked || r == nil || !r.Allowed || r.ArgumentsHash != record.HashOf([]byte(in.Call.Arguments)) {
		return ErrUnapproved
	}
	return nil
}

// Grants returns the grants of the turn's session in the order in which they were given. ErrNotFound.
func (s *DB) Grants(ctx context.Context, turnID string) ([]turn.Grant, error) {
	return tables.GetOfTurn(ctx, s.tables, turnID, "reading the grants",
		func(q querier, sc scope) ([]turn.Grant, error) { return q.Grants(sc.Session) })
}

// emitRequest tells followers about a request or, if it has a decision, about the decision.
func (t *tx) emitRequest(sc *scope, x tables.Request, at time.Time) error {
	kinds := map[turn.RequestKind][2]turn.ChunkKind{
		turn.RequestApproval:    {turn.ChunkApprovalRequested, turn.ChunkApprovalDecided},
		turn.RequestQuestion:    {turn.ChunkQuestionAsked, turn.ChunkQuestionAnswered},
		turn.RequestElicitation: {turn.ChunkQuestionAsked, turn.ChunkQuestionAnswered},
	}[x.Rec.Kind]
	c := turn.Chunk{Kind: kinds[0], Step: x.Rec.Step, At: at}
	if x.Rec.Decision != nil {
		c.Kind = kinds[1]
	}
	return t.emitData(sc, c, turn.RequestChunk{Request: x.Rec.Request, ArgumentsBytes: x.Size, Decision: x.Rec.Decision})
}

// Requests returns a turn's requests in the order in which they were made.
func (s *DB) Requests(ctx context.Context, turnID string) ([]RequestRecord, error) {
	return tables.GetOfNamedTurn(ctx, s.tables, turnID, "listing the requests",
		func(q querier, sc scope) ([]RequestRecord, error) {
			return q.Records(`w.turn = ? ORDER BY w.id`, sc.Turn)
		})
}

// PendingRequests returns the open requests of turns that have not ended, the oldest first: those of one session and of
// the subagents at work for it, or of all the tenant's sessions if session is empty.
func (s *DB) PendingRequests(ctx context.Context, session string, limit int) ([]RequestRecord, error) {
	if session == "" {
		return s.pending(ctx, `w.status = '' AND s.tenant = ? ORDER BY w.id LIMIT ?`, s.tables.Tenant, limit)
	}
	return s.pending(ctx, `w.session IN (`+
		tables.BelowSession(`(SELECT id FROM sessions WHERE tenant = ? AND session_id = ?)`)+
		`) AND w.status = '' ORDER BY w.id LIMIT ?`, s.tables.Tenant, session, limit)
}

// PendingOfTurn returns the open requests that a turn waits for, the oldest first: its own and those of its inline
// subagents. ErrNotFound.
func (s *DB) PendingOfTurn(ctx context.Context, turnID string) ([]RequestRecord, error) {
	return tables.GetOfNamedTurn(ctx, s.tables, turnID, "listing the open requests",
		func(q querier, sc scope) ([]RequestRecord, error) {
			return q.Records(`w.status = '' AND (w.turn = ?1 OR w.session IN (`+tables.BelowTurn(`?1`)+`)) ORDER BY w.id`,
				sc.Turn)
		})
}

func (s *DB) pending(ctx context.Context, where string, args ...any) ([]RequestRecord, error) {
	return tables.Get(ctx, s.tables, "listing the open requests",
		func(q querier) ([]RequestRecord, error) { return q.Records(where, args...) })
}

// OpenRequests returns the number of open requests of all tenants, by kind.
func (s *DB) OpenRequests(ctx context.Context) (map[turn.RequestKind]int64, error) {
	return tables.Get(ctx, s.tables, "counting the open requests", func(q querier) (map[turn.RequestKind]int64, error) {
		open := map[turn.RequestKind]int64{}
		_, err := tables.Collect(q, func(scan tables.Scanner) (kind turn.RequestKind, err error) {
			n := int64(0)
			err = scan(&kind, &n)
			open[kind] = n
			return kind, err
		}, `SELECT w.kind, count(*) FROM requests w WHERE w.status = '' GROUP BY w.kind`)
		return open, err
	})
}

// Delivered returns the turn that took this message of the session, even if the message was merged into it.
// ErrNotFound.
func (s *DB) Delivered(ctx context.Context, session, messageID string) (TurnRecord, error) {
	return tables.GetOfSession(ctx, s.tables, session, fmt.Sprintf("looking for message %q", messageID),
		func(q querier, n int64) (out TurnRecord, err error) {
			turnN, _, err := q.FindMessage(n, messageID)
			if err != nil {
				return out, err
			}
			return q.TurnRecord(`t.id = ?`, turnN)
		})
}
