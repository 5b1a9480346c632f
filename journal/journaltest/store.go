package journaltest

import (
	"context"
	"io"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Store is what the suite checks: a journal.DB, or one that breaks a promise.
type Store interface {
	Tenant(tenant string) *journal.DB
	Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error)
	StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error)
	SettleInference(ctx context.Context, in journal.SettleInference) (journal.Inference, error)
	FailInference(ctx context.Context, key journal.StepKey, attempt int, code turn.Code,
		message string) (failures int, err error)
	Ask(ctx context.Context, in turn.AskInput) (ruled []turn.Decision, err error)
	Decide(ctx context.Context, in turn.DecideInput) error
	Grants(ctx context.Context, turnID string) ([]turn.Grant, error)
	ClaimCall(ctx context.Context, in journal.ClaimInput) (journal.Claim, error)
	SettleCall(ctx context.Context, in journal.SettleInput) (journal.CallRecord, error)
	ReleaseCall(ctx context.Context, turnID, callID string, attempt int) error
	SuspendCall(ctx context.Context, in journal.SettleInput) error
	NoteCall(ctx context.Context, turnID, callID string, attempt int, p turn.ToolProgress, at time.Time) error
	Taint(ctx context.Context, turnID string) (*journal.TaintSource, error)
	Artifact(ctx context.Context, turnID, hash string) (mediaType string, b []byte, err error)
	Finish(ctx context.Context, in turn.FinishInput) (journal.TurnRecord, error)
	AppendChunks(ctx context.Context, key journal.StepKey, attempt int, chunks []turn.Chunk) error
	Window(ctx context.Context, turnID string, from, to, maxBytes int64) ([]turn.Message, error)
	TurnConfig(ctx context.Context, turnID string) (journal.TurnConfig, error)
	StepMessage(ctx context.Context, key journal.StepKey) (turn.Message, error)
	PublishCatalogue(ctx context.Context, c turn.Catalogue) error
	Catalogues(ctx context.Context) ([]turn.Catalogue, error)
	PutBlob(ctx context.Context, mediaType string, b []byte) (hash string, err error)
	GetBlob(ctx context.Context, hash string) ([]byte, error)
	Turn(ctx context.Context, turnID string) (journal.TurnRecord, error)
	Delivered(ctx context.Context, session, messageID string) (journal.TurnRecord, error)
	Messages(ctx context.Context, session string, from, to int64) ([]turn.Message, error)
	Call(ctx context.Context, turnID, callID string) (journal.CallRecord, error)
	Chunks(ctx context.Context, turnID string, after int64, limit int) ([]turn.Chunk, error)
	Changed(ctx context.Context, topics ...journal.Topic) <-chan struct{}
	Requests(ctx context.Context, turnID string) ([]journal.RequestRecord, error)
	PendingRequests(ctx context.Context, session string, limit int) ([]journal.RequestRecord, error)
	Fork(ctx context.Context, in journal.ForkInput) (journal.SessionRecord, error)
	PruneChunks(ctx context.Context, before time.Time, limit int) (turns int, err error)
	ApproveTools(ctx context.Context, in journal.ApproveToolsInput) ([]turn.QuarantinedTool, error)
	Session(ctx context.Context, id string) (journal.SessionRecord, error)
	Sessions(ctx context.Context, limit int) ([]journal.SessionRecord, error)
	Turns(ctx context.Context, session string) ([]journal.TurnRecord, error)
	TurnsAfter(ctx context.Context, session, after string, limit int) ([]journal.TurnRecord, error)
	Inferences(ctx context.Context, turnID string) ([]journal.Inference, error)
	Calls(ctx context.Context, turnID string) ([]journal.CallRecord, error)
	Export(ctx context.Context, session string, w io.Writer) error
	Import(ctx context.Context, r io.Reader) (journal.Imported, error)
	ReportWorker(ctx context.Context, r journal.WorkerReport) error
	RemoveWorker(ctx context.Context, id string) error
	Workers(ctx context.Context) ([]journal.WorkerReport, error)
	Close() error
}

var _ Store = (*journal.DB)(nil)

// tenants is a Store that breaks a promise to tenants.
type tenants interface{ OfTenant(tenant string) Store }

func ofTenant(s Store, tenant string) Store {
	if t, ok := s.(tenants); ok {
		return t.OfTenant(tenant)
	}
	return s.Tenant(tenant)
}
