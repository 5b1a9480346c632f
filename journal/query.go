package journal

import (
	"database/sql"
	"errors"
	"time"
)

// querier is a connection in a transaction, for one tenant. It seals arguments and opens results if the journal is
// encrypted.
type querier struct {
	Conn
	Tenant string
	sealer *sealer
}

func (db *DB) querier(c Conn) querier { return querier{c, db.tenant, db.sealer} }

// Row returns the first row of a query's result.
func (q querier) Row(query string, args ...any) Row {
	args, err := q.sealer.sealArguments(args)
	switch {
	case err != nil:
		return failedRow{err}
	case q.sealer == nil:
		return q.Conn.QueryRow(query, args...)
	}
	return sealedRow{q.Conn.QueryRow(query, args...), q.sealer}
}

// Exec runs a statement without a result: see Conn.Exec.
func (q querier) Exec(query string, args ...any) error {
	args, err := q.sealer.sealArguments(args)
	if err != nil {
		return err
	}
	return q.Conn.Exec(query, args...)
}

// Each calls scan for each row of the query's result, until scan returns an error. scan must not run another query,
// because a connection runs one query at a time.
func (q querier) Each(scan func(Rows) error, query string, args ...any) error {
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

// scanner is the Scan method of Row and Rows.
type scanner = func(into ...any) error

// collect returns the values that scan returns for the rows of a query's result. It returns nil after an error.
func collect[R any](q querier, scan func(scanner) (R, error), query string, args ...any) (list []R, err error) {
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

// column returns the first column of a query's result.
func column[R any](q querier, query string, args ...any) ([]R, error) {
	return collect(q, func(scan scanner) (r R, err error) {
		err = scan(&r)
		return r, err
	}, query, args...)
}

// nanos returns a time as the tables store it: nanoseconds since 1970, 0 for the zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// instant reverses nanos.
func instant(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// textOrNull returns a column that is null if s is empty.
func textOrNull(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// numberOrNull returns a column that is null if n is 0.
func numberOrNull(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: n != 0} }

// failedRow is the Row of a query that did not run: Scan returns Err.
type failedRow struct{ Err error }

func (r failedRow) Scan(...any) error { return r.Err }

// ignoreNoRows returns err, or nil if err is sql.ErrNoRows.
func ignoreNoRows(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}
