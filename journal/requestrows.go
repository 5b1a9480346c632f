package journal

import (
	"encoding/json"
	"errors"

	"github.com/everturn/everturn/workflows/turn"
)

// requestRow is a row of the table requests.
type requestRow struct {
	row         int64
	Rec         turn.Request
	Arguments   stored // at most the first turn.WaitArguments bytes
	elicitation stored
	response    stored
}

const requestColumns = `w.id, s.session_id, t.turn_id, w.request_id, w.kind, w.step, w.tool, w.arguments,
	w.arguments_blob, w.arguments_hash, w.arguments_bytes,
	w.risk, w.why, w.question, w.expires_at, w.asked_at, w.status, w.allowed, w.decided_hash, w.decided_by, w.reason,
	w.grant_scope, w.decided_at,
	w.call_id, w.elicitation, w.elicitation_blob, w.response, w.response_blob, w.max_grant`

const requestQuery = `SELECT ` + requestColumns +
	` FROM requests w JOIN turns t ON t.id = w.turn JOIN sessions s ON s.id = w.session WHERE `

// scan scans the columns of requestColumns. It does not load blobs: see querier.loadRequest.
func (row *requestRow) scan(scan func(...any) error) error {
	var expires, asked, decided int64
	var question string
	var r turn.Decision
	w := &row.Rec
	err := scan(&row.row, &w.Session, &w.Turn, &w.ID, &w.Kind, &w.Step, &w.Tool, &row.Arguments.Inline,
		&row.Arguments.Blob,
		&w.ArgumentsHash, &w.ArgumentsBytes,
		&w.Risk, intoContent(&w.Why), intoContent(&question), &expires, &asked, &r.Status, &r.Allowed, &r.ArgumentsHash,
		&r.By,
		intoContent(&r.Reason), &r.Grant,
		&decided,
		&w.Call, &row.elicitation.Inline, &row.elicitation.Blob, &row.response.Inline, &row.response.Blob, &w.MaxGrant)
	w.ExpiresAt, w.AskedAt = instant(expires), instant(asked)
	if w.Kind != turn.RequestApproval {
		w.Question = question
	} else if question != "" && err == nil {
		err = json.Unmarshal([]byte(question), &w.Beside)
	}
	if r.Status != "" { // an open request has no status
		r.ID, r.At = w.ID, instant(decided)
		w.Decision = &r
	}
	return err
}

// Request returns the request of a turn with this ID, or sql.ErrNoRows.
func (q querier) Request(turnRow int64, id string) (r requestRow, err error) {
	if err = r.scan(q.Row(requestQuery+`w.turn = ? AND w.request_id = ?`, turnRow, id).Scan); err != nil {
		return r, err
	}
	return r, q.loadRequest(&r)
}

// Requests returns the requests that the SQL condition where selects; it may also have ORDER BY and LIMIT. The tables
// are requests w, turns t and sessions s. Rec.Arguments are only the beginning of long arguments: see Records.
func (q querier) Requests(where string, args ...any) (list []requestRow, err error) {
	list, err = collect(q, func(scan scanner) (r requestRow, err error) {
		err = r.scan(scan)
		return r, err
	}, requestQuery+where, args...)
	for i := range list {
		if err != nil {
			break
		}
		err = q.loadRequest(&list[i])
	}
	return list, err
}

// loadRequest sets the fields of r.Rec that may be in blobs: arguments, elicitation and response.
func (q querier) loadRequest(r *requestRow) (err error) {
	if r.Rec.Arguments, err = q.getText(r.Arguments); err != nil {
		return err
	}
	elicitation, err := q.GetJSON(r.elicitation)
	if err == nil && elicitation != nil {
		err = json.Unmarshal(elicitation, &r.Rec.Elicitation)
	}
	if err != nil || r.Rec.Decision == nil {
		return err
	}
	response, err := q.GetJSON(r.response)
	if err == nil && response != nil {
		err = json.Unmarshal(response, &r.Rec.Decision.Response)
	}
	return err
}

// Records returns the requests that the SQL condition where selects, with their whole arguments: see Requests. A row
// keeps only the first turn.WaitArguments bytes of an approval's arguments. Longer ones are loaded from the blob of the
// transcript's call; if the journal has lost it, Arguments stay shorter than ArgumentsBytes.
func (q querier) Records(where string, args ...any) (out []turn.Request, err error) {
	list, err := q.Requests(where, args...)
	if err != nil {
		return nil, err
	}
	for _, r := range list {
		if int64(len(r.Rec.Arguments)) < r.Rec.ArgumentsBytes {
			b, err := q.GetBlob(r.Rec.ArgumentsHash)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return nil, err
			}
			if err == nil {
				r.Rec.Arguments = string(b)
			}
		}
		out = append(out, r.Rec)
	}
	return out, nil
}

// InsertRequest inserts the row of an open request; it ignores row.Rec.Decision. row.Arguments must be stored already.
func (t *tx) InsertRequest(sessionRow, turnRow int64, row *requestRow) (err error) {
	req := row.Rec
	if req.Elicitation != nil {
		if row.elicitation, err = t.PutJSON(mustJSON(req.Elicitation)); err != nil {
			return err
		}
	}
	return t.Row(`INSERT INTO requests (session, turn, request_id, kind, step, tool, arguments, arguments_blob, arguments_hash, arguments_bytes,
		risk, why, question, expires_at, asked_at, call_id, elicitation, elicitation_blob, max_grant) VALUES (?, ?, ?, ?, ?,
		?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		sessionRow, turnRow, req.ID, string(req.Kind), req.Step, req.Tool, row.Arguments.Inline, row.Arguments.Blob,
		req.ArgumentsHash, req.ArgumentsBytes,
		string(req.Risk), contentOf(req.Why), contentOf(questionColumn(req)), nanos(req.ExpiresAt), nanos(req.AskedAt),
		req.Call, row.elicitation.Inline, row.elicitation.Blob, string(req.MaxGrant)).Scan(&row.row)
}

// questionColumn returns the text of a request in the column question: its question or, of an approval, which has none,
// the JSON of Beside.
func questionColumn(req turn.Request) string {
	if req.Beside != nil {
		return string(mustJSON(req.Beside))
	}
	return req.Question
}

// DecideRequest records the decision r of a request in its row and in row.Rec.
func (t *tx) DecideRequest(row *requestRow, r turn.Decision) (err error) {
	if r.Response != nil {
		if row.response, err = t.PutJSON(mustJSON(r.Response)); err != nil {
			return err
		}
	}
	r.At = instant(nanos(r.At))
	row.Rec.Decision = &r
	return t.Exec(`UPDATE requests SET status = ?, allowed = ?, decided_hash = ?, decided_by = ?, reason = ?,
		grant_scope = ?, decided_at = ?,
		response = ?, response_blob = ? WHERE id = ?`,
		string(r.Status), r.Allowed, r.ArgumentsHash, r.By, contentOf(r.Reason), string(r.Grant), nanos(r.At),
		row.response.Inline,
		row.response.Blob, row.row)
}

// Grants returns a session's grants in the order in which they were given.
func (q querier) Grants(sessionRow int64) ([]turn.Grant, error) {
	return collect(q, func(scan scanner) (g turn.Grant, err error) {
		var at int64
		err = scan(&g.Tool, &g.ArgumentsHash, &g.By, &at)
		g.At = instant(at)
		return g, err
	}, `SELECT tool, arguments_hash, decided_by, at FROM grants WHERE session = ? ORDER BY id`, sessionRow)
}
