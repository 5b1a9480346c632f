package portable

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

func (im *importer) importTurn(t ExportTurn) error {
	if t.MessageSeq <= im.forkSeq {
		im.turns[t.ID] = 0
		return nil
	}
	var other, tenant string
	err := im.Row(`SELECT s.session_id, s.tenant FROM turns t JOIN sessions s ON s.id = t.session WHERE t.turn_id = ?`,
		t.ID).Scan(&other, &tenant)
	if err == nil && tenant != im.Querier.Tenant {
		return fmt.Errorf("turn %s is in the journal already: %w", t.ID, record.ErrConflict)
	}
	if err == nil {
		return fmt.Errorf("turn %s is in the journal already, in session %q: %w", t.ID, other, record.ErrConflict)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	usage, err := json.Marshal(t.Usage)
	if err != nil {
		return err
	}
	config, err := im.PutJSON(t.Config)
	if err != nil {
		return err
	}
	var n int64
	err = im.Row(`INSERT INTO turns (turn_id, session, workflow_id, run_id, agent, message_id, message_seq, config,
		config_blob, state, reason, code, message, answer, usage, steps, calls, started_at, ended_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`, t.ID, im.Scope.Session,
		t.WorkflowID, t.RunID, t.Agent, t.MessageID, t.MessageSeq, config.Inline, config.Blob, string(t.State),
		string(t.Reason), string(t.Code), tables.ContentOf(t.Message), tables.ContentOf(t.Answer), string(usage), t.Steps,
		t.Calls,
		tables.Nanos(t.StartedAt),
		sql.NullInt64{Int64: tables.Nanos(t.EndedAt), Valid: t.State.Terminal()}).Scan(&n)
	im.turns[t.ID] = n
	return err
}

func (im *importer) importMessage(x ExportMessage) error {
	if x.Seq <= im.forkSeq {
		return nil
	}
	im.TurnID, im.Turn = x.Message.TurnID, im.turns[x.Message.TurnID]
	_, err := im.AppendMessage(&im.Scope, x.Message)
	if err == nil && im.Head.Hash != x.Hash {
		err = fmt.Errorf("message %d has characters that a journal does not keep", x.Seq)
	}
	return err
}

func (im *importer) importInference(turnN int64, x ExportInference) error {
	a := tables.Attempt{Inf: x.Inference}
	a.Head, a.Inf.Completion.Raw = x.Head, x.Raw
	err := im.Row(`INSERT INTO inferences (turn, step, attempt, released, failures, failed_attempt, failed_code, failed_message,
		emitted, model, expect_seq, base_seq, base_hash, started_at, late_count)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`, turnN, x.Key.Step, x.Attempt, x.Released,
		x.Failures, x.FailedAttempt, string(x.FailedCode), tables.ContentOf(x.FailedMessage), x.Emitted, x.Model, x.ExpectSeq,
		x.Base.Seq,
		x.Base.Hash, tables.Nanos(x.StartedAt), x.Late).Scan(&a.Row)
	if err != nil || !x.Settled {
		return err
	}
	return im.SaveCompletion(a, tables.Nanos(x.SettledAt))
}

func (im *importer) importCall(turnN int64, x ExportCall) error {
	arguments, err := im.Put(x.Call.Arguments, tables.TextPlain)
	if err != nil {
		return err
	}
	var text tables.Stored
	if x.Outcome != "" {
		if text, err = im.Put(x.Text, tables.TextPlain); err != nil {
			return err
		}
	}
	media, err := tables.MediaColumn(x.Media)
	if err != nil {
		return err
	}
	var row int64
	err = im.Row(`INSERT INTO calls (turn, step, call_id, wire_id, tool, arguments, arguments_blob, arguments_hash,
		attempt, claimed_attempt, runs, repeatable, worker, claimed_at, outcome, text, text_blob, full_blob, size,
		settled_attempt, settled_at, duration_ms, late_count, suspended_attempt, media, code)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		turnN, x.Step, x.Call.ID, x.Call.WireID, x.Call.Tool, arguments.Inline, arguments.Blob,
		record.HashOf([]byte(x.Call.Arguments)), x.Attempt, x.ClaimedAttempt, x.Runs, x.Repeatable, x.Worker,
		tables.Nanos(x.ClaimedAt),
		string(x.Outcome), text.Inline, text.Blob, tables.Null(x.FullBlob), x.SizeBytes, x.SettledAttempt,
		sql.NullInt64{Int64: tables.Nanos(x.SettledAt), Valid: x.Outcome != ""}, x.DurationMS, x.LateCount, x.Suspended,
		media,
		string(record.CleanCode(x.Outcome, x.Code))).Scan(&row)
	if err != nil {
		return err
	}
	return im.importArtifacts(row, x.FullBlob, x.Media, false)
}

func (im *importer) importLateResult(turnN int64, x record.LateResult) error {
	var row int64
	err := im.Row(`SELECT id FROM calls WHERE turn = ? AND call_id = ?`, turnN, x.CallID).Scan(&row)
	if err != nil {
		return fmt.Errorf("a late result of call %q: %w", x.CallID, err)
	}
	text, err := im.Put(x.Text, tables.TextPlain)
	if err != nil {
		return err
	}
	media, err := tables.MediaColumn(x.Media)
	if err != nil {
		return err
	}
	var notify sql.NullInt64
	if x.NotifyModel {
		notify = tables.NumberOrNull(im.Scope.Session)
	}
	r := turn.ToolResult{Outcome: x.Outcome, Text: x.Text, SizeBytes: x.SizeBytes}
	err = im.InsertLateResult(row, x.Attempt, r, text, tables.Null(x.FullBlob), media, notify, x.At)
	if tables.IgnoreNoRows(err) != nil {
		return err
	}
	return im.importArtifacts(row, x.FullBlob, x.Media, true)
}

// importRequest inserts a request of the export, and its decision if it has one.
func (im *importer) importRequest(turnN int64, r record.RequestRecord) (err error) {
	r.Request = record.CleanRequest(r.Request)
	row := tables.Request{Rec: r, Size: r.ArgumentsBytes}
	if row.Arguments, err = im.Put(r.Arguments, tables.TextPlain); err != nil {
		return err
	}
	if err := im.InsertRequest(im.Scope.Session, turnN, &row); err != nil || r.Decision == nil {
		return err
	}
	return im.DecideRequest(&row, *r.Decision)
}

func (im *importer) importEvent(turnN int64, e turn.Event) error {
	return im.Exec(`INSERT INTO events (turn, idx, step, attempt, kind, at, text, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		turnN, e.Index, e.Step, e.Attempt, string(e.Kind), tables.Nanos(e.At), tables.ContentOf(record.CleanText(e.Text)),
		tables.ContentOrNull(record.CleanText(string(e.Data))))
}

// importArtifacts records the content that a call has left.
func (im *importer) importArtifacts(call int64, full string, media []turn.Media, late bool) error {
	if full != "" {
		err := im.Exec(`INSERT INTO artifacts (session, hash, call, media_type, late) SELECT ?, hash, ?, media_type, ?
			FROM blobs WHERE hash = ? ON CONFLICT DO NOTHING`,
			im.Scope.Session, call, late, full)
		if err != nil {
			return err
		}
	}
	for _, m := range media {
		if err := im.NoteArtifact(im.Scope.Session, call, m.Hash, m.Type, late); err != nil {
			return err
		}
	}
	return nil
}

// droppedPermissions returns the export's grants, and the approvals that its running turn waits for or has not used.
func (im *importer) droppedPermissions() (out []DroppedPermission, err error) {
	const ofSession = `w.turn IN (SELECT id FROM turns WHERE session = ?)`
	for _, g := range im.grants {
		w := DroppedPermission{Tool: g.Tool, Scope: turn.GrantTool, ArgumentsHash: g.ArgumentsHash, By: g.By, At: g.At}
		if g.ArgumentsHash != "" {
			w.Scope = turn.GrantCall
			const shownAs = ofSession + ` AND w.tool = ? AND w.arguments_hash = ? ORDER BY w.id LIMIT 1`
			shown, err := im.Requests(shownAs, im.Scope.Session, g.Tool, g.ArgumentsHash)
			if err != nil {
				return nil, err
			}
			for _, row := range shown {
				w.Arguments, w.ArgumentsBytes = row.Rec.Arguments, row.Size
			}
		}
		out = append(out, w)
	}
	open, err := im.Requests(ofSession+` AND t.ended_at IS NULL AND w.kind = ? AND (w.status = '' OR w.allowed)
		AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.turn = w.turn AND c.call_id = w.request_id AND c.outcome <> '') ORDER BY w.id`,
		im.Scope.Session, string(turn.RequestApproval))
	for _, row := range open {
		w := DroppedPermission{
			Tool: row.Rec.Tool, Scope: ScopeOnce, Arguments: row.Rec.Arguments, ArgumentsBytes: row.Size,
			ArgumentsHash: row.Rec.ArgumentsHash, At: row.Rec.AskedAt,
		}
		if r := row.Rec.Decision; r != nil {
			w.By, w.At = r.By, r.At
		}
		out = append(out, w)
	}
	return out, err
}
