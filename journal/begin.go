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

// Begin opens a turn. In one transaction it closes the session's unfinished turn, appends the message, records the turn
// config, and emits turn_started, and skills_selected if in.Skills is set. If the turn has begun before, another turn
// took the message, or the message may not begin a turn now, Begin opens none and BeginResult says why.
func (db *DB) Begin(ctx context.Context, in turn.BeginInput) (out BeginResult, err error) {
	in, err = checkBegin(in)
	if err != nil {
		return out, fmt.Errorf("beginning a turn: %w", err)
	}
	err = db.Tenant(in.Tenant).write(ctx, "beginning turn "+in.Turn, func(t *tx) (err error) {
		if err = t.LockSession(in.Session); err == nil {
			out, err = t.begin(in)
		}
		return err
	})
	return out, err
}

// checkBegin returns in with clean texts and a message ID, or an error if an ID, the tenant or the config is not
// valid. A message without an ID gets one that derives from the turn's ID, so that a repeated Begin finds the message
// again.
func checkBegin(in turn.BeginInput) (turn.BeginInput, error) {
	in.Message.ID, in.Message.Text = CleanText(in.Message.ID), CleanText(in.Message.Text)
	if in.Message.ID == "" {
		in.Message.ID = "turn:" + in.Turn
	}
	if len(in.Config) > 0 && !json.Valid(in.Config) {
		return in, errors.New("the turn config is not JSON")
	}
	return in, errors.Join(checkID("session", in.Session), checkTenant(in.Tenant),
		checkID("turn", in.Turn), checkID("message", in.Message.ID))
}

// begin is the transaction of Begin. The caller has validated the input and locked the session. The order of the checks
// matters: a repeated Begin must find its own turn before its message counts as a duplicate, and nothing is closed or
// appended until every check has passed.
func (t *tx) begin(in turn.BeginInput) (BeginResult, error) {
	begun, err := t.TurnRecord(`t.turn_id = ?`, in.Turn)
	if err == nil {
		return t.resume(begun, in)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return BeginResult{}, err
	}
	sc, err := t.sessionScope(in)
	if err != nil {
		return BeginResult{}, err
	}
	if _, answers := turn.AnsweringSubagent(in.Message.ID); sc.Session == 0 && !answers { // it has no messages or turns
		return t.openTurn(&sc, in, subagentRow{})
	}
	takenBy, seq, err := t.FindMessage(sc.Session, in.Message.ID)
	if err == nil {
		return t.duplicate(sc, takenBy, seq, in.Message)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return BeginResult{}, err
	}
	// Messages that the session's previous turn left come first, unless in.OutOfOrder is set.
	earlier, later, err := t.leftMessages(sc.Session, afterLastTurn, in.Message.ID)
	if err != nil || len(earlier) > 0 && !in.OutOfOrder {
		return BeginResult{Earlier: earlier}, err
	}
	subagent, err := answeringSubagent(t.querier, sc, in.Message.ID)
	if err != nil {
		return BeginResult{}, err
	}
	isAnswer := subagent.Call != 0
	// See BeginResult.Kept.
	if isAnswer && (in.NothingLeft || subagent.State == subagentStopped) {
		return BeginResult{Kept: true}, t.KeepAnswer(subagent)
	}
	closed, err := t.closeUnfinished(&sc, closedMessage, in.At)
	if err != nil {
		return BeginResult{}, err
	}
	out, err := t.openTurn(&sc, in, subagent)
	out.Closed, out.Later = closed, later
	return out, err
}

// duplicate returns the result of Begin for a message whose ID the session already has. takenBy is the row of the turn
// that took the ID first, and seq the position of that message in the transcript.
func (t *tx) duplicate(sc scope, takenBy, seq int64, m turn.UserMessage) (out BeginResult, err error) {
	first, err := t.TurnRecord(`t.id = ?`, takenBy)
	if err != nil {
		return out, err
	}
	out.DuplicateOf = &first
	text, err := t.loadText(m)
	if err != nil {
		return out, err
	}
	messages, err := t.Transcript(sc.Session, seq, seq, unbounded)
	out.TextDiffers = len(messages) == 1 && messages[0].Text != text
	return out, err
}

// loadText returns the text of a message: m.Text, or the content of m.Blob if it is set. A missing or too large blob is
// an error.
func (t *tx) loadText(m turn.UserMessage) (string, error) {
	if m.Blob == "" {
		return m.Text, nil
	}
	room := int64(MaxMessageBytes)
	b, err := t.GetBlobWithin(m.Blob, &room)
	if err != nil {
		return "", fmt.Errorf("the message's text: %w", err)
	}
	return CleanText(string(b)), nil
}

// resume returns the result of Begin for a turn that an earlier Begin of the same workflow chain has opened. begun is
// the turn's record. If the turn still runs, resume records the new run ID. It returns an error if in names another
// session or message than begun, or another tenant (ErrConflict).
func (t *tx) resume(begun TurnRecord, in turn.BeginInput) (out BeginResult, err error) {
	sc, err := t.NamedScope(in.Turn)
	if errors.Is(err, ErrNotFound) { // the turn exists, so it belongs to another tenant
		return out, fmt.Errorf("a turn of another tenant has this ID: %w", ErrConflict)
	}
	if err != nil {
		return out, err
	}
	if begun.Session != in.Session || begun.MessageID != in.Message.ID {
		return out, fmt.Errorf("the turn began in session %q with message %q, not in session %q with message %q",
			begun.Session, begun.MessageID, in.Session, in.Message.ID)
	}
	if !begun.State.Terminal() && begun.RunID != in.RunID {
		begun.RunID = in.RunID
		if err := t.Exec(`UPDATE turns SET run_id = ? WHERE turn_id = ?`, in.RunID, in.Turn); err != nil {
			return out, err
		}
	}
	_, later, err := t.leftMessages(sc.Session, sc.Turn, in.Message.ID)
	if err != nil {
		return out, err
	}
	var config stored
	out = BeginResult{Turn: begun, Resumed: true, Head: turn.Head{Seq: begun.MessageSeq}, Later: later}
	err = t.Row(`SELECT m.hash, t.config, t.config_blob FROM turns t JOIN messages m ON m.session = t.session
		AND m.seq = t.message_seq
		WHERE t.turn_id = ?`, in.Turn).Scan(&out.Head.Hash, &config.Inline, &config.Blob)
	if err != nil {
		return out, err
	}
	out.Config, err = t.GetJSON(config)
	return out, err
}

// sessionScope returns the scope of the session, without a turn. If the session does not exist, its row and head are 0,
// and upsertSession inserts it.
func (t *tx) sessionScope(in turn.BeginInput) (sc scope, err error) {
	sc.SessionID = in.Session
	err = t.Row(`SELECT id, head_seq, head_hash FROM sessions WHERE tenant = ? AND session_id = ?`, t.Tenant, in.Session).
		Scan(&sc.Session, &sc.Head.Seq, &sc.Head.Hash)
	return sc, ignoreNoRows(err)
}

// openTurn inserts the turn, appends its message and emits its first events. It sets the turn's fields of sc and moves
// sc.Head. subagent is the subagent whose answer the message is; the zero value if a user sent the message.
func (t *tx) openTurn(sc *scope, in turn.BeginInput, subagent subagentRow) (out BeginResult, err error) {
	if in.Message.Text, err = t.loadText(in.Message); err != nil {
		return out, err
	}
	if err := t.upsertSession(sc, in); err != nil {
		return out, err
	}
	if err := t.insertTurn(sc, in); err != nil {
		return out, err
	}
	if subagent.Call != 0 { // the turn shares the limits of the user's message that began the root turn
		if err := t.Exec(`UPDATE turns SET root = (SELECT coalesce(c.root, c.id) FROM turns c WHERE c.id = ?)
			WHERE id = ?`, subagent.Turn, sc.Turn); err != nil {
			return out, err
		}
	}
	media, err := t.keptAttachments(in.Message.Media)
	if err != nil {
		return out, err
	}
	out.Message, err = t.AppendMessage(sc, turn.Message{ID: in.Message.ID, Role: turn.RoleUser, Text: in.Message.Text,
		Media: media})
	if err != nil {
		return out, err
	}
	t.Changed[Topic{Session: sc.SessionID, Tenant: t.Tenant}] = true
	events := []turn.Event{
		{Kind: turn.EventTurnStarted, At: in.At,
			Data: mustJSON(turn.StartedEvent{TraceID: turn.TraceID(in.Turn), TraceParent: in.Message.TraceParent,
				FittedSettings: in.Settings})},
		phaseEvent(0, 0, in.At, turn.PhaseEvent{Phase: turn.PhaseStart}),
	}
	if in.Skills != nil {
		events = append(events, turn.Event{Kind: turn.EventSkillsSelected, At: in.At, Data: mustJSON(in.Skills)})
	}
	if err := t.emit(sc, events...); err != nil {
		return out, err
	}
	out.Head, out.Config = sc.Head, in.Config
	out.Turn = TurnRecord{ID: in.Turn, Session: in.Session, WorkflowID: in.WorkflowID, RunID: in.RunID, Agent: in.Agent,
		MessageID: in.Message.ID, MessageSeq: sc.MessageSeq, State: turn.StateRunning, StartedAt: instant(nanos(in.At))}
	return out, nil
}

// upsertSession counts one more turn in the session's row and updates its agent. If the session is new, it inserts the
// row and sets sc.Session. It records the caller of a subagent's session.
func (t *tx) upsertSession(sc *scope, in turn.BeginInput) (err error) {
	if sc.Session != 0 {
		err = t.Exec(`UPDATE sessions SET turns = turns + 1, agent = ?1,
			updated_at = CASE WHEN updated_at < ?2 THEN ?2 ELSE updated_at END WHERE id = ?3`, in.Agent, nanos(in.At), sc.Session)
	} else {
		err = t.Row(`INSERT INTO sessions (session_id, tenant, agent, turns, first_text, created_at, updated_at)
			VALUES (?, ?, ?, 1, ?, ?, ?) RETURNING id`,
			in.Session, t.Tenant, in.Agent, contentOf(turn.Truncate(in.Message.Text, firstTextBytes)), nanos(in.At),
			nanos(in.At)).Scan(&sc.Session)
	}
	if err != nil || in.Caller.IsZero() {
		return err
	}
	return t.recordCaller(sc.Session, in)
}

// recordCaller records that a session is that of a subagent, and taints it if the session of its caller is tainted.
// session is the row of the subagent's session. ErrConflict unless the caller has claimed its call for this session.
func (t *tx) recordCaller(session int64, in turn.BeginInput) error {
	a, err := t.Subagent(in.Caller.Turn, in.Caller.Call)
	if ignoreNoRows(err) != nil {
		return err
	}
	if a.Name != in.Session { // a.Name is empty if there is no such call
		return fmt.Errorf("call %s of turn %s has not started a subagent with session %q: %w", in.Caller.Call,
			in.Caller.Turn, in.Session, ErrConflict)
	}
	if err := t.Exec(`UPDATE sessions SET caller_session = (SELECT p.session_id FROM sessions p WHERE p.id = ?1),
		caller_turn = ?2, caller_call = ?3 WHERE id = ?4`, a.Session, in.Caller.Turn, in.Caller.Call, session); err != nil {
		return err
	}
	return t.Exec(`INSERT INTO taint_sources (session, turn, call_id, tool, at)
		SELECT CAST(?1 AS BIGINT), turn, call_id, tool, at FROM taint_sources WHERE session = ?2
		ON CONFLICT DO NOTHING`, session, a.Session)
}

// insertTurn inserts the row of a running turn and sets the turn's fields in sc. The message that begins the turn is
// appended afterwards, right after the current head.
func (t *tx) insertTurn(sc *scope, in turn.BeginInput) error {
	config, err := t.PutJSON(in.Config)
	if err == nil && len(in.PromptConfig) > 0 {
		_, err = t.PutBlob("application/json", in.PromptConfig)
	}
	if err != nil {
		return err
	}
	sc.TurnID, sc.MessageSeq = in.Turn, sc.Head.Seq+1
	return t.Row(`INSERT INTO turns
		(turn_id, session, workflow_id, run_id, agent, message_id, message_seq, config, config_blob, state, started_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		in.Turn, sc.Session, in.WorkflowID, in.RunID, in.Agent, in.Message.ID, sc.MessageSeq, config.Inline, config.Blob,
		string(turn.StateRunning), nanos(in.At)).Scan(&sc.Turn)
}

// closeUnfinished ends the session's unfinished turn in state closed with the given message, and moves sc.Head past
// the results that this appends. It returns the turn's ID, or "" if the session has no unfinished turn. The turn's
// totals are counted from the ledgers, because its workflow ended without recording any.
func (t *tx) closeUnfinished(sc *scope, message string, at time.Time) (string, error) {
	old := *sc
	err := t.Row(`SELECT turn_id, id, message_seq FROM turns WHERE session = ? AND ended_at IS NULL`, sc.Session).
		Scan(&old.TurnID, &old.Turn, &old.MessageSeq)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	in := turn.FinishInput{Result: turn.Result{State: turn.StateClosed, Reason: turn.FinishTerminated, Message: message},
		At: at}
	if err := t.countTotals(old, &in); err != nil {
		return "", err
	}
	if err := t.endTurn(&old, in); err != nil {
		return "", err
	}
	sc.Head = old.Head
	return old.TurnID, nil
}

// countTotals sets in.Counters: the turn's settled steps, their usage, and the calls that ran.
func (t *tx) countTotals(sc scope, in *turn.FinishInput) error {
	if err := t.Row(`SELECT count(*) FROM calls WHERE turn = ? AND runs > 0`,
		sc.Turn).Scan(&in.Counters.ToolCalls); err != nil {
		return err
	}
	list, err := t.Inferences(sc)
	for _, inf := range list {
		if inf.Settled {
			in.Counters.Step++
			in.Counters.Usage = in.Counters.Usage.Add(inf.Completion.Usage)
		}
	}
	return err
}
