package postgres

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/journal"
)

func TestErrorsThatMayPassAreUnavailable(t *testing.T) {
	for code, want := range map[string]bool{"53300": true, "25006": true, "57P03": true, "25P03": true, "08006": true,
		"42501": false,
		"22001": false} {
		err := explain(&pgconn.PgError{Code: code, Message: "cause"})
		assert.Equal(t, want, errors.Is(err, journal.ErrUnavailable), code)
		assert.ErrorContains(t, err, "cause", code)
		assert.ErrorContains(t, err, advice[code], code)
	}
}
