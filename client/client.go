package client

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/everturn/everturn/codec"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Journal is the part of the journal that a client uses. A journal.DB implements it and documents its methods. The
// journal may be that of any tenant: New takes the journal of the client's own tenant from it.
type Journal interface {
	Session(ctx context.Context, id string) (journal.SessionRecord, error)
	Sessions(ctx context.Context, limit int) ([]journal.SessionRecord, error)
	Turn(ctx context.Context, turnID string) (journal.TurnRecord, error)
	Delivered(ctx context.Context, session, messageID string) (journal.TurnRecord, error)
	Messages(ctx context.Context, session string, from, to int64) ([]turn.Message, error)
	Inferences(ctx context.Context, turnID string) ([]journal.Inference, error)
	Requests(ctx context.Context, turnID string) ([]journal.RequestRecord, error)
	PendingRequests(ctx context.Context, session string, limit int) ([]journal.RequestRecord, error)
	PendingOfTurn(ctx context.Context, turnID string) ([]journal.RequestRecord, error)
	StopSubagents(ctx context.Context, session string) ([]string, error)
	Fork(ctx context.Context, in journal.ForkInput) (journal.SessionRecord, error)
	PutBlob(ctx context.Context, mediaType string, b []byte) (hash string, err error)
	Events(ctx context.Context, turnID string, after int64, limit int) ([]turn.Event, error)
	Changed(ctx context.Context, topics ...journal.Topic) <-chan struct{}
}

var _ Journal = (*journal.DB)(nil)

// tenants is a Journal with the sessions of all tenants. New takes the journal of the client's own tenant from it.
type tenants interface {
	Tenant(tenant string) *journal.DB
}

// Options configure a Client.
type Options struct {
	// Journal may be nil. Follow, Wait, Result, Pending, Sessions and Fork then return an error, schedules have no
	// runs in Schedule.Last, and a message may have 1 MiB and an answer 512 KiB instead of 8 MiB.
	Journal Journal
	// TaskQueue is where workers poll; empty means workflows.TaskQueue.
	TaskQueue string
	// Agent is the search attribute EverturnAgent of the turns that the client starts.
	Agent string
	// Tenant owns the client's sessions; empty means the default tenant. The client cannot access sessions of another
	// tenant.
	Tenant string
	// DataConverter is that of the caller's connection; nil means Temporal's own. With encryption it is
	// codec.Keys.DataConverter.
	DataConverter converter.DataConverter
}

// Client starts, follows and controls turns. It is safe for concurrent use.
type Client struct {
	temporal client.Client // nil: the client only reads the journal
	journal  Journal
	options  Options
	owned    bool // Close closes temporal
}

// New returns a client that uses the caller's connection and journal. A client without a connection (nil) reads the
// journal; its methods that need Temporal return ErrUnreachable.
func New(temporal client.Client, o Options) *Client {
	if o.TaskQueue == "" {
		o.TaskQueue = workflows.TaskQueue
	}
	if o.DataConverter == nil {
		o.DataConverter = converter.GetDefaultDataConverter()
	}
	if j, ok := o.Journal.(tenants); ok {
		o.Journal = j.Tenant(o.Tenant)
	}
	return &Client{temporal: temporal, journal: o.Journal, options: o}
}

// Dial connects to the Temporal server of a configuration and returns a client for its task queue, agent and tenant.
// The caller opens the journal (see engine.OpenJournal), and closes it after the client.
//
// Temporal's environment variables (TEMPORAL_*) and profiles apply as they do to a worker.
//
// Errors: ErrUnreachable; config.ErrCredentials if the server rejects the caller; config.ErrInvalid, also for the
// development server of another journal, whose workers would write turns where this client does not see them.
func Dial(ctx context.Context, cfg config.Config, journal Journal) (*Client, error) {
	keys, err := codec.Open(cfg.Encryption)
	if err != nil {
		return nil, err
	}
	o := temporalconn.FromConfig(cfg.Temporal, os.Environ())
	o.Keys = keys
	address, namespace, err := o.Resolved()
	if err != nil {
		return nil, err
	}
	temporal, err := temporalconn.Dial(ctx, o)
	if err != nil {
		return nil, err
	}
	err = temporalconn.CheckOwner(ctx, temporal, address, namespace, cfg.Journal.Path)
	if errors.Is(err, config.ErrInvalid) { // any other error means that the owner is not known
		temporal.Close()
		return nil, err
	}
	c := New(temporal, Options{
		Journal: journal, TaskQueue: cfg.Temporal.TaskQueue, Agent: cfg.Runtime.Agent, Tenant: cfg.Tenant,
		DataConverter: keys.DataConverter(namespace),
	})
	c.owned = true
	return c, nil
}

// Close closes the connection that Dial opened. It does not close the journal.
func (c *Client) Close() {
	if c.owned {
		c.temporal.Close()
	}
}

// Turn names a turn of a session.
type Turn struct {
	Session string `json:"session"`
	// ID is the turn's ID. If Merged is set, it is the turn that was running when the message arrived.
	ID string `json:"turn"`
	// MessageID is set in the result of Send. Follow and Wait then mean the turn that takes this message.
	MessageID string `json:"message_id,omitempty"`
	// Merged means that a turn was running when the message arrived. That turn takes the message before its next
	// inference, or leaves it to the session's next turn.
	Merged bool `json:"merged,omitempty"`
}

// NewSessionID returns a random session ID.
func NewSessionID() string { return "s-" + strings.ToLower(rand.Text()[:12]) }

// WorkflowID returns the ID of the workflow that runs the session's turns.
func (c *Client) WorkflowID(session string) string {
	return workflows.WorkflowID(c.options.Tenant, session)
}
