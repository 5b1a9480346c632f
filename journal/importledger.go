package journal

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

func null(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

func numberOrNull(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: n != 0} }

func (im *importer) importTurn(t ExportTurn) error {
	if t.MessageSeq <= im.forkSeq {
		im.turns[t.ID] = 0
		return nil
	}
	var other, tenant string
	err := im.row(`SELECT s.session_id, s.tenant FROM turns t JOIN sessions s ON s.id = t.session WHERE t.turn_id = ?`,
		t.ID).Scan(&other, &tenant)
	if err == nil && tenant != im.querier.tenant {
		return fmt.Errorf("turn %s is in the journal already: %w", t.ID, ErrConflict)
	}
	if err == nil {
		return fmt.Errorf("turn %s is in the journal already, in session %q: %w", t.ID, other, ErrConflict)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	usage, err := json.Marshal(t.Usage)
	if err != nil {
		return err
	}
	config, err := im.putJSON(t.Config)
	if err != nil {
		return err
	}
	var n int64
	err = im.row(`INSERT INTO turns (turn_id, session, workflow_id, run_id, agent, message_id, message_seq, config,
		config_blob, state, reason, code, message, answer, usage, steps, calls, started_at, ended_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`, t.ID, im.scope.session,
		t.WorkflowID, t.RunID, t.Agent, t.MessageID, t.MessageSeq, config.inline, config.blob, string(t.State),
		string(t.Reason), string(t.Code), contentOf(t.Message), contentOf(t.Answer), string(usage), t.Steps, t.Calls,
		nanos(t.StartedAt),
		sql.NullInt64{Int64: nanos(t.EndedAt), Valid: t.State.Terminal()}).Scan(&n)
	im.turns[t.ID] = n
	return err
}

func (im *importer) importMessage(x ExportMessage) error {
	if x.Seq <= im.forkSeq {
		return nil
	}
	im.turnID, im.turn = x.Message.TurnID, im.turns[x.Message.TurnID]
	_, err := im.appendMessage(&im.scope, x.Message)
	if err == nil && im.head.Hash != x.Hash {
		err = fmt.Errorf("message %d has characters that a journal does not keep", x.Seq)
	}
	return err
}

func (im *importer) importInference(turnN int64, x ExportInference) error {
	a := attempt{inf: x.Inference}
	a.head, a.inf.Completion.Raw = x.Head, x.Raw
	err := im.row(`INSERT INTO inferences (turn, step, attempt, released, failures, failed_attempt, failed_code, failed_message,
		emitted, model, expect_seq, base_seq, base_hash, started_at, late_count)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`, turnN, x.Key.Step, x.Attempt, x.Released,
		x.Failures, x.FailedAttempt, string(x.FailedCode), contentOf(x.FailedMessage), x.Emitted, x.Model, x.ExpectSeq,
		x.Base.Seq,
		x.Base.Hash, nanos(x.StartedAt), x.Late).Scan(&a.row)
	if err != nil || !x.Settled {
		return err
	}
	return im.saveCompletion(a, nanos(x.SettledAt))
}

func (im *importer) importCall(turnN int64, x ExportCall) error {
	arguments, err := im.put(x.Call.Arguments, textPlain)
	if err != nil {
		return err
	}
	var text stored
	if x.Outcome != "" {
		if text, err = im.put(x.Text, textPlain); err != nil {
			return err
		}
	}
	media, err := mediaColumn(x.Media)
	if err != nil {
		return err
	}
	var row int64
	err = im.row(`INSERT INTO calls (turn, step, call_id, wire_id, tool, arguments, arguments_blob, arguments_hash,
		attempt, claimed_attempt, runs, repeatable, worker, claimed_at, outcome, text, text_blob, full_blob, size,
		settled_attempt, settled_at, duration_ms, late_count, suspended_attempt, media, code)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		turnN, x.Step, x.Call.ID, x.Call.WireID, x.Call.Tool, arguments.inline, arguments.blob,
		HashOf([]byte(x.Call.Arguments)), x.Attempt, x.ClaimedAttempt, x.Runs, x.Repeatable, x.Worker, nanos(x.ClaimedAt),
		string(x.Outcome), text.inline, text.blob, null(x.FullBlob), x.SizeBytes, x.SettledAttempt,
		sql.NullInt64{Int64: nanos(x.SettledAt), Valid: x.Outcome != ""}, x.DurationMS, x.LateCount, x.Suspended, media,
		string(cleanCode(x.Outcome, x.Code))).Scan(&row)
	if err != nil {
		return err
	}
	return im.importArtifacts(row, x.FullBlob, x.Media, false)
}

func (im *importer) importLateResult(turnN int64, x ExportLateResult) error {
	var row int64
	err := im.row(`SELECT id FROM calls WHERE turn = ? AND call_id = ?`, turnN, x.CallID).Scan(&row)
	if err != nil {
		return fmt.Errorf("a late result of call %q: %w", x.CallID, err)
	}
	text, err := im.put(x.Text, textPlain)
	if err != nil {
		return err
	}
	media, err := mediaColumn(x.Media)
	if err != nil {
		return err
	}
	var notify sql.NullInt64
	if x.NotifyModel {
		notify = numberOrNull(im.scope.session)
	}
	r := turn.ToolResult{Outcome: x.Outcome, Text: x.Text, SizeBytes: x.SizeBytes}
	err = im.insertLateResult(row, x.Attempt, r, text, null(x.FullBlob), media, notify, x.At)
	if ignoreNoRows(err) != nil {
		return err
	}
	return im.importArtifacts(row, x.FullBlob, x.Media, true)
}

// importRequest inserts a request of the export, and its decision if it has one.
func (im *importer) importRequest(turnN int64, r RequestRecord) (err error) {
	r.Request = CleanRequest(r.Request)
	x := request{rec: r, size: r.ArgumentsBytes}
	if x.arguments, err = im.put(r.Arguments, textPlain); err != nil {
		return err
	}
	if err := im.insertRequest(im.scope.session, turnN, &x); err != nil || r.Decision == nil {
		return err
	}
	return im.decideRequest(&x, *r.Decision)
}

func (im *importer) importChunk(turnN int64, c turn.Chunk) error {
	return im.exec(`INSERT INTO chunks (turn, idx, step, attempt, kind, at, text, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		turnN, c.Index, c.Step, c.Attempt, string(c.Kind), nanos(c.At), contentOf(CleanText(c.Text)),
		contentOrNull(CleanText(string(c.Data))))
}

// importArtifacts records the content that a call has left.
func (im *importer) importArtifacts(call int64, full string, media []turn.Media, late bool) error {
	if full != "" {
		err := im.exec(`INSERT INTO artifacts (session, hash, call, media_type, late) SELECT ?, hash, ?, media_type, ?
			FROM blobs WHERE hash = ? ON CONFLICT DO NOTHING`,
			im.scope.session, call, late, full)
		if err != nil {
			return err
		}
	}
	for _, m := range media {
		if err := im.noteArtifact(im.scope.session, call, m.Hash, m.Type, late); err != nil {
			return err
		}
	}
	return nil
}

// droppedPermissions returns the export's grants, and the approvals that its running turn waits for or has not used.
func (im *importer) droppedPermissions() (out []DroppedPermission, err error) {
	const ofSession = `w.turn IN (SELECT id FROM turns WHERE session = ?)`
	for _, r := range im.grants {
		w := DroppedPermission{Tool: r.Tool, Scope: turn.GrantTool, ArgumentsHash: r.ArgumentsHash, By: r.By, At: r.At}
		if r.ArgumentsHash != "" {
			w.Scope = turn.GrantCall
			const shownAs = ofSession + ` AND w.tool = ? AND w.arguments_hash = ? ORDER BY w.id LIMIT 1`
			shown, err := im.requests(shownAs, im.scope.session, r.Tool, r.ArgumentsHash)
			if err != nil {
				return nil, err
			}
			for _, x := range shown {
				w.Arguments, w.ArgumentsBytes = x.rec.Arguments, x.size
			}
		}
		out = append(out, w)
	}
	open, err := im.requests(ofSession+` AND t.ended_at IS NULL AND w.kind = ? AND (w.status = '' OR w.allowed)
		AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.turn = w.turn AND c.call_id = w.request_id AND c.outcome <> '') ORDER BY w.id`,
		im.scope.session, string(turn.RequestApproval))
	for _, x := range open {
		w := DroppedPermission{
			Tool: x.rec.Tool, Scope: ScopeOnce, Arguments: x.rec.Arguments, ArgumentsBytes: x.size,
			ArgumentsHash: x.rec.ArgumentsHash, At: x.rec.AskedAt,
		}
		if r := x.rec.Decision; r != nil {
			w.By, w.At = r.By, r.At
		}
		out = append(out, w)
	}
	return out, err
}
