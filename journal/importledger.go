package journal

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

// importTurn inserts a turn, unless it belongs to the shared past that the journal has already. The error wraps
// ErrConflict if the journal has a turn with this ID, in any tenant.
func (im *importer) importTurn(t ExportTurn) error {
	if t.MessageSeq <= im.forkSeq {
		im.turns[t.ID] = 0
		return nil
	}
	var other, tenant string
	err := im.Row(`SELECT s.session_id, s.tenant FROM turns t JOIN sessions s ON s.id = t.session WHERE t.turn_id = ?`,
		t.ID).Scan(&other, &tenant)
	if err == nil && tenant != im.querier.Tenant { // the error must not name a session of another tenant
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
	config, err := im.PutJSON(t.Config)
	if err != nil {
		return err
	}
	var n int64
	err = im.Row(`INSERT INTO turns (turn_id, session, workflow_id, run_id, agent, message_id, message_seq, config,
		config_blob, state, reason, code, message, answer, usage, steps, calls, started_at, ended_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`, t.ID, im.scope.Session,
		t.WorkflowID, t.RunID, t.Agent, t.MessageID, t.MessageSeq, config.Inline, config.Blob, string(t.State),
		string(t.Reason), string(t.Code), contentOf(t.Message), contentOf(t.Answer), string(usage), t.Steps,
		t.Calls,
		nanos(t.StartedAt),
		sql.NullInt64{Int64: nanos(t.EndedAt), Valid: t.State.Terminal()}).Scan(&n)
	im.turns[t.ID] = n
	return err
}

// importMessage appends a message, unless it belongs to the shared past that the journal has already.
func (im *importer) importMessage(x ExportMessage) error {
	if x.Seq <= im.forkSeq {
		return nil
	}
	im.TurnID, im.Turn = x.Message.TurnID, im.turns[x.Message.TurnID]
	_, err := im.AppendMessage(&im.scope, x.Message)
	if err == nil && im.Head.Hash != x.Hash {
		err = fmt.Errorf("message %d has characters that a journal does not keep", x.Seq)
	}
	return err
}

// importInference inserts an inference of a turn, and its completion if it is settled. Its usage is not imported,
// because it is no spending of this journal.
func (im *importer) importInference(turnRow int64, x ExportInference) error {
	var row int64
	err := im.Row(`INSERT INTO inferences (turn, step, attempt, released, failures, failed_attempt, failed_code, failed_message,
		emitted, model, expect_seq, base_seq, base_hash, started_at, late_count)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`, turnRow, x.Key.Step, x.Attempt, x.Released,
		x.Failures, x.FailedAttempt, string(x.FailedCode), contentOf(x.FailedMessage), x.Emitted, x.Model, x.ExpectSeq,
		x.Base.Seq,
		x.Base.Hash, nanos(x.StartedAt), x.Late).Scan(&row)
	if err != nil || !x.Settled {
		return err
	}
	answer := x.Completion
	answer.Raw = x.Raw
	args, err := im.settlement(SettleInference{Answer: answer, At: x.SettledAt}, x.Head, x.Inference.Message, "")
	if err != nil {
		return err
	}
	return im.Exec(settleColumns+` WHERE id = ?19`, append(args, row)...)
}

// importCall inserts a call of a turn and its artifacts.
func (im *importer) importCall(turnRow int64, x CallRecord) error {
	arguments, err := im.Put(x.Call.Arguments, textPlain)
	if err != nil {
		return err
	}
	var text stored
	if x.Outcome != "" {
		if text, err = im.Put(x.Text, textPlain); err != nil {
			return err
		}
	}
	media, err := mediaColumn(x.Media)
	if err != nil {
		return err
	}
	row, err := im.insertWhole(turnRow, x, arguments, text, media)
	if err != nil {
		return err
	}
	return im.importArtifacts(row, x.FullBlob, x.Media, false)
}

// importLateResult inserts a late result of a call, which was imported before, and its artifacts.
func (im *importer) importLateResult(turnRow int64, x LateResult) error {
	var row int64
	err := im.Row(`SELECT id FROM calls WHERE turn = ? AND call_id = ?`, turnRow, x.CallID).Scan(&row)
	if err != nil {
		return fmt.Errorf("a late result of call %q: %w", x.CallID, err)
	}
	text, err := im.Put(x.Text, textPlain)
	if err != nil {
		return err
	}
	media, err := mediaColumn(x.Media)
	if err != nil {
		return err
	}
	var notify sql.NullInt64
	if x.NotifyModel {
		notify = numberOrNull(im.scope.Session)
	}
	r := turn.ToolResult{Outcome: x.Outcome, Text: x.Text, SizeBytes: x.SizeBytes}
	err = im.InsertLateResult(row, x.Attempt, r, text, textOrNull(x.FullBlob), media, notify, x.At)
	if ignoreNoRows(err) != nil {
		return err
	}
	return im.importArtifacts(row, x.FullBlob, x.Media, true)
}

// importRequest inserts a request of a turn, and its decision if it has one.
func (im *importer) importRequest(turnRow int64, r turn.Request) (err error) {
	r = CleanRequest(r)
	row := requestRow{Rec: r}
	if row.Arguments, err = im.Put(r.Arguments, textPlain); err != nil {
		return err
	}
	if err := im.InsertRequest(im.scope.Session, turnRow, &row); err != nil || r.Decision == nil {
		return err
	}
	return im.DecideRequest(&row, *r.Decision)
}

// importEvent inserts an event of a turn under its index in the export.
func (im *importer) importEvent(turnRow int64, e turn.Event) error {
	return im.Exec(`INSERT INTO events (turn, idx, step, attempt, kind, at, text, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		turnRow, e.Index, e.Step, e.Attempt, string(e.Kind), nanos(e.At), contentOf(CleanText(e.Text)),
		contentOrNull(CleanText(string(e.Data))))
}

// importArtifacts records the artifacts of a call, whose blobs were imported before. full is the hash of the whole
// output, or empty; its media type is that of the blob. late means that a late result has them.
func (im *importer) importArtifacts(call int64, full string, media []turn.Media, late bool) error {
	if full != "" {
		err := im.Exec(`INSERT INTO artifacts (session, hash, call, media_type, late) SELECT ?, hash, ?, media_type, ?
			FROM blobs WHERE hash = ? ON CONFLICT DO NOTHING`,
			im.scope.Session, call, late, full)
		if err != nil {
			return err
		}
	}
	for _, m := range media {
		if err := im.NoteArtifact(im.scope.Session, call, m.Hash, m.Type, late); err != nil {
			return err
		}
	}
	return nil
}

// droppedPermissions returns the permissions that the import leaves out: the export's grants, and the approvals of
// calls without an outcome of its running turn, whether they are open or given.
func (im *importer) droppedPermissions() (out []DroppedPermission, err error) {
	const ofSession = `w.turn IN (SELECT id FROM turns WHERE session = ?)`
	for _, g := range im.grants {
		p := DroppedPermission{Tool: g.Tool, Scope: turn.GrantTool, ArgumentsHash: g.ArgumentsHash, By: g.By, At: g.At}
		if g.ArgumentsHash != "" {
			p.Scope = turn.GrantCall
			// The first request with these arguments has them as the user saw them.
			const firstRequest = ofSession + ` AND w.tool = ? AND w.arguments_hash = ? ORDER BY w.id LIMIT 1`
			first, err := im.Requests(firstRequest, im.scope.Session, g.Tool, g.ArgumentsHash)
			if err != nil {
				return nil, err
			}
			for _, row := range first {
				p.Arguments, p.ArgumentsBytes = row.Rec.Arguments, row.Rec.ArgumentsBytes
			}
		}
		out = append(out, p)
	}
	unused, err := im.Requests(ofSession+` AND t.ended_at IS NULL AND w.kind = ? AND (w.status = '' OR w.allowed)
		AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.turn = w.turn AND c.call_id = w.request_id AND c.outcome <> '') ORDER BY w.id`,
		im.scope.Session, string(turn.RequestApproval))
	for _, row := range unused {
		p := DroppedPermission{
			Tool: row.Rec.Tool, Scope: ScopeOnce, Arguments: row.Rec.Arguments, ArgumentsBytes: row.Rec.ArgumentsBytes,
			ArgumentsHash: row.Rec.ArgumentsHash, At: row.Rec.AskedAt,
		}
		if decision := row.Rec.Decision; decision != nil {
			p.By, p.At = decision.By, decision.At
		}
		out = append(out, p)
	}
	return out, err
}

// importCompaction inserts a compaction, unless it belongs to the shared past that the journal has already. It returns
// an error if the compaction's hashes are not those of the messages, which were imported before.
func (im *importer) importCompaction(x ExportCompaction) error {
	turnRow := im.turns[x.Turn]
	if turnRow == 0 && (x.Turn != "" || x.At.Seq <= im.forkSeq) {
		return nil
	}
	for _, h := range []turn.Head{x.At, {Seq: x.To, Hash: x.Hash}} { // 0 has neither a message nor a hash
		p, err := im.Point(im.scope.Session, h.Seq)
		if ignoreNoRows(err) != nil {
			return err
		}
		if p.Hash != h.Hash {
			return fmt.Errorf("a compaction is of another transcript: message %d has another hash", h.Seq)
		}
	}
	name := fmt.Sprintf("%s/%d/%s", x.Turn, x.Step, x.Reason)
	if x.Turn == "" {
		name = fmt.Sprintf("%d/%s", im.scope.Session, x.Request)
	}
	if err := im.InsertCompaction(im.scope.Session, turnRow, name, &x.Compaction); err != nil {
		return err
	}
	// The usage of imported compactions and inferences does not count as spending in this journal.
	return im.Exec(`UPDATE compactions SET input_tokens = 0, output_tokens = 0, cost = 0 WHERE name = ?`, name)
}
