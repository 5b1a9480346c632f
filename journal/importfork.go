package journal

import (
	"github.com/everturn/everturn/workflows/turn"
)

// findSharedPast returns the session of this journal, that has the shared past of an exported fork: the
// session that was forked, or any session that has the turn of the fork point. It returns 0 if no session has that past
// or the export is not of a fork.
func (im *importer) findSharedPast(h ExportHeader) (int64, error) {
	if h.Session.Parent == "" || h.ForkHash == "" {
		return 0, nil
	}
	for _, where := range [][2]string{
		{`SELECT id FROM sessions WHERE session_id = ? AND tenant = ?`, h.Session.Parent},
		{`SELECT session FROM turns t JOIN sessions s ON s.id = t.session WHERE t.turn_id = ? AND s.tenant = ?`, h.ForkTurn},
	} {
		var n int64
		err := im.row(where[0], where[1], im.tenant).Scan(&n)
		if ignoreNoRows(err) != nil {
			return 0, err
		}
		p, err := im.point(n, h.Session.ForkSeq)
		if ignoreNoRows(err) != nil {
			return 0, err
		}
		if p.hash == h.ForkHash {
			return n, nil
		}
	}
	return 0, nil
}

// isShared reports whether a line belongs to the past that the journal has already.
func (im *importer) isShared(l Line) bool {
	switch {
	case im.forkSeq == 0:
		return false
	case l.Turn != nil:
		im.shared[l.Turn.ID] = l.Turn.MessageSeq <= im.forkSeq
		return im.shared[l.Turn.ID]
	case l.Message != nil:
		return l.Message.Seq <= im.forkSeq
	case l.Inference != nil:
		return im.shared[l.Inference.Key.Turn]
	case l.Call != nil:
		return im.shared[l.Call.Turn]
	case l.LateResult != nil:
		return im.shared[l.LateResult.Turn]
	case l.Request != nil:
		return im.shared[l.Request.Turn]
	case l.Chunk != nil:
		return im.shared[l.Chunk.Turn]
	}
	return false
}

// collectDropped collects the export's grants, and the approvals that its running turn waits for or has not used.
func (im *importer) collectDropped(q querier) error {
	const ofSession = `w.turn IN (SELECT id FROM turns WHERE session = ?)`
	var out []DroppedPermission
	for _, r := range im.grants {
		w := DroppedPermission{Tool: r.Tool, Scope: turn.GrantTool, ArgumentsHash: r.ArgumentsHash, By: r.By, At: r.At}
		if r.ArgumentsHash != "" {
			w.Scope = turn.GrantCall
			const shownAs = ofSession + ` AND w.tool = ? AND w.arguments_hash = ? ORDER BY w.id LIMIT 1`
			shown, err := q.requests(shownAs, im.session, r.Tool, r.ArgumentsHash)
			if err != nil {
				return err
			}
			for _, x := range shown {
				w.Arguments, w.ArgumentsBytes = x.rec.Arguments, x.size
			}
		}
		out = append(out, w)
	}
	open, err := q.requests(ofSession+` AND t.ended_at IS NULL AND w.kind = ? AND (w.status = '' OR w.allowed)
		AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.turn = w.turn AND c.call_id = w.request_id AND c.outcome <> '') ORDER BY w.id`,
		im.session, string(turn.RequestApproval))
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
	im.dropped = out
	return err
}

// importRequest inserts a request of the export, and its decision if it has one.
func (im *importer) importRequest(e ExportRequest) error {
	e.Request = CleanRequest(e.Request)
	x := request{rec: e.RequestRecord, arguments: column(e.Arguments, e.ArgumentsBlob), size: e.ArgumentsBytes}
	if err := im.insertRequest(im.session, im.turns[e.Turn], &x); err != nil || e.Decision == nil {
		return err
	}
	return im.decideRequest(&x, *e.Decision)
}

func (im *importer) importChunk(c turn.Chunk) error {
	return im.exec(`INSERT INTO chunks (turn, idx, step, attempt, kind, at, text, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		im.turns[c.Turn], c.Index, c.Step, c.Attempt, string(c.Kind), nanos(c.At), c.Text, jsonColumn(c.Data))
}
