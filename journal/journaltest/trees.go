package journaltest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
)

// treesFenced moves the tree of a session between two processes.
func treesFenced(t *testing.T, a, b *journal.DB) {
	move := func(db *journal.DB, epoch int64, place, head string) error {
		return db.MoveTree(t.Context(), "acme", "s", "worker of "+place, journal.Tree{Epoch: epoch, Place: place, Head: head,
			Base: "0", Ignored: []string{"node_modules"}})
	}
	_, _, err := a.Tree(t.Context(), "acme", "s")
	require.ErrorIs(t, err, journal.ErrNotFound)
	require.ErrorIs(t, move(a, 2, "A", "1"), journal.ErrStale, "there is no tree to take")
	for range 2 { // the reply to the first may be lost
		require.NoError(t, move(a, 1, "A", "1"))
	}
	require.ErrorIs(t, move(b, 1, "B", "2"), journal.ErrStale, "another place has begun it")
	require.NoError(t, move(a, 1, "A", "2"))
	for range 2 {
		require.NoError(t, move(b, 2, "B", "2"))
	}
	require.ErrorIs(t, move(a, 1, "A", "3"), journal.ErrStale, "another place has taken it")
	require.ErrorIs(t, move(a, 2, "A", "3"), journal.ErrStale)
	require.ErrorIs(t, move(a, 4, "A", "3"), journal.ErrStale)
	require.NoError(t, move(b, 2, "B", "4"))
	tree, holder, err := a.Tree(t.Context(), "acme", "s")
	require.NoError(t, err)
	assert.Equal(t, journal.Tree{Epoch: 2, Place: "B", Head: "4", Base: "0", Ignored: []string{"node_modules"}}, tree)
	assert.Equal(t, "worker of B", holder.Worker)
	assert.Less(t, holder.Unseen, fleet.WorkerExpiry)
	require.NoError(t, a.ReportWorker(t.Context(), fleet.WorkerReport{ID: "1", Identity: "other", Place: "B"}))
	_, holder, err = b.Tree(t.Context(), "acme", "s")
	require.NoError(t, err)
	assert.Equal(t, "other", holder.Worker)
	_, _, err = a.Tree(t.Context(), "", "s")
	require.ErrorIs(t, err, journal.ErrNotFound, "of another tenant")
	require.ErrorIs(t, a.DropTree(t.Context(), "acme", "s", 1), journal.ErrStale)
	for range 2 {
		require.NoError(t, b.DropTree(t.Context(), "acme", "s", 2))
	}
	require.ErrorIs(t, b.DropTree(t.Context(), "acme", "s", 1), journal.ErrStale)
	tree, _, err = a.Tree(t.Context(), "acme", "s")
	require.NoError(t, err)
	assert.True(t, tree.Dropped())
	require.ErrorIs(t, move(b, 2, "B", "5"), journal.ErrStale, "it was dropped")
	require.NoError(t, move(a, 4, "A", "1"), "it begins anew")
	require.ErrorIs(t, move(b, 4, "B", "1"), journal.ErrStale, "another place has begun it")
}
