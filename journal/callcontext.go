package journal

import (
	"context"

	"github.com/everturn/everturn/workflows/turn"
)

// CallContextInput is the input of DB.CallContext.
type CallContextInput struct {
	Turn string
	// Asked means that a call needs an approval even if the session is not tainted.
	Asked bool
	// Planned means that the turn works by a plan.
	Planned bool
	// Own are the versions of catalogues that the worker offers: see DB.OfferedBy.
	Own map[string]string
}

// CallContext is what the journal has for the decision whether calls of a turn may run.
type CallContext struct {
	Taint *TaintSource // of the session; nil if it is not tainted
	// Grants and Catalogues are set if the session is tainted or CallContextInput.Asked is set: only then a decision
	// depends on them. Catalogues are those of DB.OfferedBy.
	Grants     []turn.Grant
	Catalogues []turn.Catalogue
	// Calls and Requests are all of the turn, if CallContextInput.Planned is set.
	Calls    []CallRecord
	Requests []turn.Request
}

// CallContext returns what the decision about calls of a turn depends on. ErrNotFound if the turn does not exist.
func (db *DB) CallContext(ctx context.Context, in CallContextInput) (CallContext, error) {
	return getOfTurn(ctx, db, in.Turn, "reading what decides about calls",
		func(q querier, sc scope) (out CallContext, err error) {
			if out.Taint, err = q.TaintSource(sc.Session); err != nil {
				return out, err
			}
			if in.Asked || out.Taint != nil {
				if out.Grants, err = q.Grants(sc.Session); err == nil {
					out.Catalogues, err = db.offeredBy(q, in.Own)
				}
			}
			if in.Planned && err == nil {
				if out.Calls, err = q.Calls(sc); err == nil {
					out.Requests, err = q.Records(`w.turn = ? ORDER BY w.id`, sc.Turn)
				}
			}
			return out, err
		})
}
