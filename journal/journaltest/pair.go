package journaltest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var pairPromises = []pairPromise{
	{"follow sees what another process writes", func(t *testing.T, a, b *journal.DB) { followLive(t, a, b) }},
	{"a session is followed while another process writes", func(t *testing.T, a, b *journal.DB) { sessionLive(t, a, b) }},
	{"one of many decisions from many processes stands", oneDecision},
	{"one message from many processes begins one turn", oneMessage},
	{"one call claimed by many is granted once", oneClaim},
	{"two processes write at once and both get through", bothWrite},
	{"an operator approves what was shown, whatever is published meanwhile", acceptsSeen},
	{"a late result from many processes is told once", oneNotice},
	{"one suspended call claimed by many continues once", oneGoesOn},
	{"every process sees the workers that run", workersSeen},
	{"one place at a time has a tree", treesFenced},
	{"every process obeys the fleet limits", fleetLimitsShared},
	{"a pause holds for every process and ends by itself", fleetPause},
	{"requests in flight of all processes count", fleetInFlight},
	{"no limit is exceeded by processes that ask at once", fleetRace},
	{"a tenant's tokens are bounded, also if processes create them at once", tokenBound},
}

// together runs fn n times concurrently, alternating between the handles. No run may return an error.
func together(t *testing.T, a, b *journal.DB, n int, fn func(i int, db *journal.DB) error) {
	t.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		j := a
		if i%2 == 1 {
			j = b
		}
		wg.Go(func() { errs[i] = fn(i, j) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

// grantedOnceOf claims a call n times concurrently and checks that one claim is granted.
func grantedOnceOf(t *testing.T, a, b *journal.DB, n int, in journal.CallRecord) {
	t.Helper()
	var granted atomic.Int64
	together(t, a, b, n, func(i int, db *journal.DB) error {
		in := in
		in.Worker, in.ClaimedAt = fmt.Sprint(i), start
		out, err := db.ClaimCall(t.Context(), in, false)
		if out.Claim == journal.ClaimGranted {
			granted.Add(1)
		}
		return err
	})
	assert.EqualValues(t, 1, granted.Load())
}

func oneMessage(t *testing.T, a, b *journal.DB) {
	var opened atomic.Int64
	together(t, a, b, 20, func(i int, db *journal.DB) error {
		in := (&script{session: "s", turn: fmt.Sprintf("t%d", i), at: start}).beginInput()
		in.Message.ID = "the one"
		out, err := db.Begin(t.Context(), in)
		if out.DuplicateOf == nil {
			opened.Add(1)
		}
		return err
	})
	assert.EqualValues(t, 1, opened.Load())
	assert.Len(t, must(b.Turns(t.Context(), "s"))(t), 1)
}

func oneClaim(t *testing.T, a, b *journal.DB) {
	s := newScript(t, a, "t1")
	list := calls(1, 1)
	s.infer(1, "look", list...)
	grantedOnceOf(t, a, b, 20, journal.CallRecord{Turn: "t1", Step: 1, Call: list[0], Attempt: 1})
}

func oneDecision(t *testing.T, a, b *journal.DB) {
	s := newScript(t, a, "t1")
	list := calls(1, 1)
	s.infer(1, "write", list...)
	req := approvalOf(list[0])
	s.ask(req)
	together(t, a, b, 20, func(i int, j *journal.DB) error {
		r := turn.Decision{ID: req.ID, Status: turn.StatusDenied, By: fmt.Sprint(i)}
		if i%3 == 0 {
			r = allowed(req)
			r.By = fmt.Sprint(i)
		}
		return j.Decide(t.Context(), "s", "t1", []turn.Decision{r}, start)
	})
	decided := s.requestEvents(turn.EventApprovalDecided)
	require.Len(t, decided, 1)
	requests, err := b.Requests(t.Context(), "t1")
	require.NoError(t, err)
	assert.Equal(t, decided[0].Decision, requests[0].Decision)
	_, err = b.ClaimCall(t.Context(), s.claimInput(list[0], 1), true)
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
	together(t, a, b, n, func(_ int, j *journal.DB) error {
		return j.AppendEvents(t.Context(), s.key(1), 1, []turn.Event{{Kind: turn.EventTextDelta, Text: "x"}})
	})
	assert.Len(t, s.events(), started+n)
}

func acceptsSeen(t *testing.T, a, b *journal.DB) {
	s := &servers{T: t, DB: a}
	const n = 24
	version := func(i int) turn.Descriptor { return tool("send", fmt.Sprint(i%6)) }
	s.publish(mail(version(0)))
	together(t, a, b, n, func(i int, j *journal.DB) error {
		if err := j.PublishCatalogue(t.Context(), mail(version(i))); err != nil {
			return err
		}
		in := journal.ApproveToolsInput{Server: "mail", Hashes: map[string]string{"send": version(3).Hash}, At: start}
		out, err := j.ApproveTools(t.Context(), in)
		for _, d := range out {
			if d.Now.Hash != version(3).Hash {
				return fmt.Errorf("%s was approved, which the operator did not see", d.Now.Hash)
			}
		}
		if errors.Is(err, journal.ErrConflict) {
			return nil
		}
		return err
	})
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
	together(t, a, b, 20, func(i int, j *journal.DB) error {
		if i%3 == 0 {
			_, err := j.StartInference(t.Context(), in)
			return err
		}
		late := turn.ToolResult{FromServer: true, Taints: true, Outcome: turn.OutcomeOK, Text: "done"}
		_, err := j.SettleCall(t.Context(), "t1", list[0].ID, 1, late, start)
		return err
	})
	must(b.StartInference(t.Context(), in))(t)
	assert.Len(t, s.notices(), 1)
	assert.Len(t, s.resolved(), 1)
	assert.NotNil(t, s.mark("s"))
}

func oneGoesOn(t *testing.T, a, b *journal.DB) {
	s, list := asked(t, func() *journal.DB { return a }, 1)
	s.claim(list[0], 1)
	s.suspend(list[0], 1, "x")
	grantedOnceOf(t, a, b, 20, journal.CallRecord{Turn: "t1", Step: 1, Call: list[0], Attempt: 2})
}
