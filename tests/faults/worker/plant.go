package main

import (
	"context"
	"database/sql/driver"
	"fmt"
	"regexp"

	"modernc.org/sqlite"
)

var tableName = regexp.MustCompile(`^[a-z_]+$`)

// plant adds a trigger to every connection to the journal that runs right after a row was inserted: in the middle of
// the transaction that inserts it. It is a temporary trigger, which only this process's connections have.
func (k *killer) plant(table string) error {
	if !tableName.MatchString(table) {
		return fmt.Errorf("%q is no table", table)
	}
	const function = "faults_point"
	err := sqlite.RegisterScalarFunction(function, 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		k.hit("insert:" + table)
		return int64(0), nil
	})
	if err != nil {
		return fmt.Errorf("registering the point: %w", err)
	}
	sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, _ string) error {
		// Read-only connections, and the one that creates the tables, refuse it.
		_, _ = conn.ExecContext(context.Background(), fmt.Sprintf(
			`CREATE TEMP TRIGGER faults_point AFTER INSERT ON main.%s BEGIN SELECT %s(); END`, table, function), nil)
		return nil
	})
	return nil
}
