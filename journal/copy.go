package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// copiedTables are the tables that Copy copies, in an order in which each comes after the tables that it refers to.
// The table journal is the target's own, and running workers write workers, places and tool_servers again.
var copiedTables = []string{
	"blobs", "sessions", "turns", "messages", "inferences", "calls", "late_results", "artifacts", "taint_sources",
	"requests",
	"grants", "catalogues", "approved_tools", "config_versions", "events", "fleet_limits",
	"inference_usage", "spending", "compactions", "subagents", "tokens", "exchanges", "trees",
}

// booleanColumns are the columns with booleans: SQLite stores them as numbers, Postgres does not.
var booleanColumns = []string{"pruned", "emitted", "repeatable", "late", "allowed", "unpriced", "estimated",
	"reserved", "background"}

// sealedColumns are the columns of content, by table: those that an encrypted journal seals.
var sealedColumns = map[string][]string{
	"blobs":        {"bytes"},
	"sessions":     {"first_text", "taken_back"},
	"turns":        {"config", "message", "answer", "left_over"},
	"messages":     {"text", "tool_calls", "media"},
	"inferences":   {"failed_message", "completion"},
	"calls":        {"arguments", "text", "media"},
	"late_results": {"text", "media"},
	"requests":     {"arguments", "why", "question", "elicitation", "reason", "response"},
	"events":       {"text", "data"},
	"compactions":  {"content"},
	"trees":        {"ignored"},
}

// copyRows is the number of rows that one INSERT copies. Blobs and catalogues are copied one by one, because their rows
// may be large.
const copyRows = 50

// Copy copies the journal from, of all tenants and with grants, open requests, running turns and tokens, into the empty
// journal to, and returns the number of sessions. It reads one snapshot and writes one transaction. No worker may use
// from afterwards, or the two journals would diverge. Each journal keeps its own ID and its own encryption. ErrExists
// if to is not empty.
func Copy(ctx context.Context, from, to *DB) (sessions int, err error) {
	const once = true // a second read would find the target filled
	err = from.db.Read(ctx, once, func(source Conn) error {
		return to.db.Write(ctx, func(target Conn) error {
			if err := checkEmpty(target); err != nil {
				if target.Again() && errors.Is(err, ErrExists) {
					return nil // an earlier run of this transaction filled it: only the reply to its commit was lost
				}
				return err
			}
			for _, table := range copiedTables {
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

// checkEmpty returns an error that wraps ErrExists if the journal has sessions, blobs, catalogues or tokens.
// Fleet limits alone do not count.
func checkEmpty(c Conn) error {
	for _, table := range []string{"sessions", "blobs", "catalogues", "tokens"} {
		var exists bool
		if err := c.QueryRow(`SELECT EXISTS (SELECT 1 FROM ` + table + `)`).Scan(&exists); err != nil {
			return err
		}
		if exists {
			return fmt.Errorf("the journal to copy to is not empty: use a new one: %w", ErrExists)
		}
	}
	return nil
}

// copyTable copies all rows of a table in the order of their first column, and returns their number. It opens what the
// source has sealed, and seals it with the keys of the target.
func copyTable(ctx context.Context, source, target querier, table string) (n int, err error) {
	rows, err := source.Conn.Query(`SELECT * FROM ` + table + ` ORDER BY 1`)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	insert := inserter{conn: target.Conn, table: table, columns: columns, maxValues: len(columns)}
	if table != "blobs" && table != "catalogues" {
		insert.maxValues = copyRows * len(columns)
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

// scanRow returns the current row with values that both databases accept as arguments.
func scanRow(rows Rows, columns []string) ([]any, error) {
	row, into := make([]any, len(columns)), make([]any, len(columns))
	for i, c := range columns {
		into[i] = &row[i]
		if slices.Contains(booleanColumns, c) {
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
	conn      Conn
	table     string
	columns   []string
	values    []any // of the rows that flush inserts next
	maxValues int   // the number of values from which add flushes
}

// add adds a row, and inserts the rows so far if there are enough for a statement.
func (i *inserter) add(row []any) error {
	i.values = append(i.values, row...)
	if len(i.values) < i.maxValues {
		return nil
	}
	return i.flush()
}

// flush inserts the rows that were added and not inserted yet.
func (i *inserter) flush() error {
	if len(i.values) == 0 {
		return nil
	}
	rowParameters := "(" + strings.TrimSuffix(strings.Repeat("?, ", len(i.columns)), ", ") + ")"
	parameters := strings.TrimSuffix(strings.Repeat(rowParameters+", ", len(i.values)/len(i.columns)), ", ")
	err := i.conn.Exec(`INSERT INTO `+i.table+` (`+strings.Join(i.columns, ", ")+`) VALUES `+parameters, i.values...)
	i.values = i.values[:0]
	return err
}

// openRow replaces the sealed values of a row by their plain values. It needs no list of the columns with hashes,
// because openHash changes only sealed hashes. A nil sealer changes nothing.
func (s *sealer) openRow(table string, columns []string, row []any) (err error) {
	for i, c := range columns {
		switch v := row[i].(type) {
		case string:
			if s == nil {
				continue
			}
			if slices.Contains(sealedColumns[table], c) {
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

// sealRow replaces the content and the hashes of a plain row by their sealed values: it reverses openRow.
func (s *sealer) sealRow(table string, columns []string, row []any) (err error) {
	for i, c := range columns {
		var e error
		switch v := row[i].(type) {
		case string:
			if s == nil {
				continue
			}
			if slices.Contains(sealedColumns[table], c) {
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
