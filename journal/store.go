package journal

import (
	"context"
	"io"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// Store is a Journal with what the command line and the worker need besides.
type Store interface {
	Journal

	// Chunks returns at most limit chunks of a turn with index > after (-1 for all), in order; none of a turn that has not
	// begun.
	Chunks(ctx context.Context, turnID string, after int64, limit int) ([]turn.Chunk, error)
	// Changed returns a channel that is closed when this process, or with a delay of tens of milliseconds another one, may
	// have changed one of the topics, or anything if there are none. Follow is built on it.
	Changed(ctx context.Context, topics ...Topic) <-chan struct{}

	// Waits returns a turn's requests in the order in which they were made.
	Requests(ctx context.Context, turnID string) ([]RequestRecord, error)
	// Waiting returns the open requests of turns that have not ended, the oldest first: those of a session, or of all if
	// session is empty.
	PendingRequests(ctx context.Context, session string, limit int) ([]RequestRecord, error)

	// Fork makes a session that shares the messages 1..At of another one, by hash: nothing is copied, and the other one
	// does not change. ErrNotFound, ErrExists, ErrForkPoint.
	Fork(ctx context.Context, in ForkInput) (SessionRecord, error)
	// PruneChunks removes the chunks of at most limit turns that ended before the time, and returns how many turns. The
	// transcript stays. A pruned turn keeps its turn_completed, so that a reader finds an end.
	PruneChunks(ctx context.Context, before time.Time, limit int) (turns int, err error)

	// Accept records the operator's approval of quarantined tools as they are now: of those that are named, or of all of
	// the server if none is. It returns them. ErrNotFound for a server that has published nothing, and for names of tools
	// that are not quarantined; ErrConflict if a tool is not the one that the operator saw (ApproveToolsInput.Hashes). After an
	// error none is approved.
	ApproveTools(ctx context.Context, in ApproveToolsInput) ([]turn.QuarantinedTool, error)

	Session(ctx context.Context, id string) (SessionRecord, error)
	// Sessions returns the latest limit sessions, the most recently active first.
	Sessions(ctx context.Context, limit int) ([]SessionRecord, error)
	// SessionsOf and WaitingOf are Sessions, and Waiting of all sessions, of one tenant only.
	SessionsOf(ctx context.Context, tenant string, limit int) ([]SessionRecord, error)
	PendingRequestsOf(ctx context.Context, tenant string, limit int) ([]RequestRecord, error)
	// Turns returns the session's turns in the order in which they began.
	Turns(ctx context.Context, session string) ([]TurnRecord, error)
	// TurnsAfter returns at most limit turns of the session that began after the named one, or from the first if after is
	// empty, in the order in which they began. ErrNotFound, also for a turn of another session.
	TurnsAfter(ctx context.Context, session, after string, limit int) ([]TurnRecord, error)
	// HeadAt returns the head right after the message of this seq; ErrNotFound if there is none.
	HeadAt(ctx context.Context, session string, seq int64) (turn.Head, error)
	// Inferences and Calls are the ledgers of one turn, by step and index.
	Inferences(ctx context.Context, turnID string) ([]Inference, error)
	Calls(ctx context.Context, turnID string) ([]CallRecord, error)

	// Export writes a session as JSON lines; see Line for the format. Import reads it back, checks its hash chain and
	// refuses what does not fit. Importing what is there already changes nothing. A session stays its tenant's: an import
	// shares a past with sessions of that tenant only, and is refused with ErrTaken if another tenant has the name. An
	// imported session is tainted, and has no grants and no running turn: see Imported.
	Export(ctx context.Context, session string, w io.Writer) error
	Import(ctx context.Context, r io.Reader) (Imported, error)

	Close() error
}
