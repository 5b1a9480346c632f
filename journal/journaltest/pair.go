package journaltest

import (
	"fmt"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var pairPromises = []pairPromise{
	{"follow sees what another process writes", func(t T, a, b journal.Store) { followLive(t, a, b) }},
	{"a session is followed while another process writes", func(t T, a, b journal.Store) { sessionLive(t, a, b) }},
	{"of many rulings from many processes one stands", oneRuling},
	{"one message from many processes begins one turn", oneMessage},
	{"one call claimed by many is granted once", oneClaim},
	{"two processes write at once and both get through", bothWrite},
}

// together runs fn n times at once, alternating between the stores.
func together(a, b journal.Store, n int, fn func(i int, s journal.Store)) {
	var wg sync.WaitGroup
	for i := range n {
		store := a
		if i%2 == 1 {
			store = b
		}
		wg.Go(func() { fn(i, store) })
	}
	wg.Wait()
}

func oneMessage(t T, a, b journal.Store) {
	const n = 20
	begun := make([]journal.Begun, n)
	errs := make([]error, n)
	together(a, b, n, func(i int, s journal.Store) {
		in := (&script{session: "s", turn: fmt.Sprintf("t%d", i), at: start}).beginInput()
		in.Message.ID = "the one"
		begun[i], errs[i] = s.Begin(t.Context(), in)
	})
	opened := 0
	for i := range n {
		require.NoError(t, errs[i])
		if begun[i].DuplicateOf == nil {
			opened++
		}
	}
	assert.Equal(t, 1, opened)
	turns, err := b.Turns(t.Context(), "s")
	require.NoError(t, err)
	assert.Len(t, turns, 1)
}

func oneClaim(t T, a, b journal.Store) {
	s := newScript(t, a, "t1")
	list := calls(1, 1)
	s.infer(1, "look", list...)
	const n = 20
	states := make([]journal.ClaimState, n)
	errs := make([]error, n)
	together(a, b, n, func(i int, store journal.Store) {
		out, err := store.ClaimCall(t.Context(), journal.ClaimInput{Turn: "t1", Step: 1, Call: list[0], Attempt: 1, At: start})
		states[i], errs[i] = out.State, err
	})
	granted := 0
	for i := range n {
		require.NoError(t, errs[i])
		if states[i] == journal.ClaimGranted {
			granted++
		}
	}
	assert.Equal(t, 1, granted)
}

func oneRuling(t T, a, b journal.Store) {
	s := newScript(t, a, "t1")
	list := calls(1, 1)
	s.infer(1, "write", list...)
	w := approvalOf(list[0])
	s.ask(w)
	const n = 20
	errs := make([]error, n)
	together(a, b, n, func(i int, store journal.Store) {
		r := turn.Ruling{ID: w.ID, Verdict: turn.VerdictDenied, By: fmt.Sprint(i)}
		if i%3 == 0 {
			r = allowed(w)
			r.By = fmt.Sprint(i)
		}
		errs[i] = store.Decide(t.Context(), journal.DecideInput{Session: "s", Turn: "t1", Rulings: []turn.Ruling{r}, At: start})
	})
	for _, err := range errs {
		require.NoError(t, err)
	}
	decided := s.said(turn.ChunkApprovalDecided)
	require.Len(t, decided, 1)
	waits, err := b.Waits(t.Context(), "t1")
	require.NoError(t, err)
	assert.Equal(t, decided[0].Ruling, waits[0].Ruling)
	in := s.claimInput(list[0], 1)
	in.Approved = true
	_, err = b.ClaimCall(t.Context(), in)
	if waits[0].Ruling.Allowed {
		assert.NoError(t, err)
	} else {
		assert.ErrorIs(t, err, journal.ErrUnapproved)
	}
}

func bothWrite(t T, a, b journal.Store) {
	s := newScript(t, a, "t1")
	s.start(1)
	const n = 100
	errs := make([]error, n)
	together(a, b, n, func(i int, store journal.Store) {
		errs[i] = store.AppendChunks(t.Context(), s.key(1), 1, []turn.Chunk{{Kind: turn.ChunkTextDelta, Text: "x"}})
	})
	for _, err := range errs {
		require.NoError(t, err)
	}
	assert.Len(t, s.chunks(), 1+n)
}
