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
	"github.com/everturn/everturn/internal/openjournal"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
)

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
	// closeJournal closes the journal. It is set if Open has opened it and the connection.
	closeJournal func() error
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

// Open opens the journal of a configuration, connects to its Temporal server, and returns a client for its task queue,
// agent and tenant. Close closes both.
//
// Temporal's environment variables (TEMPORAL_*) and profiles apply as they do to a worker.
//
// Errors: those of OpenJournal; ErrUnreachable; config.ErrCredentials if the server rejects the caller;
// config.ErrInvalid, also for the development server of another journal, whose workers would write turns where this
// client does not see them.
func Open(ctx context.Context, cfg config.Config) (*Client, error) {
	j, err := openjournal.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	c, err := dial(ctx, cfg, j)
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	c.closeJournal = j.Close
	return c, nil
}

// dial connects to the Temporal server of a configuration and returns a client with this journal.
func dial(ctx context.Context, cfg config.Config, j *journal.DB) (*Client, error) {
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
	return New(temporal, Options{
		Journal: j, TaskQueue: cfg.Temporal.TaskQueue, Agent: config.DefaultAgent, Tenant: cfg.Tenant,
		DataConverter: keys.DataConverter(namespace),
	}), nil
}

// OfTenant returns a client for another tenant, which shares the connection and the journal of c: it is valid until c is
// closed, and its Close does nothing.
func (c *Client) OfTenant(tenant string) *Client {
	o := c.options
	o.Journal, o.Tenant = c.journal, tenant
	return New(c.temporal, o)
}

// Journal returns the client's journal, of its tenant only; nil if it has none.
func (c *Client) Journal() Journal { return c.journal }

// Close closes the connection and the journal that Open has opened. It does nothing for a client of New.
func (c *Client) Close() error {
	if c.closeJournal == nil {
		return nil
	}
	c.temporal.Close()
	return c.closeJournal()
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

// NewMessageID returns a random ID for a message.
func NewMessageID() string { return "m-" + strings.ToLower(rand.Text()[:16]) }

// NewSessionID returns a random session ID.
func NewSessionID() string { return "s-" + strings.ToLower(rand.Text()[:12]) }

// WorkflowID returns the ID of the workflow that runs the session's turns.
func (c *Client) WorkflowID(session string) string {
	return workflows.WorkflowID(c.options.Tenant, session)
}
