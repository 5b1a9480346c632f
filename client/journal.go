package client

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/openjournal"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/workflows/turn"
)

// Journal is what a program reads and changes of the journal besides sending messages: sessions and their turns, usage,
// fleet limits, published tools, tokens, exports. A journal.DB implements it and documents its methods. It may be that
// of any tenant: New takes the journal of the client's own tenant from it.
type Journal interface {
	// Sessions and turns.
	Session(ctx context.Context, id string) (Session, error)
	Sessions(ctx context.Context, limit int) ([]Session, error)
	Turn(ctx context.Context, turnID string) (TurnRecord, error)
	Turns(ctx context.Context, session string) ([]TurnRecord, error)
	TurnsAfter(ctx context.Context, session, after string, limit int) ([]TurnRecord, error)
	TurnConfig(ctx context.Context, turnID string) (TurnConfig, error)
	Delivered(ctx context.Context, session, messageID string) (TurnRecord, error)
	Messages(ctx context.Context, session string, from, to int64) ([]turn.Message, error)
	Compactions(ctx context.Context, session string) ([]turn.Compaction, error)
	Fork(ctx context.Context, in journal.ForkInput) (Session, error)
	TakeBack(ctx context.Context, session string, c TakenBack) error
	StopSubagents(ctx context.Context, session string) ([]string, error)

	// The ledger of a turn, its events and its requests.
	Inferences(ctx context.Context, turnID string) ([]Inference, error)
	Calls(ctx context.Context, turnID string) ([]Call, error)
	Call(ctx context.Context, turnID, callID string) (Call, error)
	Requests(ctx context.Context, turnID string) ([]Request, error)
	PendingRequests(ctx context.Context, session string, limit int) ([]Request, error)
	PendingOfTurn(ctx context.Context, turnID string) ([]Request, error)
	SettleLate(ctx context.Context, session, turnID, callID string, r turn.ToolResult,
		response turn.ElicitationResponse, at time.Time) (late bool, err error)
	Events(ctx context.Context, turnID string, after int64, limit int) ([]turn.Event, error)
	LastEvent(ctx context.Context, turnID string) (turn.Event, error)
	Changed(ctx context.Context, topics ...journal.Topic) <-chan struct{}
	PutBlob(ctx context.Context, mediaType string, b []byte) (hash string, err error)
	GetBlob(ctx context.Context, hash string) ([]byte, error)

	// Usage and costs.
	Usage(ctx context.Context, by UsageBy, since time.Time) ([]UsageRow, error)
	SessionUsage(ctx context.Context, session string) (turn.Usage, error)
	TurnUsage(ctx context.Context, turnID string) (turn.Usage, error)

	// The limits of the fleet, its workers and the tools that they publish.
	FleetScopes(ctx context.Context, names ...string) ([]LimitScope, error)
	SetFleetLimits(ctx context.Context, scope string, limits Limits) error
	PauseScope(ctx context.Context, scope, by, reason string, pause time.Duration) (Pause, error)
	ResumeScope(ctx context.Context, scope string) (waited bool, err error)
	Workers(ctx context.Context) ([]WorkerReport, error)
	Catalogues(ctx context.Context) ([]turn.Catalogue, error)
	ApproveTools(ctx context.Context, in ApproveToolsInput) ([]turn.QuarantinedTool, error)

	// The bearer tokens of the tenant, and the links for the web page: see also TokenBySecret, LinkBySecret and SpendLink.
	CreateToken(ctx context.Context, in CreateTokenInput) (t Token, secret string, err error)
	CreateLink(ctx context.Context, in CreateTokenInput) (link Token, secret string, err error)
	Tokens(ctx context.Context) ([]Token, error)
	RevokeToken(ctx context.Context, id string) error

	// The requests of HTTP clients.
	PutExchange(ctx context.Context, e Exchange, keep bool) (Exchange, error)
	Exchange(ctx context.Context, name string) (Exchange, error)
	DeleteExchange(ctx context.Context, name string) error

	// The trees of sessions, of the tenants that the arguments name.
	Tree(ctx context.Context, tenant, session string) (journal.Tree, journal.TreeHolder, error)
	MoveTree(ctx context.Context, tenant, session, worker string, to journal.Tree) error
	DropTree(ctx context.Context, tenant, session string, epoch int64) error

	// The journal as a whole.
	ID(ctx context.Context) (string, error)
	ReadOnly() error
	CheckWrite(ctx context.Context) error
	Export(ctx context.Context, session string, w io.Writer) error
	Import(ctx context.Context, r io.Reader) (Imported, error)
	Close() error
}

var _ Journal = (*journal.DB)(nil)

// The records of the journal, and inputs of its methods. The packages that declare them document their fields.
type (
	Session           = journal.SessionRecord
	TakenBack         = journal.TakenBack
	TurnRecord        = journal.TurnRecord
	TurnConfig        = journal.TurnConfig
	Inference         = journal.Inference
	Call              = journal.CallRecord
	Request           = turn.Request
	UsageBy           = journal.UsageBy
	UsageRow          = journal.UsageRow
	Limits            = fleet.Limits
	LimitName         = fleet.LimitName
	LimitScope        = fleet.ScopeState
	Pause             = fleet.Pause
	WorkerReport      = fleet.WorkerReport
	ApproveToolsInput = journal.ApproveToolsInput
	Imported          = journal.Imported
	DroppedPermission = journal.DroppedPermission
	Token             = journal.Token
	Exchange          = journal.Exchange
	Right             = journal.Right
	CreateTokenInput  = journal.CreateTokenInput
)

// LinkFor is how long a link can be spent.
const LinkFor = journal.LinkFor

// The rights of tokens.
const (
	RightRead       = journal.RightRead
	RightSend       = journal.RightSend
	RightDecide     = journal.RightDecide
	RightAdminister = journal.RightAdminister
)

// What Journal.Usage groups by.
const (
	UsageByModel   = journal.UsageByModel
	UsageByTenant  = journal.UsageByTenant
	UsageBySession = journal.UsageBySession
	UsageByDay     = journal.UsageByDay
)

// Bounds of texts, in bytes: MaxMessageBytes of a message, and PreviewBytes of what the journal shows of a long one.
const (
	MaxMessageBytes = journal.MaxMessageBytes
	PreviewBytes    = journal.PreviewBytes
)

// Cursor is the position of a session's reader: see FollowSession.
type Cursor = follow.Cursor

// After returns the cursor of a reader that has read everything up to e.
func After(e turn.Event) Cursor { return follow.After(e) }

// FollowSession yields the events of a session from a cursor on, turn after turn, as they appear, until ctx ends. It
// waits for the next turn if there is none. An error, including ctx's, is yielded once and is the last value.
func FollowSession(ctx context.Context, j Journal, session string, from Cursor) iter.Seq2[turn.Event, error] {
	return follow.Session(ctx, j, session, from)
}

// OpenJournal opens the journal of a configuration for its tenant, without connecting to Temporal. A Postgres database
// must already have its tables: see MigrateJournal. A SQLite file that does not exist is created; one that exists must
// have been created on this machine. The error wraps ErrUnavailable if the database cannot be reached or is locked.
func OpenJournal(ctx context.Context, cfg config.Config) (Journal, error) {
	j, err := openjournal.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return j.Tenant(cfg.Tenant), nil
}

// Rights returns all rights.
func Rights() []Right { return journal.Rights() }

// TokenBySecret returns the token of a secret, of any tenant: j may be the journal of another tenant than the token's.
// The token may be revoked or expired: see Token.Active. ErrNotFound if the secret belongs to no token.
//
// It is not a method of Journal, because a Journal has only what belongs to its tenant.
func TokenBySecret(ctx context.Context, j Journal, secret string) (Token, error) {
	all, ok := j.(tokensOfAll)
	if !ok {
		return Token{}, ErrNoJournal
	}
	return all.TokenBySecret(ctx, secret)
}

// LinkBySecret returns the link of a secret, of any tenant, without spending it. The link may be spent or expired: see
// Token.Active. ErrNotFound if the secret belongs to no link.
func LinkBySecret(ctx context.Context, j Journal, secret string) (Token, error) {
	all, ok := j.(tokensOfAll)
	if !ok {
		return Token{}, ErrNoJournal
	}
	return all.LinkBySecret(ctx, secret)
}

// SpendLink exchanges a link, of any tenant, for a token that is valid for the given time. ErrNotFound if there is no
// such link, or it is spent or expired.
func SpendLink(ctx context.Context, j Journal, link string, valid time.Duration) (t Token, secret string, err error) {
	all, ok := j.(tokensOfAll)
	if !ok {
		return Token{}, "", ErrNoJournal
	}
	return all.SpendLink(ctx, link, valid)
}

// tokensOfAll are the methods of a journal that find tokens and links of all tenants.
type tokensOfAll interface {
	TokenBySecret(ctx context.Context, secret string) (Token, error)
	LinkBySecret(ctx context.Context, secret string) (Token, error)
	SpendLink(ctx context.Context, link string, valid time.Duration) (t Token, secret string, err error)
}

// HasJournal reports whether the SQLite file of a configuration exists. For Postgres it returns true without
// connecting.
func HasJournal(cfg config.Config) bool { return openjournal.Exists(cfg) }

// MigrateJournal creates the journal's tables, or updates those of an older version, and reports whether it changed
// anything or, for SQLite, whether the file was missing. For SQLite, OpenJournal does the same; for Postgres it does
// not.
func MigrateJournal(ctx context.Context, cfg config.Config) (changed bool, err error) {
	return openjournal.Migrate(ctx, cfg)
}

// CopyJournal copies everything in the journal from to the journal to, which must be empty. Each is the path of a
// SQLite file, or the connection string of a Postgres database. It creates a missing SQLite file to. keys.Journal says
// whether the copy is encrypted; the original may be encrypted or not. It returns the number of copied sessions.
func CopyJournal(ctx context.Context, from, to string, keys config.Encryption) (sessions int, err error) {
	return openjournal.Copy(ctx, from, to, keys)
}
