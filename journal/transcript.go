package journal

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

// textPlain is the media type of texts.
const textPlain = "text/plain; charset=utf-8"

// scope is the turn that a transaction reads or writes, with its session. AppendMessage moves Head, and
// a trigger writes it to the session's row.
type scope struct {
	TurnID     string
	Turn       int64 // the turn's row
	Session    int64 // the session's row
	SessionID  string
	Tenant     string
	MessageSeq int64          // the seq of the message that began the turn
	Closed     bool           // the turn has ended
	Head       turn.Head      // of the session's transcript
	Appended   []turn.Message // the messages that the transaction has appended, as they were stored
}

const scopeColumns = `t.turn_id, t.id, t.session, s.session_id, s.tenant, t.message_seq, t.ended_at IS NOT NULL, s.head_seq, s.head_hash`

// fields returns the destinations for scopeColumns.
func (sc *scope) fields() []any {
	return []any{&sc.TurnID, &sc.Turn, &sc.Session, &sc.SessionID, &sc.Tenant, &sc.MessageSeq, &sc.Closed, &sc.Head.Seq,
		&sc.Head.Hash}
}

// Check returns an error if the turn does not belong to the session with this ID.
func (sc *scope) Check(session string) error {
	if sc.SessionID != session {
		return fmt.Errorf("turn %s belongs to session %q, not %q", sc.TurnID, sc.SessionID, session)
	}
	return nil
}

// Scope returns the scope of a turn of any tenant. It is for the methods with which a worker records a turn, because
// the worker got the turn's ID from Begin. Methods for readers use NamedScope.
func (q querier) Scope(turnID string) (sc scope, err error) {
	err = q.Row(`SELECT `+scopeColumns+` FROM turns t JOIN sessions s ON s.id = t.session WHERE t.turn_id = ?`,
		turnID).Scan(sc.fields()...)
	if errors.Is(err, sql.ErrNoRows) {
		return sc, fmt.Errorf("turn %s: %w", turnID, ErrNotFound)
	}
	return sc, err
}

// NamedScope returns the scope of a turn of the tenant. The error for a turn of another tenant is the same
// ErrNotFound as for a turn that does not exist.
func (q querier) NamedScope(turnID string) (sc scope, err error) {
	sc, err = q.Scope(turnID)
	if err == nil && sc.Tenant != q.Tenant {
		return scope{}, fmt.Errorf("turn %s: %w", turnID, ErrNotFound)
	}
	return sc, err
}

// AppendMessage appends m to the session's transcript and moves sc.Head. It returns the message as it was stored: with
// clean texts and the turn's ID.
func (t *tx) AppendMessage(sc *scope, m turn.Message) (turn.Message, error) {
	m = cleanMessage(m)
	m.TurnID = sc.TurnID
	text, err := t.Put(m.Text, textPlain)
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
	sc.Head = Next(sc.Head, m)
	sc.Appended = append(sc.Appended, m)
	id := sql.NullString{String: m.ID, Valid: m.ID != ""}
	return m, t.Exec(insertMessage, sc.Session, sc.Head.Seq, sc.Head.Hash, id, string(m.Role), text.Inline, text.Blob,
		calls,
		m.CallID, string(m.Outcome), media, sc.Turn, m.Step)
}

const insertMessage = `INSERT INTO messages
	(session, seq, hash, message_id, role, text, text_blob, tool_calls, call_id, outcome, media, turn, step)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// putCalls returns the column for the tool calls of a message: JSON, or null if there are none. Long arguments are
// stored as blobs.
func (t *tx) putCalls(calls []turn.ToolCall) (content, error) {
	if len(calls) == 0 {
		return content{}, nil
	}
	list := make([]turn.ToolCall, len(calls))
	for i, c := range calls {
		arguments, err := t.Put(c.Arguments, textPlain)
		if err != nil {
			return content{}, err
		}
		c.Arguments, c.ArgumentsHash = arguments.Inline.String, arguments.Blob.String
		list[i] = c
	}
	b, err := json.Marshal(list)
	return contentOf(string(b)), err
}

// GetCalls returns the tool calls of a message from their column, with their whole arguments.
func (q querier) GetCalls(column content) ([]turn.ToolCall, error) {
	room := unbounded
	return q.getCallsWithin(column, &room)
}

// getCallsWithin is GetCalls with a bound for the arguments that are blobs: see GetBlobWithin for room.
func (q querier) getCallsWithin(column content, room *int64) ([]turn.ToolCall, error) {
	var list []turn.ToolCall
	if !column.Valid {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(column.String), &list); err != nil {
		return nil, fmt.Errorf("reading stored tool calls: %w", err)
	}
	return restoreCalls(list, func(hash string) ([]byte, error) { return q.GetBlobWithin(hash, room) })
}

// Transcript returns a session's messages from..to, its shared past included. If their texts and calls exceed maxBytes,
// it returns a *TooLargeError.
func (q querier) Transcript(session, from, to, maxBytes int64) ([]turn.Message, error) {
	parts, err := q.Segments(session, from, to)
	if err != nil {
		return nil, err
	}
	return q.messagesOf(parts, maxBytes)
}

// messagesOf is Transcript for segments.
func (q querier) messagesOf(parts []segment, maxBytes int64) (out []turn.Message, err error) {
	room := maxBytes
	for _, p := range parts {
		if err != nil {
			break
		}
		var list []turn.Message
		list, err = q.messagesWithin(p.Session, p.Low+1, p.High, &room)
		out = append(out, list...)
	}
	var large *TooLargeError
	if errors.As(err, &large) {
		large.Max = maxBytes // messagesWithin knows only the room that was left
	}
	return out, err
}

// Messages returns a session's messages from..to, of the session's own rows only: see Transcript.
func (q querier) Messages(session, from, to int64) ([]turn.Message, error) {
	room := unbounded
	return q.messagesWithin(session, from, to, &room)
}

// messagesWithin is Messages with a bound: it subtracts the sizes of the texts and calls from room, and returns a
// *TooLargeError with the first message that exceeds it. It reads the texts, also those that are blobs, with the
// rows. Arguments that are blobs are read afterwards, because a connection runs one query at a time.
func (q querier) messagesWithin(session, from, to int64, room *int64) ([]turn.Message, error) {
	var out []turn.Message
	var calls []content
	err := q.Each(func(rows Rows) error {
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

// scanMessage returns the message of a row of messagesWithin without its calls, the column of the calls, and the size
// of the text in bytes. Text is empty if the query left out a blob because of its size.
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

// restoreCalls returns the calls of the column tool_calls with their arguments. blob loads a blob, which has the
// arguments of a call with ArgumentsHash.
func restoreCalls(list []turn.ToolCall, blob func(hash string) ([]byte, error)) ([]turn.ToolCall, error) {
	for i, c := range list {
		if c.ArgumentsHash == "" {
			continue
		}
		b, err := blob(c.ArgumentsHash)
		if err != nil {
			return nil, fmt.Errorf("arguments of call %s: %w", c.ID, err)
		}
		list[i].Arguments, list[i].ArgumentsHash = string(b), ""
	}
	return list, nil
}

// addItems sets the provider items of the assistant messages of segments from the ledger of inferences, and returns the
// size of the prompt of the last of them. In each segment, it reads the newest completions first. Once those that are
// blobs exceed maxBytes together, the older messages of the segment get no items, nor do messages of later segments
// whose completions are blobs: a model can do without items.
func (q querier) addItems(parts []segment, maxBytes int64, messages []turn.Message) (last PromptSize, err error) {
	room := maxBytes
	for _, p := range parts {
		if err := q.addItemsOfSegment(p, &room, messages, parts[0].Low+1, &last); err != nil {
			return last, err
		}
	}
	return last, nil
}

// addItemsOfSegment is addItems for the messages of one segment. messages[0] is the message from. It subtracts the
// sizes of the completions that are blobs from room.
func (q querier) addItemsOfSegment(p segment, room *int64, messages []turn.Message, from int64, last *PromptSize) error {
	type completion struct {
		seq  int64
		size PromptSize
		stored
	}
	completions, err := collect(q, func(scan scanner) (c completion, err error) {
		err = scan(&c.seq, &c.size.Turn, &c.size.Provider, &c.size.Model, &c.size.Tokens, &c.size.UpTo, &c.Inline, &c.Blob)
		return c, err
	}, `SELECT m.seq, t.turn_id, i.provider, i.model, CASE WHEN i.estimated THEN 0 ELSE i.input_tokens END, i.base_seq,
			i.completion, i.completion_blob
		FROM messages m JOIN inferences i ON i.turn = m.turn AND i.step = m.step JOIN turns t ON t.id = i.turn
		WHERE m.session = ? AND m.seq BETWEEN ? AND ? AND m.role = ? AND i.settled_at IS NOT NULL ORDER BY m.seq DESC`,
		p.Session, p.Low+1, p.High, string(turn.RoleAssistant))
	if err != nil {
		return err
	}
	if len(completions) > 0 {
		*last = completions[0].size
	}
	for _, s := range completions {
		text := []byte(s.Inline.String)
		if s.Blob.Valid {
			text, err = q.GetBlobWithin(s.Blob.String, room)
			if large := (*TooLargeError)(nil); errors.As(err, &large) {
				return nil // the remaining messages of the segment are older
			}
		}
		var c struct {
			Items *turn.ProviderItems `json:"items"`
		}
		if err == nil {
			err = json.Unmarshal(text, &c)
		}
		if err != nil {
			return fmt.Errorf("reading the completion of message %d: %w", s.seq, err)
		}
		if at := s.seq - from; at >= 0 && at < int64(len(messages)) {
			messages[at].Items = c.Items
		}
	}
	return nil
}
