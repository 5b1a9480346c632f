package tables

import (
	"database/sql"
	"errors"
	"time"
)

// Querier is a connection in a transaction, for one tenant. It seals arguments and opens results if the journal is
// encrypted.
type Querier struct {
	Conn
	Tenant string
	sealer *sealer
}

func (h *Handle) querier(c Conn) Querier { return Querier{c, h.Tenant, h.sealer} }

// Row returns the first row of a query's result.
func (q Querier) Row(query string, args ...any) Row {
	args, err := q.sealer.sealArguments(args)
	switch {
	case err != nil:
		return FailedRow{err}
	case q.sealer == nil:
		return q.Conn.QueryRow(query, args...)
	}
	return sealedRow{q.Conn.QueryRow(query, args...), q.sealer}
}

// Exec runs a statement without a result: see Conn.Exec.
func (q Querier) Exec(query string, args ...any) error {
	args, err := q.sealer.sealArguments(args)
	if err != nil {
		return err
	}
	return q.Conn.Exec(query, args...)
}

// Each calls scan for each row of the query's result, until scan returns an error. scan must not run another query,
// because a connection runs one query at a time.
func (q Querier) Each(scan func(Rows) error, query string, args ...any) error {
	args, err := q.sealer.sealArguments(args)
	if err != nil {
		return err
	}
	rows, err := q.Conn.Query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if q.sealer != nil {
		rows = sealedRows{rows, q.sealer}
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Scanner is the Scan method of Row and Rows.
type Scanner = func(into ...any) error

// Collect returns the values that scan returns for the rows of a query's result. It returns nil after an error.
func Collect[R any](q Querier, scan func(Scanner) (R, error), query string, args ...any) (list []R, err error) {
	err = q.Each(func(rows Rows) error {
		r, err := scan(rows.Scan)
		list = append(list, r)
		return err
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Column returns the first column of a query's result.
func Column[R any](q Querier, query string, args ...any) ([]R, error) {
	return Collect(q, func(scan Scanner) (r R, err error) {
		err = scan(&r)
		return r, err
	}, query, args...)
}

// Nanos returns a time as the tables store it: nanoseconds since 1970, 0 for the zero time.
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Instant reverses Nanos.
func Instant(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// Null returns a column that is null if s is empty.
func Null(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// NumberOrNull returns a column that is null if n is 0.
func NumberOrNull(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: n != 0} }

// FailedRow is the Row of a query that did not run: Scan returns Err.
type FailedRow struct{ Err error }

func (r FailedRow) Scan(...any) error { return r.Err }

// IgnoreNoRows returns err, or nil if err is sql.ErrNoRows.
func IgnoreNoRows(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}
