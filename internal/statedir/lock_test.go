package statedir_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/statedir"
)

// soon is a context in which a lock that is free is got, and one that is taken is tried a few times.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestTheLastUserLetsTheExclusiveLockGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, err := statedir.Shared(t.Context(), path)
	require.NoError(t, err)
	b, err := statedir.Shared(t.Context(), path)
	require.NoError(t, err, "users do not wait for each other")
	require.NoError(t, a.Release())
	_, err = statedir.Exclusive(soon(t), path)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	got := make(chan *statedir.Lock, 1)
	go func() {
		l, _ := statedir.Exclusive(t.Context(), path) // nil is found below
		got <- l
	}()
	require.NoError(t, b.Release())
	last := <-got
	require.NotNil(t, last)
	_, err = statedir.Shared(soon(t), path)
	require.ErrorIs(t, err, context.DeadlineExceeded, "nobody joins while the last one out stops the server")
	require.NoError(t, last.Release())
	require.NoError(t, last.Release(), "twice is no harm")
	var none *statedir.Lock
	require.NoError(t, none.Release())
	_, err = statedir.Shared(t.Context(), filepath.Join(path, "below a file"))
	assert.ErrorContains(t, err, "opening the lock")
}
