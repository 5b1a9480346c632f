package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// firstTextBytes bounds SessionRecord.FirstText.
const firstTextBytes = 120

// Begin opens a turn: it checks whether the message was taken before, closes the session's unfinished turn, appends the
// message, records the turn config and emits turn_started. See turn.BeginInput and BeginResult.
func (s *DB) Begin(ctx context.Context, in turn.BeginInput) (out BeginResult, err error) {
	in, err = checkBegin(in)
	if err != nil {
		return out, fmt.Errorf("beginning a turn: %w", err)
	}
	err = s.Tenant(in.Tenant).write(ctx, "beginning turn "+in.Turn, func(t *tx) (err error) {
		if err = t.lockSession(in.Session); err == nil {
			out, err = t.begin(in)
		}
		return err
	})
	return out, err
}

func checkBegin(in turn.BeginInput) (turn.BeginInput, error) {
	in.Message.ID, in.Message.Text = CleanText(in.Message.ID), CleanText(in.Message.Text)
	if in.Message.ID == "" {
		in.Message.ID = "turn:" + in.Turn
	}
	if len(in.Config) > 0 && !json.Valid(in.Config) {
		return in, errors.New("the turn config is not JSON")
	}
	return in, errors.Join(checkID("session", in.Session), checkTenant(in.Tenant), checkID("turn", in.Turn),
		checkID("message", in.Message.ID))
}

func checkID(what, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%s ID is empty", what)
	case len(id) > MaxIDBytes:
		return fmt.Errorf("%s ID is %d bytes; the maximum is %d", what, len(id), MaxIDBytes)
	case CleanText(id) != id:
		return fmt.Errorf("%s ID %q is not valid UTF-8 without NUL", what, id)
	}
	return nil
}

// checkTenant accepts the IDs that checkID accepts, and the default tenant.
func checkTenant(tenant string) error {
	if tenant == "" {
		return nil
	}
	return checkID("tenant", tenant)
}

func (t *tx) begin(in turn.BeginInput) (BeginResult, error) {
	own, err := t.turnRecord(`t.turn_id = ?`, in.Turn)
	if err == nil {
		return t.resume(own, in)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return BeginResult{}, err
	}
	sc, err := t.sessionScope(in)
	if err != nil {
		return BeginResult{}, err
	}
	taker, err := t.turnOfMessage(sc.session, in.Message.ID)
	if err == nil {
		first, err := t.turnRecord(`t.id = ?`, taker)
		return BeginResult{DuplicateOf: &first}, err
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return BeginResult{}, err
	}
	closed, err := t.closeUnfinished(&sc, closedMessage, in.At)
	if err != nil {
		return BeginResult{}, err
	}
	out, err := t.open(&sc, in)
	out.Closed = closed
	return out, err
}

// resume returns the result of Begin for a chain that has begun the turn before.
func (t *tx) resume(own TurnRecord, in turn.BeginInput) (out BeginResult, err error) {
	if _, err := t.namedScope(in.Turn); errors.Is(err, ErrNotFound) {
		return out, fmt.Errorf("a turn of another tenant has this ID: %w", ErrConflict)
	} else if err != nil {
		return out, err
	}
	if own.Session != in.Session || own.MessageID != in.Message.ID {
		return out, fmt.Errorf("the turn began in session %q with message %q, not in session %q with message %q",
			own.Session, own.MessageID, in.Session, in.Message.ID)
	}
	if !own.State.Terminal() && own.RunID != in.RunID {
		own.RunID = in.RunID
		if err := t.exec(`UPDATE turns SET run_id = ? WHERE turn_id = ?`, in.RunID, in.Turn); err != nil {
			return out, err
		}
	}
	var config stored
	out = BeginResult{Turn: own, Resumed: true, Head: turn.Head{Seq: own.MessageSeq}}
	err = t.row(`SELECT m.hash, t.config, t.config_blob FROM turns t JOIN messages m ON m.session = t.session
		AND m.seq = t.message_seq
		WHERE t.turn_id = ?`, in.Turn).Scan(&out.Head.Hash, &config.inline, &config.blob)
	if err != nil {
		return out, err
	}
	out.Config, err = t.getJSON(config)
	return out, err
}

// sessionScope finds the session, or prepares a new one, which open inserts.
func (t *tx) sessionScope(in turn.BeginInput) (sc scope, err error) {
	sc.sessionID = in.Session
	err = t.row(`SELECT id, head_seq, head_hash FROM sessions WHERE tenant = ? AND session_id = ?`, t.tenant, in.Session).
		Scan(&sc.session, &sc.head.Seq, &sc.head.Hash)
	return sc, ignoreNoRows(err)
}

// open appends the message and opens the turn.
func (t *tx) open(sc *scope, in turn.BeginInput) (out BeginResult, err error) {
	if in.Message.Blob != "" {
		room := int64(MaxMessageBytes)
		b, err := t.getBlobWithin(in.Message.Blob, &room)
		if err != nil {
			return out, fmt.Errorf("the message's text: %w", err)
		}
		in.Message.Text = CleanText(string(b))
	}
	if err := t.touchSession(sc, in); err != nil {
		return out, err
	}
	if err := t.insertTurn(sc, in); err != nil {
		return out, err
	}
	if _, err := t.appendMessage(sc, turn.Message{ID: in.Message.ID, Role: turn.RoleUser,
		Text: in.Message.Text}); err != nil {
		return out, err
	}
	if err := t.saveHead(*sc); err != nil {
		return out, err
	}
	t.changed[Topic{Session: sc.sessionID, Tenant: t.tenant}] = true
	if err := t.emit(sc, turn.Chunk{Kind: turn.ChunkTurnStarted, At: in.At}); err != nil {
		return out, err
	}
	out.Head, out.Config = sc.head, in.Config
	out.Turn, err = t.turnRecord(`t.id = ?`, sc.turn)
	return out, err
}

func (t *tx) touchSession(sc *scope, in turn.BeginInput) error {
	if sc.session != 0 {
		return t.exec(`UPDATE sessions SET turns = turns + 1, agent = ?1,
			updated_at = CASE WHEN updated_at < ?2 THEN ?2 ELSE updated_at END WHERE id = ?3`, in.Agent, nanos(in.At), sc.session)
	}
	return t.row(`INSERT INTO sessions (session_id, tenant, agent, turns, first_text, created_at, updated_at)
		VALUES (?, ?, ?, 1, ?, ?, ?) RETURNING id`,
		in.Session, t.tenant, in.Agent, contentOf(turn.Truncate(in.Message.Text, firstTextBytes)), nanos(in.At),
		nanos(in.At)).Scan(&sc.session)
}

func (t *tx) insertTurn(sc *scope, in turn.BeginInput) error {
	pins, err := t.putJSON(in.Config)
	if err != nil {
		return err
	}
	sc.turnID, sc.messageSeq = in.Turn, sc.head.Seq+1
	return t.row(`INSERT INTO turns
		(turn_id, session, workflow_id, run_id, agent, message_id, message_seq, config, config_blob, state, started_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		in.Turn, sc.session, in.WorkflowID, in.RunID, in.Agent, in.Message.ID, sc.messageSeq, pins.inline, pins.blob,
		string(turn.StateRunning), nanos(in.At)).Scan(&sc.turn)
}

// closeUnfinished closes the session's unfinished turn, if there is one, and returns its ID. It counts the turn's
// totals from the ledgers, because the turn's own workflow has recorded none.
func (t *tx) closeUnfinished(sc *scope, message string, at time.Time) (string, error) {
	old := *sc
	err := t.row(`SELECT turn_id, id, message_seq FROM turns WHERE session = ? AND ended_at IS NULL`, sc.session).
		Scan(&old.turnID, &old.turn, &old.messageSeq)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	in := turn.FinishInput{Result: turn.Result{State: turn.StateClosed, Reason: turn.FinishTerminated, Message: message},
		At: at}
	if err := t.totals(old, &in); err != nil {
		return "", err
	}
	if err := t.endTurn(&old, in); err != nil {
		return "", err
	}
	sc.head = old.head
	return old.turnID, nil
}

// totals counts a turn's settled steps, the calls that ran, and its usage.
func (t *tx) totals(sc scope, in *turn.FinishInput) error {
	if err := t.row(`SELECT count(*) FROM calls WHERE turn = ? AND runs > 0`,
		sc.turn).Scan(&in.Counters.ToolCalls); err != nil {
		return err
	}
	list, err := t.inferences(sc)
	for _, inf := range list {
		if inf.Settled {
			in.Counters.Step++
			in.Counters.Usage = in.Counters.Usage.Add(inf.Completion.Usage)
		}
	}
	return err
}

func (t *tx) putJSON(raw json.RawMessage) (stored, error) {
	if len(raw) == 0 {
		return stored{}, nil
	}
	return t.put(string(raw), "application/json")
}

func (q querier) getJSON(s stored) (json.RawMessage, error) {
	text, err := q.get(s)
	if text == "" {
		return nil, err
	}
	return json.RawMessage(text), err
}
