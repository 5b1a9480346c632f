package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// turnClient is a command's client for turns, with the journal that the command itself reads.
type turnClient struct {
	app   *app
	store *journal.DB
	cfg   config.Config
	// client only reads the journal until the command has connected to Temporal.
	client    *client.Client
	conn      temporalconn.Conn // nil until the command has connected
	online    bool              // client has a connection
	closeConn func()            // closes the connection that call has opened
	// failed reports the end of this command's own worker; nil if the command has no worker.
	failed <-chan error
}

// started names a turn, with its link.
type started struct {
	Version int `json:"v"`
	client.Turn
	Link string `json:"link"`
}

// newTurnClient returns a client that uses a connection, which may be nil, and a journal. The caller closes both.
func (a *app) newTurnClient(c temporalconn.Conn, store *journal.DB, cfg config.Config,
	failed <-chan error) *turnClient {
	t := &turnClient{app: a, store: store, cfg: cfg, failed: failed, closeConn: func() {}}
	t.connect(c)
	return t
}

// connect makes the client use a connection from now on; nil means no connection.
func (t *turnClient) connect(c temporalconn.Conn) {
	t.conn, t.online = c, c != nil
	t.client = client.New(c, client.Options{
		Journal: t.store, TaskQueue: t.cfg.Temporal.TaskQueue, Agent: t.cfg.Runtime.Agent, Tenant: t.cfg.Tenant,
	})
}

// send sends a message to its session. If it returns no error, the message will be answered exactly once.
func (t *turnClient) send(ctx context.Context, in client.SendInput) (started, error) {
	sent, err := t.client.Send(ctx, in)
	if err != nil {
		return started{}, sendError(sent, in.Alone, err)
	}
	return t.linked(sent), nil
}

// linked adds the link to a turn.
func (t *turnClient) linked(named client.Turn) started {
	s := started{Version: workflows.WireVersion, Turn: named}
	s.Link = t.link(s)
	return s
}

// sendError says what to do about a message that was not accepted.
func sendError(sent client.Turn, alone bool, err error) error {
	var refused *turn.Error
	session := quoted(sent.Session)
	switch {
	case errors.Is(err, client.ErrBusy) && alone:
		return &exitError{code: exitFailed, cause: fmt.Errorf("session %q has a running turn: "+
			"follow it with `starter attach %s`, or stop it with `starter stop %s`", sent.Session, session, session)}
	case errors.Is(err, client.ErrInvalid) && errors.As(err, &refused):
		return usage("the message was refused: %s", refused.Message)
	case errors.As(err, &refused):
		return &exitError{code: exitFailed, cause: fmt.Errorf("the message was not accepted: %s", refused.Message)}
	case errors.Is(err, client.ErrNoWorker):
		return noWorker(fmt.Sprintf("the message may still be accepted: send it again with --message-id %s, and it is "+
			"answered once", sent.MessageID))
	}
	return err
}

// noWorker is the error of a request that no worker has answered.
func noWorker(then string) error {
	return &exitError{code: exitUnreachable, cause: fmt.Errorf("%w: start one with `starter dev` or `go run ./worker`; %s",
		client.ErrNoWorker, then)}
}

// answerWithin is how long a request may go without an answer before the command tells the user why. A worker answers
// within moments.
const answerWithin = 2 * time.Second

// untilWorkerAnswers calls ask, which only a worker answers, and tells the user if no worker answers for a while.
func (t *turnClient) untilWorkerAnswers(ask func() error) error {
	done := make(chan error, 1)
	go func() { done <- ask() }()
	select {
	case err := <-done:
		return err
	case <-time.After(answerWithin):
	}
	t.app.note("no worker has answered yet: Temporal keeps the request until a worker runs, for example `starter dev`")
	return <-done
}

// link returns the link to the turn in Temporal's Web UI.
func (t *turnClient) link(s started) string { return t.runLink(t.client.WorkflowID(s.Session), s.ID) }

// runLink returns the link to a run of a workflow in Temporal's Web UI.
func (t *turnClient) runLink(workflowID, run string) string {
	return fmt.Sprintf("%s/workflows/%s/%s/history", webUI(t.cfg.Temporal), url.PathEscape(workflowID),
		url.PathEscape(run))
}

// webUI returns the address at which Temporal's Web UI shows the configured namespace.
func webUI(c config.Temporal) string {
	base := c.UIURL
	if base == "" {
		base = fmt.Sprintf("http://127.0.0.1:%d", c.DevUIPort)
	}
	return strings.TrimRight(base, "/") + "/namespaces/" + url.PathEscape(c.Namespace)
}
