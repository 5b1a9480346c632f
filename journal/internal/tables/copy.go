package tables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/journal/record"
)

// copied are the tables, each after the tables that its rows refer to.
var copied = []string{
	"blobs", "sessions", "turns", "messages", "inferences", "calls", "late_results", "artifacts", "taint_sources",
	"requests",
	"grants", "catalogues", "approved_tools", "config_versions", "events", "fleet_limits",
	"inference_usage", "spending", "compactions", "subagents",
}

// booleans are the columns that SQLite stores as numbers.
var booleans = []string{"pruned", "emitted", "repeatable", "late", "allowed", "unpriced", "estimated",
	"reserved", "background"}

// contents are the columns of content, by table: those that an encrypted journal seals.
var contents = map[string][]string{
	"blobs":        {"bytes"},
	"sessions":     {"first_text"},
	"turns":        {"config", "message", "answer", "left_over"},
	"messages":     {"text", "tool_calls", "media"},
	"inferences":   {"failed_message", "completion"},
	"calls":        {"arguments", "text", "media"},
	"late_results": {"text", "media"},
	"requests":     {"arguments", "why", "question", "elicitation", "reason", "response"},
	"events":       {"text", "data"},
	"compactions":  {"content"},
}

// copyRows is the number of rows of one INSERT, except for blobs and catalogues, whose rows may be large.
const copyRows = 50

// Copy copies everything in from into the empty journal to: see journal.Copy.
func Copy(ctx context.Context, from, to *Handle) (sessions int, err error) {
	err = from.db.Read(ctx, true, func(source Conn) error {
		return to.db.Write(ctx, func(target Conn) error {
			if err := checkEmpty(target); err != nil {
				if target.Again() && errors.Is(err, record.ErrExists) {
					return nil // an earlier run of this transaction found it empty, and was committed
				}
				return err
			}
			for _, table := range copied {
				n, err := copyTable(ctx, from.querier(source), to.querier(target), table)
				if err == nil {
					err = to.db.Renumber(target, table)
				}
				if err != nil {
					return fmt.Errorf("table %s: %w", table, err)
				}
				if table == "sessions" {
					sessions = n
				}
			}
			return nil
		})
	})
	if err != nil {
		return 0, fmt.Errorf("copying a journal: %w", to.db.Explain(err))
	}
	return sessions, nil
}

func checkEmpty(c Conn) error {
	for _, table := range []string{"sessions", "blobs", "catalogues"} {
		var there bool
		if err := c.QueryRow(`SELECT EXISTS (SELECT 1 FROM ` + table + `)`).Scan(&there); err != nil {
			return err
		}
		if there {
			return fmt.Errorf("the journal to copy to is not empty: use a new one: %w", record.ErrExists)
		}
	}
	return nil
}

func copyTable(ctx context.Context, source, target Querier, table string) (n int, err error) {
	rows, err := source.Conn.Query(`SELECT * FROM ` + table + ` ORDER BY 1`)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	insert := inserter{target.Conn, table, columns, nil, 1}
	if table != "blobs" && table != "catalogues" {
		insert.most = copyRows * len(columns)
	}
	for rows.Next() {
		row, err := scanRow(rows, columns)
		if err == nil {
			err = errors.Join(source.sealer.openRow(table, columns, row), target.sealer.sealRow(table, columns, row))
		}
		if err == nil {
			err = errors.Join(ctx.Err(), insert.add(row))
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, errors.Join(rows.Err(), insert.flush())
}

func scanRow(rows Rows, columns []string) ([]any, error) {
	row, into := make([]any, len(columns)), make([]any, len(columns))
	for i, c := range columns {
		into[i] = &row[i]
		if slices.Contains(booleans, c) {
			row[i], into[i] = false, new(bool)
		}
	}
	err := rows.Scan(into...)
	for i := range into {
		if b, ok := into[i].(*bool); ok {
			row[i] = *b
		}
		if content, _ := row[i].([]byte); content == nil && columns[i] == "bytes" {
			row[i] = []byte{} // SQLite's driver returns nil for an empty BLOB
		}
	}
	return row, err
}

// inserter inserts rows, several with each statement.
type inserter struct {
	conn    Conn
	table   string
	columns []string
	values  []any
	most    int // maximum values of one statement
}

func (i *inserter) add(row []any) error {
	i.values = append(i.values, row...)
	if len(i.values) < i.most {
		return nil
	}
	return i.flush()
}

func (i *inserter) flush() error {
	if len(i.values) == 0 {
		return nil
	}
	row := "(" + strings.TrimSuffix(strings.Repeat("?, ", len(i.columns)), ", ") + ")"
	rows := strings.TrimSuffix(strings.Repeat(row+", ", len(i.values)/len(i.columns)), ", ")
	err := i.conn.Exec(`INSERT INTO `+i.table+` (`+strings.Join(i.columns, ", ")+`) VALUES `+rows, i.values...)
	i.values = i.values[:0]
	return err
}

// openRow turns a row as it is stored into the plain row.
func (s *sealer) openRow(table string, columns []string, row []any) (err error) {
	for i, c := range columns {
		switch v := row[i].(type) {
		case string:
			if s == nil {
				continue
			}
			if slices.Contains(contents[table], c) {
				err = errors.Join(err, s.openText(&v))
			} else {
				s.openHash(&v)
			}
			row[i] = v
		case []byte:
			opened, e := s.open(v)
			row[i], err = opened, errors.Join(err, e)
		}
	}
	return err
}

// sealRow reverses openRow.
func (s *sealer) sealRow(table string, columns []string, row []any) (err error) {
	for i, c := range columns {
		var e error
		switch v := row[i].(type) {
		case string:
			if s == nil {
				continue
			}
			if slices.Contains(contents[table], c) {
				row[i], e = s.sealText(v)
			} else {
				row[i], e = s.sealHash(v)
			}
		case []byte:
			row[i], e = s.seal(v)
		}
		err = errors.Join(err, e)
	}
	return err
}
