package journaltest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var pairPromises = []pairPromise{
	{"follow sees what another process writes", func(t *testing.T, a, b *journal.DB) { followLive(t, a, b) }},
	{"a session is followed while another process writes", func(t *testing.T, a, b *journal.DB) { sessionLive(t, a, b) }},
	{"one of many decisions from many processes stands", oneRuling},
	{"one message from many processes begins one turn", oneMessage},
	{"one call claimed by many is granted once", oneClaim},
	{"two processes write at once and both get through", bothWrite},
	{"an operator approves what was shown, whatever is published meanwhile", acceptsSeen},
	{"a late result from many processes is told once", oneNotice},
	{"one suspended call claimed by many continues once", oneGoesOn},
	{"every process sees the workers that run", workersSeen},
}

// together runs fn n times concurrently, alternating between the stores.
func together(a, b *journal.DB, n int, fn func(i int, s *journal.DB)) {
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

func oneMessage(t *testing.T, a, b *journal.DB) {
	const n = 20
	begun := make([]journal.BeginResult, n)
	errs := make([]error, n)
	together(a, b, n, func(i int, s *journal.DB) {
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

func oneClaim(t *testing.T, a, b *journal.DB) {
	s := newScript(t, a, "t1")
	list := calls(1, 1)
	s.infer(1, "look", list...)
	const n = 20
	states := make([]journal.ClaimState, n)
	errs := make([]error, n)
	together(a, b, n, func(i int, store *journal.DB) {
		out, err := store.ClaimCall(t.Context(),
			journal.ClaimInput{Turn: "t1", Step: 1, Call: list[0], Attempt: 1, Worker: fmt.Sprint(i), At: start})
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

func oneRuling(t *testing.T, a, b *journal.DB) {
	s := newScript(t, a, "t1")
	list := calls(1, 1)
	s.infer(1, "write", list...)
	w := approvalOf(list[0])
	s.ask(w)
	const n = 20
	errs := make([]error, n)
	together(a, b, n, func(i int, store *journal.DB) {
		r := turn.Decision{ID: w.ID, Status: turn.StatusDenied, By: fmt.Sprint(i)}
		if i%3 == 0 {
			r = allowed(w)
			r.By = fmt.Sprint(i)
		}
		errs[i] = store.Decide(t.Context(), turn.DecideInput{Session: "s", Turn: "t1", Decisions: []turn.Decision{r},
			At: start})
	})
	for _, err := range errs {
		require.NoError(t, err)
	}
	decided := s.said(turn.ChunkApprovalDecided)
	require.Len(t, decided, 1)
	requests, err := b.Requests(t.Context(), "t1")
	require.NoError(t, err)
	assert.Equal(t, decided[0].Decision, requests[0].Decision)
	in := s.claimInput(list[0], 1)
	in.Approved = true
	_, err = b.ClaimCall(t.Context(), in)
	if requests[0].Decision.Allowed {
		assert.NoError(t, err)
	} else {
		assert.ErrorIs(t, err, journal.ErrUnapproved)
	}
}

func bothWrite(t *testing.T, a, b *journal.DB) {
	s := newScript(t, a, "t1")
	s.start(1)
	const n = 100
	errs := make([]error, n)
	together(a, b, n, func(i int, store *journal.DB) {
		errs[i] = store.AppendChunks(t.Context(), s.key(1), 1, []turn.Chunk{{Kind: turn.ChunkTextDelta, Text: "x"}})
	})
	for _, err := range errs {
		require.NoError(t, err)
	}
	assert.Len(t, s.chunks(), 1+n)
}

func acceptsSeen(t *testing.T, a, b *journal.DB) {
	s := &servers{T: t, DB: a}
	const n = 24
	version := func(i int) turn.Descriptor { return tool("send", fmt.Sprint(i%6)) }
	s.publish(mail(version(0)))
	errs := make([]error, n)
	together(a, b, n, func(i int, store *journal.DB) {
		if errs[i] = store.PublishCatalogue(t.Context(), mail(version(i))); errs[i] != nil {
			return
		}
		in := journal.ApproveToolsInput{Server: "mail", Hashes: map[string]string{"send": version(3).Hash}, At: start}
		out, err := store.ApproveTools(t.Context(), in)
		if !errors.Is(err, journal.ErrConflict) {
			errs[i] = err
		}
		for _, d := range out {
			if d.Now.Hash != version(3).Hash {
				errs[i] = fmt.Errorf("%s was approved, which the operator did not see", d.Now.Hash)
			}
		}
	})
	for _, err := range errs {
		require.NoError(t, err)
	}
	s.publish(mail(version(3)))
	s.accept()
	for i := range 6 {
		s.publish(mail(version(i)))
		if i == 0 || i == 3 {
			s.sees(these(version(i)), nil)
		} else {
			s.sees(nil, these(version(i)))
		}
	}
}

func oneNotice(t *testing.T, a, b *journal.DB) {
	s, list := asked(t, func() *journal.DB { return a }, 1)
	s.unknown(list[0])
	in := s.startInput(2, resultsOf(list...)...)
	const n = 20
	errs := make([]error, n)
	together(a, b, n, func(i int, store *journal.DB) {
		if i%3 == 0 {
			_, errs[i] = store.StartInference(t.Context(), in)
			return
		}
		late := journal.SettleInput{Turn: "t1", CallID: list[0].ID, Attempt: 1, Taints: true, At: start,
			Result: turn.ToolResult{FromServer: true, Outcome: turn.OutcomeOK, Text: "done"}}
		_, errs[i] = store.SettleCall(t.Context(), late)
	})
	for _, err := range errs {
		require.NoError(t, err)
	}
	_, err := b.StartInference(t.Context(), in)
	require.NoError(t, err)
	assert.Len(t, s.notices(), 1)
	assert.Len(t, s.resolved(), 1)
	assert.NotNil(t, s.mark("s"))
}

func oneGoesOn(t *testing.T, a, b *journal.DB) {
	s, list := asked(t, func() *journal.DB { return a }, 1)
	s.claim(list[0], 1)
	s.suspend(list[0], 1, "x")
	const n = 20
	claims, errs := make([]journal.Claim, n), make([]error, n)
	together(a, b, n, func(i int, store *journal.DB) {
		claims[i], errs[i] = store.ClaimCall(t.Context(),
			journal.ClaimInput{Turn: "t1", Step: 1, Call: list[0], Attempt: 2, Worker: fmt.Sprint(i), At: start})
	})
	granted := 0
	for i := range n {
		require.NoError(t, errs[i])
		if claims[i].State == journal.ClaimGranted {
			granted++
		}
	}
	assert.Equal(t, 1, granted)
}
