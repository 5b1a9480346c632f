package tests

import (
	"context"
	"errors"
	"sync"
	"syscall"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// unavailableJournal is a journal that is unavailable for the first left calls of the methods that have a function.
type unavailableJournal struct {
	engine.Journal
	begin, claim, finish func(context.Context) error

	mu   sync.Mutex
	left int
}

func (u *unavailableJournal) wrap(s engine.Journal) engine.Journal { u.Journal = s; return u }

// wait behaves like a locked journal, refuse like one that is gone.
func wait(ctx context.Context) error   { <-ctx.Done(); return ctx.Err() }
func refuse(ctx context.Context) error { return errors.New("the journal is away") }

func (u *unavailableJournal) asked(ctx context.Context, how func(context.Context) error) error {
	u.mu.Lock()
	down := how != nil && u.left > 0
	if down {
		u.left--
	}
	u.mu.Unlock()
	if !down {
		return nil
	}
	return how(ctx)
}

func (u *unavailableJournal) Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error) {
	if err := u.asked(ctx, u.begin); err != nil {
		return journal.BeginResult{}, err
	}
	return u.Journal.Begin(ctx, in)
}

func (u *unavailableJournal) ClaimCall(ctx context.Context, in journal.CallRecord, approved bool, sensitive ...string) (journal.CallRecord, error) {
	if err := u.asked(ctx, u.claim); err != nil {
		return journal.CallRecord{}, err
	}
	return u.Journal.ClaimCall(ctx, in, approved, sensitive...)
}

func (u *unavailableJournal) Finish(ctx context.Context, in turn.FinishInput) (journal.TurnRecord, error) {
	if err := u.asked(ctx, u.finish); err != nil {
		return journal.TurnRecord{}, err
	}
	return u.Journal.Finish(ctx, in)
}

// kill kills the server that was started last. The worker notices its exit.
func (l *effectServer) kill() {
	l.t.Helper()
	pid := l.server()
	require.NoError(l.t, syscall.Kill(pid, syscall.SIGKILL))
	gone(l.t, pid)
}
