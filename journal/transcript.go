package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

const textPlain = "text/plain; charset=utf-8"

// scope is the turn that a transaction writes, with its session's head. Appends move the head; saveHead writes it.
type scope struct {
	turnID     string
	turn       int64
	session    int64
	sessionID  string
	tenant     string
	messageSeq int64
	closed     bool
	head       turn.Head
}

const scopeColumns = `t.turn_id, t.id, t.session, s.session_id, s.tenant, t.message_seq, t.ended_at IS NOT NULL, s.head_seq, s.head_hash`

func (sc *scope) fields() []any {
	return []any{&sc.turnID, &sc.turn, &sc.session, &sc.sessionID, &sc.tenant, &sc.messageSeq, &sc.closed, &sc.head.Seq,
		&sc.head.Hash}
}

// check refuses a turn that does not belong to the session that the caller names.
func (sc *scope) check(session string) error {
	if sc.sessionID != session {
		return fmt.Errorf("turn %s belongs to session %q, not %q", sc.turnID, sc.sessionID, session)
	}
	return nil
}

// scope returns a turn of any tenant: it is for the methods of a worker, which name a turn that Begin has returned. The
// other methods use namedScope.
func (q querier) scope(turnID string) (sc scope, err error) {
	err = q.row(`SELECT `+scopeColumns+` FROM turns t JOIN sessions s ON s.id = t.session WHERE t.turn_id = ?`,
		turnID).Scan(sc.fields()...)
	if errors.Is(err, sql.ErrNoRows) {
		return sc, fmt.Errorf("turn %s: %w", turnID, ErrNotFound)
	}
	return sc, err
}

// namedScope is scope for a turn of the tenant.
func (q querier) namedScope(turnID string) (sc scope, err error) {
	sc, err = q.scope(turnID)
	if err == nil && sc.tenant != q.tenant {
		return scope{}, fmt.Errorf("turn %s: %w", turnID, ErrNotFound)
	}
	return sc, err
}

// appendMessage appends m at the session's head.
func (t *tx) appendMessage(sc *scope, m turn.Message) (turn.Message, error) {
	m = clean(m)
	m.TurnID = sc.turnID
	text, err := t.put(m.Text, textPlain)
	if err != nil {
		return m, err
	}
	calls, err := t.putCalls(m.ToolCalls)
	if err != nil {
		return m, err
	}
	media, err := mediaColumn(m.Media)
	if err != nil {
		return m, err
	}
	sc.head = Next(sc.head, m)
	id := sql.NullString{String: m.ID, Valid: m.ID != ""}
	return m, t.exec(insertMessage, sc.session, sc.head.Seq, sc.head.Hash, id, string(m.Role), text.inline, text.blob,
		calls,
		m.CallID, string(m.Outcome), media, sc.turn, m.Step)
}

const insertMessage = `INSERT INTO messages
	(session, seq, hash, message_id, role, text, text_blob, tool_calls, call_id, outcome, media, turn, step)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

func (t *tx) putCalls(calls []turn.ToolCall) (content, error) {
	if len(calls) == 0 {
		return content{}, nil
	}
	list := make([]storedCall, len(calls))
	for i, c := range calls {
		arguments, err := t.put(c.Arguments, textPlain)
		if err != nil {
			return content{}, err
		}
		c.Arguments = arguments.inline.String
		list[i] = storedCall{ToolCall: c, ArgumentsBlob: arguments.blob.String}
	}
	b, err := json.Marshal(list)
	return contentOf(string(b)), err
}

func (q querier) getCalls(column content) ([]turn.ToolCall, error) {
	room := unbounded
	return q.getCallsWithin(column, &room)
}

func (q querier) getCallsWithin(column content, room *int64) ([]turn.ToolCall, error) {
	var list []storedCall
	if !column.Valid {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(column.String), &list); err != nil {
		return nil, fmt.Errorf("reading stored tool calls: %w", err)
	}
	return restoreCalls(list, func(hash string) ([]byte, error) { return q.getBlobWithin(hash, room) })
}

func (t *tx) saveHead(sc scope) error {
	return t.exec(`UPDATE sessions SET head_seq = ?, head_hash = ? WHERE id = ?`, sc.head.Seq, sc.head.Hash, sc.session)
}

// Messages returns the session's messages with from <= seq <= to, in order, with their whole content.
func (s *DB) Messages(ctx context.Context, session string, from, to int64) ([]turn.Message, error) {
	return getOfSession(ctx, s, session, "reading the transcript", func(q querier, n int64) ([]turn.Message, error) {
		return q.transcript(n, from, to, unbounded)
	})
}

// Window returns the messages of the turn's session with from <= seq <= to, in order. It loads no more than maxBytes of
// texts and calls: *TooLargeError. ErrNotFound.
func (s *DB) Window(ctx context.Context, turnID string, from, to, maxBytes int64) ([]turn.Message, error) {
	return getOfTurn(ctx, s, turnID, "reading the transcript", func(q querier, sc scope) ([]turn.Message, error) {
		return q.transcript(sc.session, from, to, maxBytes)
	})
}

// transcript reads a session's messages from..to, of which the first ones may belong to the sessions that it was forked
// from.
func (q querier) transcript(session, from, to, maxBytes int64) (out []turn.Message, err error) {
	parts, err := q.segments(session, from, to)
	room := maxBytes
	for _, p := range parts {
		if err != nil {
			break
		}
		var list []turn.Message
		list, err = q.messagesWithin(p.session, p.low+1, p.high, &room)
		out = append(out, list...)
	}
	var large *TooLargeError
	if errors.As(err, &large) {
		large.Max = maxBytes
	}
	return out, err
}

// messages reads a session's messages from..to from the session's own rows.
func (q querier) messages(session, from, to int64) ([]turn.Message, error) {
	room := unbounded
	return q.messagesWithin(session, from, to, &room)
}

// messagesWithin subtracts the messages' sizes from room. It reads the texts with the rows, and arguments that are
// blobs afterwards, because a connection runs one query at a time.
func (q querier) messagesWithin(session, from, to int64, room *int64) ([]turn.Message, error) {
	var out []turn.Message
	var calls []content
	err := q.each(func(rows Rows) error {
		m, column, size, err := scanMessage(rows, q.sealer)
		if *room -= size + int64(len(column.String)); err == nil && *room < 0 {
			return &TooLargeError{Seq: from + int64(len(out))}
		}
		out, calls = append(out, m), append(calls, column)
		return err
	}, `SELECT coalesce(m.message_id, ''), m.role, m.text, coalesce(b.encoding, ''), coalesce(b.size, 0), CASE WHEN b.size <= ?1 THEN b.bytes END,
		m.tool_calls, m.call_id, m.outcome, m.media, t.turn_id, m.step
		FROM messages m JOIN turns t ON t.id = m.turn LEFT JOIN blobs b ON b.hash = m.text_blob
		WHERE m.session = ?2 AND m.seq BETWEEN ?3 AND ?4 ORDER BY m.seq`, *room, session, from, to)
	if err != nil {
		return nil, err
	}
	for i, column := range calls {
		out[i].ToolCalls, err = q.getCallsWithin(column, room)
		var large *TooLargeError
		if errors.As(err, &large) {
			large.Seq = from + int64(i)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// scanMessage returns a message without its calls, the column of the calls, and the size of the text. The message has
// no text if the query left it out.
func scanMessage(rows Rows, s *sealer) (m turn.Message, calls content, size int64, err error) {
	var text content
	var blob sql.RawBytes
	var encoding string
	var media content
	err = rows.Scan(&m.ID, &m.Role, &text, &encoding, &size, &blob, &calls, &m.CallID, &m.Outcome, &media, &m.TurnID,
		&m.Step)
	if err == nil {
		m.Media, err = readMedia(media)
	}
	m.Text = text.String
	if err != nil || text.Valid || blob == nil {
		return m, calls, size + int64(len(m.Text)), err
	}
	kept, err := s.open(blob)
	if err == nil {
		kept, err = decode(encoding, kept)
	}
	m.Text = string(kept)
	return m, calls, size, err
}
