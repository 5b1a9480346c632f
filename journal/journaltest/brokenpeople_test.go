package journaltest_test

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/journaltest"
	"github.com/everturn/everturn/workflows/turn"
)

type unapproved struct{ journaltest.Store }

func (s unapproved) ClaimCall(ctx context.Context, in journal.ClaimInput) (journal.Claim, error) {
	out, err := s.Store.ClaimCall(ctx, in)
	if errors.Is(err, journal.ErrUnapproved) {
		return journal.Claim{State: journal.ClaimGranted}, nil
	}
	return out, err
}

// rulesAgain shows the last ruling of a wait.
type rulesAgain struct {
	journaltest.Store
	last *sync.Map
}

func (s rulesAgain) Decide(ctx context.Context, in turn.DecideInput) error {
	for _, r := range in.Decisions {
		s.last.Store(in.Turn+r.ID, r)
	}
	return s.Store.Decide(ctx, in)
}

func (s rulesAgain) Requests(ctx context.Context, turnID string) ([]journal.RequestRecord, error) {
	list, err := s.Store.Requests(ctx, turnID)
	for i := range list {
		if r, ok := s.last.Load(turnID + list[i].ID); ok {
			decision := r.(turn.Decision)
			list[i].Decision = &decision
		}
	}
	return list, err
}

// asksAnything asks with the hash of what the caller did not show.
type asksAnything struct{ journaltest.Store }

func (s asksAnything) Ask(ctx context.Context, in turn.AskInput) ([]turn.Decision, error) {
	ruled, err := s.Store.Ask(ctx, in)
	if errors.Is(err, journal.ErrClosed) || errors.Is(err, journal.ErrNotFound) {
		return nil, err
	}
	return ruled, nil
}

type losesMessages struct{ journaltest.Store }

func (s losesMessages) StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error) {
	in.Messages = nil
	return s.Store.StartInference(ctx, in)
}

type joinsAgain struct{ journaltest.Store }

func (s joinsAgain) StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error) {
	in.Messages = slices.Clone(in.Messages)
	for i := range in.Messages {
		in.Messages[i].ID += in.At.String()
	}
	return s.Store.StartInference(ctx, in)
}

type leavesOpen struct{ journaltest.Store }

func (s leavesOpen) Requests(ctx context.Context, turnID string) ([]journal.RequestRecord, error) {
	list, err := s.Store.Requests(ctx, turnID)
	for i := range list {
		if r := list[i].Decision; r != nil && r.Status == turn.StatusCancelled {
			list[i].Decision = &turn.Decision{}
		}
	}
	return list, err
}

// forgetsPast reads a session's own messages alone.
type forgetsPast struct{ journaltest.Store }

func (s forgetsPast) Messages(ctx context.Context, session string, from, to int64) ([]turn.Message, error) {
	if rec, err := s.Session(ctx, session); err == nil {
		from = max(from, rec.ForkSeq+1)
	}
	return s.Store.Messages(ctx, session, from, to)
}

type forksAnywhere struct{ journaltest.Store }

func (s forksAnywhere) Fork(ctx context.Context, in journal.ForkInput) (journal.SessionRecord, error) {
	for {
		out, err := s.Store.Fork(ctx, in)
		if !errors.Is(err, journal.ErrForkPoint) || in.At < 1 {
			return out, err
		}
		in.At--
	}
}

// prunesEnd removes the end of a turn, too, and does not say that it is over.
type prunesEnd struct{ journaltest.Store }

func (s prunesEnd) Chunks(ctx context.Context, turnID string, after int64, limit int) ([]turn.Chunk, error) {
	list, err := s.Store.Chunks(ctx, turnID, after, limit)
	if len(list) == 1 && list[0].Kind == turn.ChunkTurnCompleted {
		return nil, err
	}
	return list, err
}

// skipsTurns names the latest turn where the next one is asked for.
type skipsTurns struct{ journaltest.Store }

func (s skipsTurns) TurnsAfter(ctx context.Context, session, after string, limit int) ([]journal.TurnRecord, error) {
	list, err := s.Store.TurnsAfter(ctx, session, after, limit)
	if len(list) == 0 {
		return list, err
	}
	rec, err := s.Session(ctx, session)
	return []journal.TurnRecord{rec.LastTurn}, err
}
