package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/sessions"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// turnClient starts turns and follows them: how they go it reads from the journal, and what never gets there it asks
// Temporal.
type turnClient struct {
	app   *app
	store journal.Store
	cfg   config.Config
	// client and sessions are nil where Temporal is away and the journal is enough.
	client   client.Client
	sessions *sessions.Client
	dialled  bool // client is to be closed
	// failed reports the end of this command's own worker; nil where it has none.
	failed <-chan error
}

// started names a turn that was accepted.
type started struct {
	Version int    `json:"v"`
	Session string `json:"session"`
	Turn    string `json:"turn"`
	// MessageID is set where a message was sent; Joined where Turn was running when it came.
	MessageID string `json:"message_id,omitempty"`
	Joined    bool   `json:"joined,omitempty"`
	Link      string `json:"link"`
}

// newTurnClient makes a client of a connection, which may be nil, and of a journal; both stay the caller's.
func (a *app) newTurnClient(c client.Client, store journal.Store, cfg config.Config, failed <-chan error) *turnClient {
	t := &turnClient{app: a, client: c, store: store, cfg: cfg, failed: failed}
	if c != nil {
		t.sessions = sessions.New(c, sessions.Options{TaskQueue: cfg.Temporal.TaskQueue, Agent: cfg.Runtime.Agent, Tenant: cfg.Tenant, Blobs: store.PutBlob})
	}
	return t
}

// send hands a message to its session. When it returns without an error the message will be answered, once.
func (t *turnClient) send(ctx context.Context, r sessions.Request) (started, error) {
	if err := t.checkName(ctx, r.Session); err != nil {
		return started{}, err
	}
	a, err := t.sessions.Send(ctx, r)
	if err != nil {
		return started{}, sendError(a, r.Alone, err)
	}
	s := started{Version: workflows.WireVersion, Session: a.Session, Turn: a.Turn, MessageID: a.MessageID, Joined: a.Joined}
	s.Link = t.link(s)
	return s, nil
}

// checkName refuses the name of a session that is another tenant's: its turn would be. Of a new session there is none.
func (t *turnClient) checkName(ctx context.Context, session string) error {
	taken, err := journal.Taken(ctx, t.store, session)
	if taken {
		return usage("the name of this session is taken; nothing was sent: choose another name than %q", session)
	}
	return err
}

// sendError says what to do about a message that was not accepted.
func sendError(a sessions.Accepted, alone bool, err error) error {
	var refused *turn.Error
	var attribute *serviceerror.InvalidArgument
	switch {
	case errors.As(err, &refused) && refused.Code == turn.CodeSessionBusy && alone:
		return &exitError{code: exitFailed, cause: fmt.Errorf("session %q is busy with a turn: follow it with `starter attach %s`, or stop it with `starter stop %s`", a.Session, quoted(a.Session), quoted(a.Session))}
	case errors.As(err, &refused) && refused.Code == turn.CodeConfigInvalid:
		return usage("the message is refused: %s", refused.Message)
	case errors.As(err, &refused):
		return &exitError{code: exitFailed, cause: fmt.Errorf("the message is not taken: %s", refused.Message)}
	case errors.Is(err, sessions.ErrNoWorker):
		return noWorker(fmt.Sprintf("the message may be taken yet: send it again with `--message-id %s`, and it is answered once", a.MessageID))
	case errors.As(err, &attribute):
		return fmt.Errorf("%w (were the search attributes added? a worker adds them when it starts)", err)
	}
	return err
}

// noWorker is what a request ends with that no worker has answered.
func noWorker(then string) error {
	return &exitError{code: exitUnreachable, cause: fmt.Errorf("%w: start one with `starter dev` or `go run ./worker`; %s", sessions.ErrNoWorker, then)}
}

// unanswered is how long a request may go without an answer before a person is told why. A worker answers within moments.
const unanswered = 2 * time.Second

// patiently asks for something that only a worker answers, and says so where none does for a while.
func (t *turnClient) patiently(ask func() error) error {
	done := make(chan error, 1)
	go func() { done <- ask() }()
	select {
	case err := <-done:
		return err
	case <-time.After(unanswered):
	}
	t.app.note("no worker has answered yet: Temporal keeps what was asked for until one runs, for instance `starter dev`")
	return <-done
}

// workflowID is that of a session of the tenant's. What runs under the ID of another tenant's session is out of reach.
func (t *turnClient) workflowID(session string) string {
	return workflows.WorkflowID(t.cfg.Tenant, session)
}

// link leads to the turn in Temporal's Web UI.
func (t *turnClient) link(s started) string { return t.runLink(t.workflowID(s.Session), s.Turn) }

// runLink leads to a run of a workflow there.
func (t *turnClient) runLink(workflowID, run string) string {
	return fmt.Sprintf("%s/workflows/%s/%s/history", webUI(t.cfg.Temporal), url.PathEscape(workflowID), url.PathEscape(run))
}

// webUI is where Temporal's Web UI shows the configured namespace.
func webUI(c config.Temporal) string {
	base := c.UIURL
	if base == "" {
		base = fmt.Sprintf("http://127.0.0.1:%d", c.DevUIPort)
	}
	return strings.TrimRight(base, "/") + "/namespaces/" + url.PathEscape(c.Namespace)
}
