package journal

import (
	"context"
	"io"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// Store is a Journal with the methods that the command line and the worker need in addition.
//
// A Store is for one tenant, and a database is opened for the default tenant, whose name is empty. The methods of Store
// that name a session or a turn know only those of the tenant: the error for a session of another tenant is the same
// ErrNotFound as for one that does not exist. Catalogues, workers and blobs belong to the operator, and every tenant
// has the same: the hash of a blob cannot be guessed.
type Store interface {
	Journal

	// Turn returns the tenant's turn with this ID.
	Turn(ctx context.Context, turnID string) (TurnRecord, error)
	// Delivered returns the turn that took this message of the session, even if the message was merged into it.
	// ErrNotFound.
	Delivered(ctx context.Context, session, messageID string) (TurnRecord, error)
	// Messages returns the session's messages with from <= seq <= to, in order, with their whole content.
	Messages(ctx context.Context, session string, from, to int64) ([]turn.Message, error)
	// Call returns the call with its arguments and outcome; ErrNotFound if it was never claimed.
	Call(ctx context.Context, turnID, callID string) (CallRecord, error)

	// Chunks returns at most limit chunks of a turn with index > after (-1 for all), in order. A turn that has not
	// begun has no chunks.
	Chunks(ctx context.Context, turnID string, after int64, limit int) ([]turn.Chunk, error)
	// Changed returns a channel that is closed when one of the topics may have changed, or anything if there are no
	// topics. It reports changes by this process at once and changes by another process after tens of milliseconds.
	// Follow is built on it.
	Changed(ctx context.Context, topics ...Topic) <-chan struct{}

	// Requests returns a turn's requests in the order in which they were made.
	Requests(ctx context.Context, turnID string) ([]RequestRecord, error)
	// PendingRequests returns the open requests of turns that have not ended, the oldest first: those of one session,
	// or of all the tenant's sessions if session is empty.
	PendingRequests(ctx context.Context, session string, limit int) ([]RequestRecord, error)

	// Fork makes a session that shares the messages 1..At of another one, by hash. Nothing is copied, and the other
	// session does not change. ErrNotFound, ErrExists, ErrForkPoint.
	Fork(ctx context.Context, in ForkInput) (SessionRecord, error)
	// PruneChunks removes the chunks of at most limit turns, of all tenants, that ended before the given time, and returns
	// the number of these turns. The transcript stays. A pruned turn keeps its turn_completed, so that a reader finds an
	// end.
	PruneChunks(ctx context.Context, before time.Time, limit int) (turns int, err error)

	// ApproveTools records the operator's approval of quarantined tools as they are now: of the named ones, or of all
	// of the server's if none is named. It returns them. ErrNotFound for a server that has published nothing, and for
	// names of tools that are not quarantined; ErrConflict if a tool is not the one that the operator saw
	// (ApproveToolsInput.Hashes). After an error no tool is approved.
	ApproveTools(ctx context.Context, in ApproveToolsInput) ([]turn.QuarantinedTool, error)

	Session(ctx context.Context, id string) (SessionRecord, error)
	// Sessions returns the latest limit sessions, the most recently active first.
	Sessions(ctx context.Context, limit int) ([]SessionRecord, error)
	// Turns returns the session's turns in the order in which they began.
	Turns(ctx context.Context, session string) ([]TurnRecord, error)
	// TurnsAfter returns at most limit turns of the session that began after the named one, or from the first if after is
	// empty, in the order in which they began. ErrNotFound, also for a turn of another session.
	TurnsAfter(ctx context.Context, session, after string, limit int) ([]TurnRecord, error)
	// Inferences and Calls return the ledgers of one turn, ordered by step and index.
	Inferences(ctx context.Context, turnID string) ([]Inference, error)
	Calls(ctx context.Context, turnID string) ([]CallRecord, error)

	// Export writes a session as JSON lines; see Line for the format. Import reads an export, checks its hash chain and
	// refuses it if it is not consistent. Importing a session that the journal has already changes nothing. An import
	// takes only exports of its own tenant: ErrOtherTenant. An imported session is tainted, and has no grants and no
	// running turn:
	// see Imported.
	Export(ctx context.Context, session string, w io.Writer) error
	Import(ctx context.Context, r io.Reader) (Imported, error)

	// ReportWorker records that a worker runs, and replaces its last report. RemoveWorker records that it has stopped.
	// Workers returns the valid reports of all workers with this journal, ordered by identity: see WorkerExpiry.
	ReportWorker(ctx context.Context, r WorkerReport) error
	RemoveWorker(ctx context.Context, id string) error
	Workers(ctx context.Context) ([]WorkerReport, error)

	Close() error
}
