package postgres

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/everturn/everturn/journal"
)

// advice is what the operator can do about an error of the server, by its SQLSTATE (see "PostgreSQL Error Codes" in the
// PostgreSQL documentation).
var advice = map[string]string{
	"28000":  "the server refuses this user: check the journal's url and the server's pg_hba.conf",
	"28P01":  "the server refuses the password: set it in the journal's url or in PGPASSWORD",
	"3D000":  "the server has no such database: create it, or correct the journal's url",
	"42501":  "the user may not do that: grant it the rights on the journal's tables",
	"53100":  "the server's disk is full and nothing was written: free some space and try again",
	"53300":  "the server has no free connection: raise its max_connections, or run fewer workers",
	readOnly: "its server takes no changes: connect to the primary",
}

// readOnly is the SQLSTATE of a write to a server that is read-only, or by a user whose transactions are.
const readOnly = "25006"

// Away implements journal.Database: the server cannot be reached, or cannot run any transaction now.
func (db *database) Away(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return isAwayCode(refused.Code)
	}
	return errors.Is(err, journal.ErrUnavailable) || isUnreachable(err)
}

// isAwayCode reports whether the error with this SQLSTATE means that the server cannot run any transaction now. An
// error that concurrent transactions cause does not mean that.
func isAwayCode(code string) bool {
	switch code {
	case "40001", "40P01", "23505": // other transactions were faster
		return false
	case "53100", "53200", "58030": // its disk is full, its memory is used up, or its disk has failed
		return true
	}
	return isTransientCode(code)
}

// Explain implements journal.Database.
func (db *database) Explain(err error) error { return explain(err) }

// explain is Explain: it adds advice for the operator to the server's errors, and wraps the error of package journal
// that corresponds to them.
func explain(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return journal.ErrNotFound
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		if text := advice[refused.Code]; text != "" {
			err = fmt.Errorf("%s: %w", text, err)
		}
		if refused.Code == readOnly {
			err = fmt.Errorf("%w: %w", journal.ErrReadOnly, err)
		}
		if isTransientCode(refused.Code) {
			err = fmt.Errorf("%w: %w", journal.ErrUnavailable, err)
		}
		return err
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return fmt.Errorf("%w: the server cannot be reached: check that it runs, and journal.url: %w", journal.ErrUnavailable,
			err)
	}
	return err
}
