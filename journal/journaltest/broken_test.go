package journaltest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/journaltest"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestBrokenStoresFail breaks a good store in one way at a time. The suite must fail there, and in the promise that
// is broken; where it does not, that promise is not really checked.
func TestBrokenStoresFail(t *testing.T) {
	for name, c := range map[string]struct {
		promise string
		breaks  func(journaltest.Store) journaltest.Store
	}{
		"forgets dedupe": {"a message is taken once in its session for ever",
			func(s journaltest.Store) journaltest.Store { return forgetsDedupe{s} }},
		"pins anew": {"begin resumes its own turn", func(s journaltest.Store) journaltest.Store { return pinsAnew{s} }},
		"resumes at the head": {"begin resumes its own turn",
			func(s journaltest.Store) journaltest.Store { return resumesAtHead{s} }},
		"does not close": {"begin closes the session's unfinished turn",
			func(s journaltest.Store) journaltest.Store { return finishesBefore{s} }},
		"finishes again": {"finish of a finished turn changes nothing",
			func(s journaltest.Store) journaltest.Store { return finishesAgain{s} }},
		"lets settle overwrite": {"the first settlement wins and later ones are kept",
			func(s journaltest.Store) journaltest.Store { return overwrites{s} }},
		"ignores the head": {"an append at another head is refused",
			func(s journaltest.Store) journaltest.Store { return ignoresHead{s} }},
		"ignores the fence": {"a stale attempt is fenced off",
			func(s journaltest.Store) journaltest.Store { return ignoresFence{s} }},
		"grants twice": {"a call that may not be repeated is granted once",
			func(s journaltest.Store) journaltest.Store { return grants{s, journal.ClaimTaken} }},
		"grants the stale": {"an older attempt cannot claim",
			func(s journaltest.Store) journaltest.Store { return grants{s, journal.ClaimStale} }},
		"runs settled calls": {"a settled call is not run again",
			func(s journaltest.Store) journaltest.Store { return grants{s, journal.ClaimSettled} }},
		"keeps claims": {"a claim that is given back is granted again",
			func(s journaltest.Store) journaltest.Store { return keepsClaims{s} }},
		"pays again": {"a settled inference comes back and is not paid again",
			func(s journaltest.Store) journaltest.Store { return paysAgain{s} }},
		"counts failures twice": {"a failure is counted once an attempt",
			func(s journaltest.Store) journaltest.Store { return countsTwice{s, new(sync.Map)} }},
		"mixes results up": {"results come in request order, one a call",
			func(s journaltest.Store) journaltest.Store { return mixesUp{s} }},
		"leaves gaps": {"chunks have no gaps under eight appenders",
			func(s journaltest.Store) journaltest.Store { return leavesGaps{s} }},
		"withdraws nothing": {"shown text is withdrawn when its attempt is repeated",
			func(s journaltest.Store) journaltest.Store { return withdrawsNothing{s} }},
		"cuts large content": {"large content comes back whole", func(s journaltest.Store) journaltest.Store { return cuts{s} }},
		"never wakes followers": {"follow yields chunks as they come and ends with the turn",
			func(s journaltest.Store) journaltest.Store { return sleeps{s} }},
		"exports half": {"an export is imported as it was",
			func(s journaltest.Store) journaltest.Store { return exportsHalf{s} }},
		"takes tampered imports": {"a tampered or cut import is refused and leaves nothing",
			func(s journaltest.Store) journaltest.Store { return takesAnything{s} }},
		"lets anything run": {"a call that needs a person runs with an approval of its arguments alone",
			func(s journaltest.Store) journaltest.Store { return unapproved{s} }},
		"rules again": {"the first ruling of a wait stands",
			func(s journaltest.Store) journaltest.Store { return rulesAgain{s, new(sync.Map)} }},
		"asks about a preview": {"an approval is asked for with the arguments that would run",
			func(s journaltest.Store) journaltest.Store { return asksAnything{s} }},
		"loses messages": {"messages join a turn after the step's results",
			func(s journaltest.Store) journaltest.Store { return losesMessages{s} }},
		"joins again": {"a message joins once, whatever the attempts",
			func(s journaltest.Store) journaltest.Store { return joinsAgain{s} }},
		"leaves waits open": {"a turn that ends cancels what it waits for",
			func(s journaltest.Store) journaltest.Store { return leavesOpen{s} }},
		"forks without a past": {"a fork shares the past and leaves it alone",
			func(s journaltest.Store) journaltest.Store { return forgetsPast{s} }},
		"forks anywhere": {"a session is forked only where no call is parted from its result",
			func(s journaltest.Store) journaltest.Store { return forksAnywhere{s} }},
		"prunes the end": {"follow of a turn without its chunks ends",
			func(s journaltest.Store) journaltest.Store { return prunesEnd{s} }},
		"begins again": {"a suspended call goes on where it was",
			func(s journaltest.Store) journaltest.Store { return beginsAgain{s} }},
		"loads all": {"a window is not loaded above its bound",
			func(s journaltest.Store) journaltest.Store { return loadsAll{s} }},
		"suspends for anybody": {"only the attempt that has a call suspends it",
			func(s journaltest.Store) journaltest.Store { return suspendsAll{s} }},
		"floods": {"progress is noted of an open claim, up to a bound",
			func(s journaltest.Store) journaltest.Store { return floods{s} }},
		"forgets marks": {"others' words mark their session, and the first mark stays",
			func(s journaltest.Store) journaltest.Store { return forgetsMarks{s} }},
		"marks anything": {"what brings no words of others marks nothing",
			func(s journaltest.Store) journaltest.Store { return marksAll{s} }},
		"marks in time alone": {"a late result marks its session, also after its turn",
			func(s journaltest.Store) journaltest.Store { return marksInTime{s} }},
		"shows blobs to all": {"an artifact is for the session that has it, and for its forks",
			func(s journaltest.Store) journaltest.Store { return showsAll{s} }},
		"keeps all media": {"media over the bounds are left out, and the text says so",
			func(s journaltest.Store) journaltest.Store { return keepsAllMedia{s} }},
		"accepts drift": {"a tool that changes is held until it is accepted",
			func(s journaltest.Store) journaltest.Store { return acceptsAll{s} }},
		"accepts unseen": {"only what the operator saw is accepted",
			func(s journaltest.Store) journaltest.Store { return acceptsUnseen{s} }},
		"accepts by alternation": {"what was accepted stays accepted",
			func(s journaltest.Store) journaltest.Store { return acceptsHeld{s} }},
		"accepts what is new": {"a tool that is new is held unless the server's configuration is new",
			func(s journaltest.Store) journaltest.Store { return acceptsHeld{s} }},
		"tells nobody": {"the model is told what has become of an unknown call, once",
			func(s journaltest.Store) journaltest.Store { return losesLate{s} }},
		"loses replies": {"what a tool's server asks is kept with what is said to it",
			func(s journaltest.Store) journaltest.Store { return losesReplies{s} }},
		"shares names": {"two tenants use one session name for two sessions",
			func(s journaltest.Store) journaltest.Store { return sharesNames{s} }},
		"leaks turns": {"another tenant's sessions and turns do not exist",
			func(s journaltest.Store) journaltest.Store { return leaksTurns{s} }},
		"skips turns": {"a session is read on from any chunk of any turn",
			func(s journaltest.Store) journaltest.Store { return skipsTurns{s} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := opener(t)
			failed := journaltest.Failing(func() journaltest.Store { return c.breaks(open()) }, c.promise)
			assert.NotEmpty(t, failed[c.promise], "the suite did not notice")
		})
	}
}

// TestGoodStoreHasNoFailures keeps the test above honest: it is the breakage that fails, not the way of running.
func TestGoodStoreHasNoFailures(t *testing.T) {
	assert.Empty(t, journaltest.Failing(opener(t)))
}

func opener(t *testing.T) func() journaltest.Store {
	n := 0
	return func() journaltest.Store {
		n++
		s, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), fmt.Sprintf("%d.db", n)),
			sqlite.Options{Synchronous: "normal"})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, s.Close()) })
		return s
	}
}

type forgetsDedupe struct{ journaltest.Store }

func (s forgetsDedupe) Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error) {
	in.Message.ID += in.Turn
	return s.Store.Begin(ctx, in)
}

type pinsAnew struct{ journaltest.Store }

func (s pinsAnew) Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error) {
	out, err := s.Store.Begin(ctx, in)
	out.Config = in.Config
	return out, err
}

type resumesAtHead struct{ journaltest.Store }

func (s resumesAtHead) Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error) {
	out, err := s.Store.Begin(ctx, in)
	if session, serr := s.Session(ctx, in.Session); serr == nil && out.Resumed {
		out.Head = session.Head
	}
	return out, err
}

// finishesBefore calls the unfinished turn completed, which nobody has said.
type finishesBefore struct{ journaltest.Store }

func (s finishesBefore) Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error) {
	if session, err := s.Session(ctx, in.Session); err == nil && session.LastTurn.ID != in.Turn {
		done := turn.FinishInput{Session: in.Session, Turn: session.LastTurn.ID,
			Result: turn.Result{State: turn.StateCompleted}, At: in.At}
		if _, err := s.Finish(ctx, done); err != nil {
			return journal.BeginResult{}, err
		}
	}
	return s.Store.Begin(ctx, in)
}

type finishesAgain struct{ journaltest.Store }

func (s finishesAgain) Finish(ctx context.Context, in turn.FinishInput) (journal.TurnRecord, error) {
	out, err := s.Store.Finish(ctx, in)
	out.State, out.Reason, out.Answer = in.State, in.Reason, in.Answer
	return out, err
}

type overwrites struct{ journaltest.Store }

func (s overwrites) SettleCall(ctx context.Context, in journal.SettleInput) (journal.CallRecord, error) {
	out, err := s.Store.SettleCall(ctx, in)
	out.Outcome, out.Text, out.Late = in.Result.Outcome, in.Result.Text, false
	return out, err
}

type ignoresHead struct{ journaltest.Store }

func (s ignoresHead) StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error) {
	if session, err := s.Session(ctx, in.Session); err == nil {
		in.Expect = session.Head
	}
	return s.Store.StartInference(ctx, in)
}

type ignoresFence struct{ journaltest.Store }

func (s ignoresFence) AppendChunks(ctx context.Context, key journal.StepKey, attempt int, chunks []turn.Chunk) error {
	err := s.Store.AppendChunks(ctx, key, attempt, chunks)
	if errors.Is(err, journal.ErrStale) {
		return s.Store.AppendChunks(ctx, key, attempt+1, chunks)
	}
	return err
}

// grants lets a call run that was found in a state which forbids it.
type grants struct {
	journaltest.Store
	forbidden journal.ClaimState
}

func (s grants) ClaimCall(ctx context.Context, in journal.ClaimInput) (journal.Claim, error) {
	out, err := s.Store.ClaimCall(ctx, in)
	if out.State == s.forbidden {
		out.State = journal.ClaimGranted
	}
	return out, err
}

type keepsClaims struct{ journaltest.Store }

func (keepsClaims) ReleaseCall(context.Context, string, string, int) error { return nil }

type paysAgain struct{ journaltest.Store }

func (s paysAgain) StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error) {
	out, err := s.Store.StartInference(ctx, in)
	out.Settled = false
	return out, err
}

type countsTwice struct {
	journaltest.Store
	counts *sync.Map
}

func (s countsTwice) FailInference(ctx context.Context, key journal.StepKey, attempt int, code turn.Code,
	message string) (int, error) {
	if _, err := s.Store.FailInference(ctx, key, attempt, code, message); err != nil {
		return 0, err
	}
	n, _ := s.counts.LoadOrStore(key, new(int))
	*n.(*int)++
	return *n.(*int), nil
}

// mixesUp shows the results in the reverse order.
type mixesUp struct{ journaltest.Store }

func (s mixesUp) Messages(ctx context.Context, session string, from, to int64) ([]turn.Message, error) {
	list, err := s.Store.Messages(ctx, session, from, to)
	for i, j := 2, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list, err
}

type loadsAll struct{ journaltest.Store }

func (s loadsAll) Window(ctx context.Context, session string, from, to, _ int64) ([]turn.Message, error) {
	return s.Messages(ctx, session, from, to)
}

type leavesGaps struct{ journaltest.Store }

func (s leavesGaps) Chunks(ctx context.Context, turnID string, after int64, limit int) ([]turn.Chunk, error) {
	list, err := s.Store.Chunks(ctx, turnID, after, limit)
	for i := range list {
		list[i].Index += int64(i / 100)
	}
	return list, err
}

type withdrawsNothing struct{ journaltest.Store }

func (s withdrawsNothing) Chunks(ctx context.Context, turnID string, after int64, limit int) ([]turn.Chunk, error) {
	list, err := s.Store.Chunks(ctx, turnID, after, limit)
	for i := range list {
		if list[i].Kind == turn.ChunkAttemptRestarted {
			list[i].Kind = turn.ChunkReasoningDelta
		}
	}
	return list, err
}

type cuts struct{ journaltest.Store }

func (s cuts) SettleCall(ctx context.Context, in journal.SettleInput) (journal.CallRecord, error) {
	in.Result.Text = journal.Preview(in.Result.Text, 1<<20)
	return s.Store.SettleCall(ctx, in)
}

type sleeps struct{ journaltest.Store }

func (sleeps) Changed(context.Context, ...journal.Topic) <-chan struct{} { return nil }

type exportsHalf struct{ journaltest.Store }

func (s exportsHalf) Export(ctx context.Context, session string, w io.Writer) error {
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(s.Store.Export(ctx, session, pw)) }()
	_, err := io.CopyN(w, pr, 1000)
	return errors.Join(err, pr.Close())
}

// takesAnything says that every import went well.
type takesAnything struct{ journaltest.Store }

func (s takesAnything) Import(ctx context.Context, r io.Reader) (journal.Imported, error) {
	rec, _ := s.Store.Import(ctx, r)
	return rec, nil
}
