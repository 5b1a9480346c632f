package canvas

import (
	"context"
	"errors"
	"time"

	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/workflows/turn"
)

// beyondTakeover is how long a call takes at most, besides waiting until the session's tree may be taken over.
const beyondTakeover = time.Minute

// timeout is that of the tools that act in a tree.
func (r Roots) timeout() time.Duration { return r.TakeoverAfter + beyondTakeover }

// unmade returns the error of a call for err, which the session's tree has returned. If the call was not made, or may be
// made again, and there is a reason to wait, it is a *turn.Error, with which the turn attempts the call again: on the
// worker that has the tree, or when the remote or the journal is back.
func (r Roots) unmade(ctx context.Context, err error) error {
	var elsewhere *workspace.ElsewhereError
	var remote *workspace.RemoteError
	switch {
	case errors.As(err, &elsewhere):
		e := turn.NewError(turn.CodeToolNotSent, nil, "not made: "+err.Error())
		e.RetryAfter = elsewhere.Free
		if r.QueueOf == nil {
			return e
		}
		if queue := r.QueueOf(ctx, elsewhere); queue != "" {
			e.Cause = &turn.OnQueue{Queue: queue}
		}
		return e
	case errors.As(err, new(*workspace.LostError)), errors.As(err, new(*workspace.TakenError)),
		errors.As(err, &remote) && !remote.Refused:
		return turn.NewError(turn.CodeToolNotSent, nil, "not done: "+err.Error())
	case errors.Is(err, workspace.ErrUnavailable):
		return turn.NewError(turn.CodeJournalUnavailable, err, "the journal did not record the state of the tree")
	}
	return err
}
