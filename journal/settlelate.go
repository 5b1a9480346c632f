package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// SettleLate records the result r of a call that a client has run, and for which the call's turn does not wait any
// more, as a late result. It returns false if r is the outcome of the call: then it changes nothing. response is r as
// the decision about the request for it has it. ErrConflict if the call has another result, ErrOpen if the call has no
// outcome yet, ErrNotFound if the session has no such call of a client tool.
func (db *DB) SettleLate(ctx context.Context, session, turnID, callID string, r turn.ToolResult,
	response turn.ElicitationResponse, at time.Time) (late bool, err error) {
	r = cleanResult(r)
	err = db.writeTurn(ctx, turnID, callName("settling", turnID, callID), func(t *tx) error {
		late = false // this may be another run of the transaction
		sc, err := t.NamedScope(turnID)
		if err == nil && sc.Check(session) != nil {
			err = fmt.Errorf("session %.80q has no such turn: %w", session, ErrNotFound)
		}
		if err != nil {
			return err
		}
		c, err := t.Call(turnID, callID)
		switch {
		case err != nil:
			return err
		case c.Rec.Runs == 0 || !strings.HasPrefix(c.Rec.Call.Tool, turn.ClientTools):
			return fmt.Errorf("no client has got this call: %w", ErrNotFound)
		case c.Rec.Outcome == "":
			return ErrOpen
		case c.Rec.Outcome != turn.OutcomeUnknown:
			return t.checkResponse(sc, callID, response)
		case c.Rec.LateCount > 0:
			late = true
			return t.checkLate(c, r)
		}
		late = true
		return errors.Join(t.settleLate(&c, c.Rec.Attempt, r, at), t.taint(c, at))
	})
	return late, err
}

// checkResponse returns ErrConflict unless a client's response with the result of a call is this one.
func (t *tx) checkResponse(sc scope, callID string, response turn.ElicitationResponse) error {
	request, err := t.Request(sc.Turn, turn.ResultRequest(callID))
	response.Content = compact(response.Content)
	switch d := request.Rec.Decision; {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return err
	case err == nil && d != nil && d.Response != nil && reflect.DeepEqual(*d.Response, response):
		return nil
	}
	return ErrConflict
}

// checkLate returns ErrConflict unless the late result of a call is this one.
func (t *tx) checkLate(c callRow, r turn.ToolResult) error {
	full := ""
	if r.Full != nil {
		full = HashOf(r.Full)
	}
	list, err := t.LateResults(`l.call = ?`, c.Row)
	same := func(l LateResult) bool { return l.Outcome == r.Outcome && l.Text == r.Text && l.FullBlob == full }
	if err == nil && !slices.ContainsFunc(list, same) {
		err = ErrConflict
	}
	return err
}
