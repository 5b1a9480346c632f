package portable

import (
	"errors"
	"fmt"
	"strings"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

func (e *exporter) compactions(p part) error {
	names, err := tables.Column[string](e.Querier, `SELECT name FROM compactions WHERE session = ? AND at_seq <= ?
		ORDER BY at_seq, id`, p.Session, p.High)
	return writeAll(e, names, err, func(name string) (l Line, err error) {
		x := &ExportCompaction{}
		if x.Compaction, err = e.NamedCompaction(name); x.Turn == "" {
			_, x.Request, _ = strings.Cut(name, "/")
		}
		return Line{Compaction: x}, err
	})
}

func (c *exportCheck) checkCompaction(x ExportCompaction) error {
	err := errors.Join(badWord("reason", x.Reason), badWord("method", x.Method))
	switch {
	case err != nil:
		return err
	case x.From < 0 || x.From > x.To || x.To > x.At.Seq || x.At.Seq < 1 || x.At.Seq > c.header.Session.Head.Seq:
		return fmt.Errorf("its messages %d to %d of %d do not fit the session", x.From, x.To, x.At.Seq)
	case x.Turn == "":
		return record.CheckID("request", x.Request)
	}
	return c.checkTurnID(x.Turn)
}

// importCompaction inserts a compaction of the session's own messages. The messages are imported before it.
func (im *importer) importCompaction(x ExportCompaction) error {
	n := im.turns[x.Turn]
	if n == 0 && (x.Turn != "" || x.At.Seq <= im.forkSeq) {
		return nil
	}
	for _, h := range []turn.Head{x.At, {Seq: x.To, Hash: x.Hash}} {
		p, err := im.Point(im.Scope.Session, h.Seq)
		if tables.IgnoreNoRows(err) != nil {
			return err
		}
		if p.Hash != h.Hash {
			return fmt.Errorf("a compaction is of another transcript: message %d has another hash", h.Seq)
		}
	}
	name := fmt.Sprintf("%s/%d/%s", x.Turn, x.Step, x.Reason)
	if x.Turn == "" {
		name = fmt.Sprintf("%d/%s", im.Scope.Session, x.Request)
	}
	if err := im.InsertCompaction(im.Scope.Session, n, name, &x.Compaction); err != nil {
		return err
	}
	// What it used is no spending of this journal, as with imported inferences.
	return im.Exec(`UPDATE compactions SET input_tokens = 0, output_tokens = 0, cost = 0 WHERE name = ?`, name)
}
