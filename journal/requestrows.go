package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// request is a row of requests.
type request struct {
	row         int64
	rec         RequestRecord
	arguments   stored
	size        int64 // of the whole arguments, in bytes
	elicitation stored
	response    stored
}

const requestColumns = `w.id, s.session_id, t.turn_id, w.request_id, w.kind, w.step, w.tool, w.arguments, w.arguments_blob, w.arguments_hash, w.arguments_bytes,
	w.risk, w.why, w.question, w.expires_at, w.asked_at, w.status, w.allowed, w.decided_hash, w.decided_by, w.reason, w.grant_scope, w.decided_at,
	w.call_id, w.elicitation, w.elicitation_blob, w.response, w.response_blob, w.max_grant`

const requestQuery = `SELECT ` + requestColumns +
	` FROM requests w JOIN turns t ON t.id = w.turn JOIN sessions s ON s.id = w.session WHERE `

func (x *request) scan(scan func(...any) error) error {
	var expires, asked, ruled int64
	var r turn.Decision
	w := &x.rec
	err := scan(&x.row, &w.Session, &w.Turn, &w.ID, &w.Kind, &w.Step, &w.Tool, &x.arguments.inline, &x.arguments.blob,
		&w.ArgumentsHash, &x.size,
		&w.Risk, &w.Why, &w.Question, &expires, &asked, &r.Status, &r.Allowed, &r.ArgumentsHash, &r.By, &r.Reason, &r.Grant,
		&ruled,
		&w.Call, &x.elicitation.inline, &x.elicitation.blob, &x.response.inline, &x.response.blob, &w.MaxGrant)
	w.ExpiresAt, w.AskedAt = instant(expires), instant(asked)
	if r.Status != "" {
		r.ID, r.At = w.ID, instant(ruled)
		w.Decision = &r
	}
	return err
}

// request returns a turn's request, or sql.ErrNoRows.
func (q querier) request(turnN int64, id string) (x request, err error) {
	if err = x.scan(q.row(requestQuery+`w.turn = ? AND w.request_id = ?`, turnN, id).Scan); err != nil {
		return x, err
	}
	return x, q.loadRequest(&x)
}

func (q querier) requests(where string, args ...any) (list []request, err error) {
	err = q.each(func(rows Rows) error {
		var x request
		err := x.scan(rows.Scan)
		list = append(list, x)
		return err
	}, requestQuery+where, args...)
	for i := range list {
		if err != nil {
			break
		}
		err = q.loadRequest(&list[i])
	}
	return list, err
}

// loadRequest loads the fields that may be in blobs.
func (q querier) loadRequest(x *request) (err error) {
	if x.rec.Arguments, err = q.get(x.arguments); err != nil {
		return err
	}
	inquiry, err := q.getJSON(x.elicitation)
	if err == nil && inquiry != nil {
		err = json.Unmarshal(inquiry, &x.rec.Elicitation)
	}
	if err != nil || x.rec.Decision == nil {
		return err
	}
	reply, err := q.getJSON(x.response)
	if err == nil && reply != nil {
		err = json.Unmarshal(reply, &x.rec.Decision.Response)
	}
	return err
}

// records returns requests as readers get them. A row has the first turn.WaitArguments bytes of an approval's
// arguments; the transcript has all of them, as a blob named by their hash.
func (q querier) records(list []request) (out []RequestRecord, err error) {
	for _, x := range list {
		x.rec.ArgumentsBytes = x.size
		if int64(len(x.rec.Arguments)) < x.size {
			b, err := q.getBlob(x.rec.ArgumentsHash)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return nil, err
			}
			if err == nil {
				x.rec.Arguments = string(b)
			}
		}
		out = append(out, x.rec)
	}
	return out, nil
}

func (t *tx) insertRequest(session, turnN int64, x *request) (err error) {
	w := x.rec
	if w.Elicitation != nil {
		if x.elicitation, err = t.putJSON(canonical(w.Elicitation)); err != nil {
			return err
		}
	}
	return t.row(`INSERT INTO requests (session, turn, request_id, kind, step, tool, arguments, arguments_blob, arguments_hash, arguments_bytes,
		risk, why, question, expires_at, asked_at, call_id, elicitation, elicitation_blob, max_grant) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		session, turnN, w.ID, string(w.Kind), w.Step, w.Tool, x.arguments.inline, x.arguments.blob, w.ArgumentsHash, x.size,
		string(w.Risk), w.Why, w.Question, nanos(w.ExpiresAt), nanos(w.AskedAt),
		w.Call, x.elicitation.inline, x.elicitation.blob, string(w.MaxGrant)).Scan(&x.row)
}

// decideRequest settles a request.
func (t *tx) decideRequest(x *request, r turn.Decision) (err error) {
	if r.Response != nil {
		if x.response, err = t.putJSON(canonical(r.Response)); err != nil {
			return err
		}
	}
	r.At = instant(nanos(r.At))
	x.rec.Decision = &r
	return t.exec(`UPDATE requests SET status = ?, allowed = ?, decided_hash = ?, decided_by = ?, reason = ?, grant_scope = ?, decided_at = ?,
		response = ?, response_blob = ? WHERE id = ?`,
		string(r.Status), r.Allowed, r.ArgumentsHash, r.By, r.Reason, string(r.Grant), nanos(r.At), x.response.inline,
		x.response.blob, x.row)
}

// emitRequest tells followers about a request or, if it has a decision, about the decision.
func (t *tx) emitRequest(sc *scope, x request, at time.Time) error {
	kinds := map[turn.RequestKind][2]turn.ChunkKind{
		turn.RequestApproval:    {turn.ChunkApprovalRequested, turn.ChunkApprovalDecided},
		turn.RequestQuestion:    {turn.ChunkQuestionAsked, turn.ChunkQuestionAnswered},
		turn.RequestElicitation: {turn.ChunkQuestionAsked, turn.ChunkQuestionAnswered},
	}[x.rec.Kind]
	c := turn.Chunk{Kind: kinds[0], Step: x.rec.Step, At: at}
	if x.rec.Decision != nil {
		c.Kind = kinds[1]
	}
	return t.emitData(sc, c, turn.RequestChunk{Request: x.rec.Request, ArgumentsBytes: x.size, Decision: x.rec.Decision})
}

// Requests returns a turn's requests in the order in which they were made.
func (s *DB) Requests(ctx context.Context, turnID string) (out []RequestRecord, err error) {
	err = s.read(ctx, "listing the waits of turn "+turnID, func(q querier) error {
		sc, err := q.namedScope(turnID)
		if err != nil {
			return err
		}
		list, err := q.requests(`w.turn = ? ORDER BY w.id`, sc.turn)
		if err != nil {
			return err
		}
		out, err = q.records(list)
		return err
	})
	return out, err
}

// PendingRequests returns the open requests of turns that have not ended, the oldest first: those of one session, or of
// all the tenant's sessions if session is empty.
func (s *DB) PendingRequests(ctx context.Context, session string, limit int) ([]RequestRecord, error) {
	if session == "" {
		return s.pending(ctx, `w.status = '' AND s.tenant = ? ORDER BY w.id LIMIT ?`, s.tenant, limit)
	}
	return s.pending(ctx,
		`w.session = (SELECT id FROM sessions WHERE tenant = ? AND session_id = ?) AND w.status = '' ORDER BY w.id LIMIT ?`,
		s.tenant, session, limit)
}

func (s *DB) pending(ctx context.Context, where string, args ...any) (out []RequestRecord, err error) {
	err = s.read(ctx, "listing what is waited for", func(q querier) error {
		list, err := q.requests(where, args...)
		if err != nil {
			return err
		}
		out, err = q.records(list)
		return err
	})
	return out, err
}

// Delivered returns the turn that took this message of the session, even if the message was merged into it.
// ErrNotFound.
func (s *DB) Delivered(ctx context.Context, session, messageID string) (out TurnRecord, err error) {
	err = s.read(ctx, fmt.Sprintf("looking for message %q of %q", messageID, session), func(q querier) error {
		n, err := q.sessionRow(session)
		if err != nil {
			return err
		}
		turnN, err := q.turnOfMessage(n, messageID)
		if err != nil {
			return err
		}
		out, err = q.turnRecord(`t.id = ?`, turnN)
		return err
	})
	return out, err
}
