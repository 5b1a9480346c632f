package journal

import (
	"context"
	"io"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// Store is a Journal with what people and processes need around it.
type Store interface {
	Journal

	// Chunks returns at most limit chunks of a turn with index > after (-1 for all), in order; none of a turn that has not begun.
	Chunks(ctx context.Context, turnID string, after int64, limit int) ([]turn.Chunk, error)
	// Changed returns a channel that is closed when this process, or with a delay of tens of milliseconds another one, may
	// have changed one of the topics, or anything if there are none. Follow is built on it.
	Changed(ctx context.Context, topics ...Topic) <-chan struct{}

	// Waits returns a turn's waits in the order in which they were asked for.
	Waits(ctx context.Context, turnID string) ([]WaitRecord, error)
	// Waiting returns the open waits of turns that are not over, the oldest first: those of a session, or of all where
	// session is empty.
	Waiting(ctx context.Context, session string, limit int) ([]WaitRecord, error)

	// Fork makes a session that shares the messages 1..At of another one, by hash: nothing is copied and the other one
	// does not change. ErrNotFound, ErrExists, ErrForkPoint.
	Fork(ctx context.Context, in ForkInput) (SessionRecord, error)
	// PruneChunks removes the chunks of at most limit turns that ended before the time, and returns how many turns. What
	// was said stays in the transcript. A pruned turn keeps its turn_completed, so that a reader finds an end.
	PruneChunks(ctx context.Context, before time.Time, limit int) (turns int, err error)

	// Accept takes the operator's word for tools that are held, as they are now: those that are named, or all of the server
	// where none is. It returns them. ErrNotFound for a server that has published nothing, and names tools that are not held;
	// ErrConflict where one is not what AcceptInput.Hashes says that the operator saw. Then nothing is accepted.
	Accept(ctx context.Context, in AcceptInput) ([]turn.Drift, error)

	Session(ctx context.Context, id string) (SessionRecord, error)
	// Sessions returns the latest limit sessions, the most recently active first.
	Sessions(ctx context.Context, limit int) ([]SessionRecord, error)
	// SessionsOf and WaitingOf are Sessions, and Waiting of all sessions, with those of one tenant only.
	SessionsOf(ctx context.Context, tenant string, limit int) ([]SessionRecord, error)
	WaitingOf(ctx context.Context, tenant string, limit int) ([]WaitRecord, error)
	// Turns returns the session's turns in the order in which they began.
	Turns(ctx context.Context, session string) ([]TurnRecord, error)
	// TurnsAfter returns at most limit turns of the session that began after the named one, or from the first where after
	// is empty, in the order in which they began. ErrNotFound, also of a turn that is another session's.
	TurnsAfter(ctx context.Context, session, after string, limit int) ([]TurnRecord, error)
	// HeadAt returns the head right after the message of this seq; ErrNotFound where there is none.
	HeadAt(ctx context.Context, session string, seq int64) (turn.Head, error)
	// Inferences and Calls are the ledgers of one turn, by step and index.
	Inferences(ctx context.Context, turnID string) ([]Inference, error)
	Calls(ctx context.Context, turnID string) ([]CallRecord, error)

	// Export writes a session as JSON lines; Import reads it back, checks its hash chain and refuses what does not
	// fit. Importing what is there already changes nothing. The format is documented at Line. A session stays its tenant's:
	// an import shares a past with sessions of that tenant only, and where the name is another's it is refused with ErrTaken.
	// An imported session is tainted, has no rules, and no turn that is running: see Imported.
	Export(ctx context.Context, session string, w io.Writer) error
	Import(ctx context.Context, r io.Reader) (Imported, error)

	Close() error
}
