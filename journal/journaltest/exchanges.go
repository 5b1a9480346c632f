package journaltest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
)

var exchangePromises = []promise{
	{"an exchange is found by its name, in its tenant only", exchangeFound},
}

func exchangeFound(t *testing.T, open func() *journal.DB) {
	j, ctx := open(), t.Context()
	acme := j.Tenant("acme")
	first := journal.Exchange{Name: "key:1", Session: "s", Message: "m"}
	got, err := acme.PutExchange(ctx, first, true)
	require.NoError(t, err)
	assert.Equal(t, first, got)
	other := journal.Exchange{Name: "key:1", Session: "s2", Message: "m2", Turn: "t2", Seq: 4, Body: "b"}
	got, err = acme.PutExchange(ctx, other, true)
	require.NoError(t, err)
	assert.Equal(t, first, got, "the first one stays")
	got, err = acme.PutExchange(ctx, other, false)
	require.NoError(t, err)
	assert.Equal(t, other, got)
	got, err = acme.Exchange(ctx, "key:1")
	require.NoError(t, err)
	assert.Equal(t, other, got)
	require.NoError(t, j.Tenant("").DeleteExchange(ctx, "key:1"))
	_, err = j.Tenant("").Exchange(ctx, "key:1")
	require.ErrorIs(t, err, journal.ErrNotFound)
	require.NoError(t, acme.DeleteExchange(ctx, "key:1"))
	_, err = acme.Exchange(ctx, "key:1")
	require.ErrorIs(t, err, journal.ErrNotFound)
	_, err = acme.Exchange(ctx, "key:2")
	require.ErrorIs(t, err, journal.ErrNotFound)
}
