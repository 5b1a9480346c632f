package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
		&w.Risk, into(&w.Why), into(&w.Question), &expires, &asked, &r.Status, &r.Allowed, &r.ArgumentsHash, &r.By,
		into(&r.Reason), &r.Grant,
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
	list, err = collect(q, func(scan scanner) (x request, err error) {
		err = x.scan(scan)
		return x, err
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

// records returns the requests that the condition where selects, as readers get them. A row has the first
// turn.WaitArguments bytes of an approval's
// arguments; the transcript has all of them, as a blob named by their hash.
func (q querier) records(where string, args ...any) (out []RequestRecord, err error) {
	list, err := q.requests(where, args...)
	if err != nil {
		return nil, err
	}
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
		string(w.Risk), contentOf(w.Why), contentOf(w.Question), nanos(w.ExpiresAt), nanos(w.AskedAt),
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
		string(r.Status), r.Allowed, r.ArgumentsHash, r.By, contentOf(r.Reason), string(r.Grant), nanos(r.At),
		x.response.inline,
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
func (s *DB) Requests(ctx context.Context, turnID string) ([]RequestRecord, error) {
	return getOfNamedTurn(ctx, s, turnID, "listing the requests", func(q querier, sc scope) ([]RequestRecord, error) {
		return q.records(`w.turn = ? ORDER BY w.id`, sc.turn)
	})
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

func (s *DB) pending(ctx context.Context, where string, args ...any) ([]RequestRecord, error) {
	return get(ctx, s, "listing the open requests",
		func(q querier) ([]RequestRecord, error) { return q.records(where, args...) })
}

// OpenRequests returns the number of open requests of all tenants, by kind.
func (s *DB) OpenRequests(ctx context.Context) (map[turn.RequestKind]int64, error) {
	return get(ctx, s, "counting the open requests", func(q querier) (map[turn.RequestKind]int64, error) {
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

// Delivered returns the turn that took this message of the session, even if the message was merged into it.
// ErrNotFound.
func (s *DB) Delivered(ctx context.Context, session, messageID string) (TurnRecord, error) {
	return getOfSession(ctx, s, session, fmt.Sprintf("looking for message %q", messageID),
		func(q querier, n int64) (out TurnRecord, err error) {
			turnN, err := q.turnOfMessage(n, messageID)
			if err != nil {
				return out, err
			}
			return q.turnRecord(`t.id = ?`, turnN)
		})
}

// CleanRequest returns w as stores keep it: see clean. Texts that are shown to users are bounded. Only a request of
// kind elicitation keeps an elicitation.
func CleanRequest(w turn.Request) turn.Request {
	if w.Kind != turn.RequestApproval || !slices.Contains([]turn.GrantScope{turn.GrantCall, turn.GrantNever}, w.MaxGrant) {
		w.MaxGrant = ""
	}
	w.Arguments, w.Tool, w.ArgumentsHash = CleanText(w.Arguments), CleanText(w.Tool), CleanText(w.ArgumentsHash)
	w.Why = Preview(CleanText(w.Why), PreviewBytes)
	w.Question = Preview(CleanText(w.Question), SummaryBytes)
	if w.Kind != turn.RequestElicitation || w.Elicitation == nil {
		w.Elicitation, w.Call = nil, ""
		return w
	}
	w.Call = CleanText(w.Call)
	w.Elicitation = &turn.Elicitation{
		Key: CleanText(w.Elicitation.Key), Message: Preview(CleanText(w.Elicitation.Message), SummaryBytes),
		Schema: compact(w.Elicitation.Schema), URL: CleanText(w.Elicitation.URL),
	}
	return w
}

// compact returns JSON without insignificant spaces, and raw unchanged if it is not JSON. Empty JSON becomes nil.
func compact(raw json.RawMessage) json.RawMessage {
	text := CleanText(string(raw))
	if text == "" {
		return nil
	}
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return json.RawMessage(text)
	}
	return b.Bytes()
}

// checkRequest refuses a request that cannot be decided. An elicitation is required for its kind, and has at most
// MaxElicitationBytes.
func checkRequest(w turn.Request) error {
	switch w.Kind {
	case turn.RequestApproval, turn.RequestQuestion:
		return nil
	case turn.RequestElicitation:
	default:
		return fmt.Errorf("unknown kind of request %q", w.Kind)
	}
	if w.Elicitation == nil || w.Call == "" {
		return errors.New("a request of kind elicitation needs an elicitation and a call")
	}
	q := w.Elicitation
	if len(q.Schema) > 0 && !json.Valid(q.Schema) {
		return errors.New("the elicitation's schema is not JSON")
	}
	if n := len(q.Key) + len(q.Message) + len(q.Schema) + len(q.URL); n > MaxElicitationBytes {
		return fmt.Errorf("the elicitation is %d bytes; the maximum is %d", n, MaxElicitationBytes)
	}
	return nil
}

// CheckDecision returns r as stores keep it, or an error if r does not settle w: see turn.Request.Settle. A call is
// allowed only with the arguments that were shown (ErrUnapproved).
func CheckDecision(w turn.Request, r turn.Decision) (turn.Decision, error) {
	r.By, r.Reason = Preview(CleanText(r.By), PreviewBytes), Preview(CleanText(r.Reason), SummaryBytes)
	r.ArgumentsHash = CleanText(r.ArgumentsHash)
	if r.Response != nil {
		response := *r.Response
		response.Key = CleanText(response.Key)
		r.Response = &response
	}
	r, refused := w.Settle(r)
	switch {
	case refused != nil && r.Allowed && r.ArgumentsHash != w.ArgumentsHash:
		return r, fmt.Errorf("%w: %w", ErrUnapproved, refused)
	case refused != nil:
		return r, refused
	case r.Response != nil:
		r.Response.Content = compact(r.Response.Content)
	}
	return r, nil
}
