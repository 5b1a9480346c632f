package portable

import (
	"errors"
	"fmt"
	"strings"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// compactions writes the compactions of a part of the transcript.
func (e *exporter) compactions(p part) error {
	names, err := tables.Column[string](e.Querier, `SELECT name FROM compactions WHERE session = ? AND at_seq <= ?
		ORDER BY at_seq, id`, p.Session, p.High)
	return writeAll(e, names, err, func(name string) (l Line, err error) {
		x := &ExportCompaction{}
		if x.Compaction, err = e.NamedCompaction(name); x.Turn == "" {
			_, x.Request, _ = strings.Cut(name, "/") // the name is "session row/request"
		}
		return Line{Compaction: x}, err
	})
}

// checkCompaction checks the enums, the range of messages and the turn of a compaction. importCompaction checks its
// hashes.
func (c *exportCheck) checkCompaction(x ExportCompaction) error {
	err := errors.Join(checkKnown("reason", x.Reason), checkKnown("method", x.Method))
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

// importCompaction inserts a compaction, unless it belongs to the shared past that the journal has already. It returns
// an error if the compaction's hashes are not those of the messages, which were imported before.
func (im *importer) importCompaction(x ExportCompaction) error {
	turnRow := im.turns[x.Turn]
	if turnRow == 0 && (x.Turn != "" || x.At.Seq <= im.forkSeq) {
		return nil
	}
	for _, h := range []turn.Head{x.At, {Seq: x.To, Hash: x.Hash}} { // 0 has neither a message nor a hash
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
	if err := im.InsertCompaction(im.Scope.Session, turnRow, name, &x.Compaction); err != nil {
		return err
	}
	// The usage of imported compactions and inferences does not count as spending in this journal.
	return im.Exec(`UPDATE compactions SET input_tokens = 0, output_tokens = 0, cost = 0 WHERE name = ?`, name)
}
