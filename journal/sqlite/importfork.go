package sqlite

import (
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// past returns the session of this journal, and of the export's tenant, that has the past which an exported fork shares, 0 where none has or the
// export is of no fork: the one that was forked, or whichever has the turn of the fork point.
func (im *importer) past(h journal.ExportHeader) (int64, error) {
	if h.Session.Parent == "" {
		return 0, nil
	}
	for _, where := range [][2]string{
		{`SELECT n FROM sessions WHERE id = ? AND tenant = ?`, h.Session.Parent},
		{`SELECT session FROM turns t JOIN sessions s ON s.n = t.session WHERE t.id = ? AND s.tenant = ?`, h.ForkTurn},
	} {
		var n int64
		err := im.row(where[0], where[1], h.Tenant).Scan(&n)
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

// skips reports whether a line is of the past that the journal has.
func (im *importer) skips(l journal.Line) bool {
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
	case l.Late != nil:
		return im.shared[l.Late.Turn]
	case l.Wait != nil:
		return im.shared[l.Wait.Turn]
	case l.Chunk != nil:
		return im.shared[l.Chunk.Turn]
	}
	return false
}

// countTurns counts the turns of a fork that became a session of its own: those of its past are its own now.
func (im *importer) countTurns() error {
	if im.there || im.header.Session.Parent == "" {
		return nil
	}
	return im.exec(`UPDATE sessions SET turns = (SELECT count(*) FROM turns WHERE session = ?1) WHERE n = ?1`, im.session)
}

func (im *importer) wait(e journal.ExportWait) error {
	x := wait{rec: e.WaitRecord, arguments: column(e.Arguments, e.ArgumentsBlob), size: e.ArgumentsBytes}
	if err := im.insertWait(im.session, im.turns[e.Turn], &x); err != nil || e.Ruling == nil {
		return err
	}
	return im.rule(&x, *e.Ruling)
}

// chunk inserts a chunk. A turn whose first one is its end has lost the others.
func (im *importer) chunk(c turn.Chunk) error {
	im.emitted = true
	if !im.chunked[c.Turn] && c.Kind == turn.ChunkTurnCompleted {
		if err := im.exec(`UPDATE turns SET pruned = 1 WHERE n = ?`, im.turns[c.Turn]); err != nil {
			return err
		}
	}
	im.chunked[c.Turn] = true
	return im.exec(`INSERT INTO chunks (turn, idx, step, attempt, kind, at, text, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		im.turns[c.Turn], c.Index, c.Step, c.Attempt, string(c.Kind), nanos(c.At), c.Text, jsonColumn(c.Data))
}
