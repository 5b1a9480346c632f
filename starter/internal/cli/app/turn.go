package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/devserver"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// dialWithin bounds how long a command waits for Temporal if it can also continue without it.
const dialWithin = 3 * time.Second

// Find returns the turn to follow: the turn turnID or, if that is "", the session's last turn. Temporal may know the
// last turn before the journal does, so Find connects to Temporal unless the journal has the end of the named turn. If
// Temporal is unreachable, Find returns the turn that the journal has. It returns an error if the turn belongs to
// another session, or if neither has it.
func (t *TurnClient) Find(ctx context.Context, session, turnID string) (Started, error) {
	if turnID != "" {
		if row, err := t.Journal.Turn(ctx, turnID); err == nil && row.Session != session {
			return Started{}, Usage("turn %s belongs to session %q: use `everturn attach %s --turn %s`", turnID, row.Session,
				Quoted(row.Session), turnID)
		}
	}
	known, err := t.Client.Find(ctx, session, turnID) // without a connection, in the journal only
	if err != nil && (t.Online || !errors.Is(err, client.ErrNotFound)) {
		return Started{}, t.notFound(session, turnID, err)
	}
	recorded, ended := err == nil, false
	if recorded {
		r, err := t.Client.Result(ctx, known)
		ended = err == nil && r.State.Terminal()
	}
	if t.Online || turnID != "" && ended {
		return t.linked(known), nil
	}
	return t.findOnTemporal(ctx, known, turnID, recorded, ended)
}

// findOnTemporal connects to Temporal and finds the turn there: the turn turnID, or the session's last turn. If
// Temporal is unreachable, it returns known, the turn that the journal has, with a note to the user unless that turn
// has ended. recorded reports whether the journal has a turn, and ended whether it has ended. If the journal has none,
// known has only the session, and findOnTemporal returns every error of connecting.
func (t *TurnClient) findOnTemporal(ctx context.Context, known client.Turn,
	turnID string, recorded, ended bool) (Started, error) {
	dialCtx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	err := t.ConnectToTemporal(dialCtx)
	unreachable := errors.Is(err, client.ErrUnreachable) || dialCtx.Err() != nil
	switch {
	case err == nil:
		session := known.Session
		if known, err = t.Client.Find(ctx, session, turnID); err != nil {
			return Started{}, t.notFound(session, turnID, err)
		}
	case ended && errors.Is(err, config.ErrInvalid): // another folder's server uses our address; ours is not running
	case !recorded, !unreachable:
		return Started{}, err
	case !ended:
		t.App.Note("Temporal is unreachable; showing what the journal has of the turn (%v)", err)
	}
	return t.linked(known), nil
}

// notFound turns client.ErrNotFound into an error that says which command lists the turns or sessions. It returns every
// other error unchanged. turnID may be "".
func (t *TurnClient) notFound(session, turnID string, err error) error {
	switch {
	case !errors.Is(err, client.ErrNotFound):
		return err
	case turnID != "":
		return Usage("session %q has no turn %q; `everturn show %s` lists its turns", session, turnID, Quoted(session))
	}
	return Usage("Temporal has no session %q; `everturn list` lists the sessions of the journal", session)
}

// Latest returns the ID of the session that was used last.
func (t *TurnClient) Latest(ctx context.Context) (string, error) { return LastSession(ctx, t.Journal) }

// Running returns the ID of the session with a running turn. It returns an error if there are none or several.
func (t *TurnClient) Running(ctx context.Context) (string, error) {
	if err := t.ConnectToTemporal(ctx); err != nil {
		return "", err
	}
	found, err := t.Client.RunningSessions(ctx)
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", Usage("no session has a running turn; `everturn list` lists the sessions")
	case len(found) == 1:
		return found[0], nil
	}
	return "", Usage("several sessions have a running turn: name one of them (%s)", Line(strings.Join(found, ", "), 400))
}

// Fork creates a session that shares messages 1..at of the given session, or all its messages if at is 0. as is the new
// session's ID; if it is "", the client chooses one.
func (t *TurnClient) Fork(ctx context.Context, session string, at int64, as string) (client.Session, error) {
	rec, err := t.Client.Fork(ctx, client.ForkInput{Session: session, At: at, ID: as})
	switch {
	case errors.Is(err, client.ErrNotFound):
		return rec, Usage("the journal has no session %q; `everturn list` lists them", session)
	case errors.Is(err, client.ErrForkPoint):
		return rec, Usage("%w; `everturn show %s` numbers its messages", err, Quoted(session))
	case errors.Is(err, client.ErrExists):
		return rec, Usage("session %q already exists: choose another name, or continue it with `everturn run -s %s \"...\"`",
			as, Quoted(as))
	}
	return rec, err
}

// TurnClient is a command's client for turns, with the journal that the command itself reads.
type TurnClient struct {
	App     *App
	Journal client.Journal
	Cfg     config.Config
	// Client only reads the journal until the command has connected to Temporal.
	Client    *client.Client
	conn      temporalconn.Conn // nil until the command has connected
	Online    bool              // Client is connected to Temporal
	quiet     bool              // print no notes about waiting
	closeConn func()            // closes the connection that ConnectToTemporal has opened
	// Failed gets an error when this command's own worker ends. It is nil if the command has no worker.
	Failed <-chan error
}

// Started is a turn with its link in the Web UI, as -o json prints it.
type Started struct {
	Version int `json:"v"`
	client.Turn
	// Queued means that the message waits for the end of this turn, and then starts a turn of its own.
	Queued bool   `json:"queued,omitempty"`
	Link   string `json:"link"`
}

// NewTurnClient returns a client that uses the connection c, or no connection if c is nil, and the journal j. The
// caller closes both. failed becomes TurnClient.Failed.
func (a *App) NewTurnClient(c temporalconn.Conn, j client.Journal, cfg config.Config,
	failed <-chan error) *TurnClient {
	t := &TurnClient{App: a, Journal: j, Cfg: cfg, Failed: failed, closeConn: func() {}}
	t.connect(c)
	return t
}

// connect makes t use the connection c from now on; nil means no connection.
func (t *TurnClient) connect(c temporalconn.Conn) {
	t.conn, t.Online = c, c != nil
	o := client.Options{TaskQueue: t.Cfg.Temporal.TaskQueue, Agent: config.DefaultAgent, Tenant: t.Cfg.Tenant}
	if t.Journal != nil {
		o.Journal = t.Journal
	}
	o.DataConverter = t.App.keys.DataConverter(t.Cfg.Temporal.Namespace)
	t.Client = client.New(c, o)
}

// Send sends a message to its session and returns the turn that accepted it. If it returns no error, the message will
// be answered exactly once.
func (t *TurnClient) Send(ctx context.Context, in client.SendInput) (Started, error) {
	var sent client.Turn
	err := t.AwaitWorker(ctx, func() (err error) { sent, err = t.Client.Send(ctx, in); return err })
	if err != nil {
		return Started{}, sendError(sent, in.Alone, err)
	}
	s := t.linked(sent)
	s.Queued = sent.Merged && in.Message.Queue
	return s, nil
}

// NoteOtherSettings warns the user if a worker that polls the task queue has started with other settings than this
// command has read: a turn may run under the worker's settings. It does not warn if this command runs no worker and its
// configuration sets nothing that concerns turns.
func (t *TurnClient) NoteOtherSettings(ctx context.Context) {
	nothingToCompare := t.Failed == nil && t.Cfg.Settings() == config.Default().Settings()
	if !t.Online || t.quiet || nothingToCompare {
		return
	}
	pollers, err := temporalconn.Pollers(ctx, t.conn, t.Cfg.Temporal.TaskQueue)
	if err != nil {
		return // the command's next request to Temporal reports the problem
	}
	if others := temporalconn.WithOtherSettings(pollers, t.Cfg.Settings()); len(others) > 0 {
		t.App.Note("warning: %s", OtherSettings(others, t.Cfg.Temporal.TaskQueue))
	}
}

// OtherSettings returns a warning about the first of others, the workers with other settings. queue is their task
// queue.
func OtherSettings(others []temporalconn.Poller, queue string) string {
	return fmt.Sprintf(
		"worker %s polls task queue %s (now or in the last minute) and began with other settings, for example "+
			"another policy, than this command reads; the turns that it begins follow its settings. Restart or stop it",
		Line(others[0].Identity, 80), queue)
}

// linked returns a turn with its link.
func (t *TurnClient) linked(named client.Turn) Started {
	s := Started{Version: workflows.WireVersion, Turn: named}
	s.Link = t.link(s)
	return s
}

// sendError returns the error for a message that was not accepted, with what the user can do. sent has the session and
// message ID, and alone is client.SendInput's Alone. It returns unknown errors unchanged.
func sendError(sent client.Turn, alone bool, err error) error {
	var refused *turn.Error
	session := Quoted(sent.Session)
	switch {
	case errors.Is(err, client.ErrBusy) && alone:
		return &ExitError{Code: ExitFailed, Cause: fmt.Errorf("session %q has a running turn: "+
			"follow it with `everturn attach %s`, or stop it with `everturn stop %s`", sent.Session, session, session)}
	case errors.Is(err, client.ErrInvalid) && errors.As(err, &refused):
		return Usage("the message was refused: %s", refused.Message)
	case errors.As(err, &refused):
		return &ExitError{Code: ExitFailed, Cause: fmt.Errorf("the message was not accepted: %s", refused.Message)}
	case errors.Is(err, client.ErrNoWorker):
		return NoWorker(err, fmt.Sprintf("the message may still be accepted: send it again with --message-id %s, and it is "+
			"answered once", sent.MessageID))
	}
	return err
}

// NoWorker returns the error of a request that no worker has answered, with the exit code ExitUnreachable. err is
// client.ErrNoWorker or client.ErrVersionLost; then is the end of the message, which says what the user can do.
func NoWorker(err error, then string) error {
	if errors.Is(err, client.ErrVersionLost) {
		return &ExitError{Code: ExitUnreachable, Cause: fmt.Errorf("%w; %s", err, then)}
	}
	return &ExitError{Code: ExitUnreachable, Cause: fmt.Errorf("%w: start one with `everturn dev` or `everturn worker`; %s",
		client.ErrNoWorker, then)}
}

// answerWithin is how long a request may take before the command tells the user that no worker has answered. Normally a
// worker answers in much less time.
const answerWithin = 2 * time.Second

// AwaitWorker calls ask, which a worker must answer, and returns its error. If ask takes longer than two seconds,
// AwaitWorker prints once why (see NoteSilence) and goes on waiting.
func (t *TurnClient) AwaitWorker(ctx context.Context, ask func() error) error {
	done := make(chan error, 1)
	go func() { done <- ask() }()
	select {
	case err := <-done:
		return err
	case <-time.After(answerWithin):
	}
	why := t.whyNoAnswer(ctx)
	select { // the answer may have arrived while the pollers were read
	case err := <-done:
		return err
	default:
	}
	if ctx.Err() == nil {
		t.NoteSilence(ctx, why)
	}
	return <-done
}

// whyNoAnswer describes what a request waits for that no worker has answered for answerWithin.
func (t *TurnClient) whyNoAnswer(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	pollers, err := temporalconn.Pollers(ctx, t.conn, t.Cfg.Temporal.TaskQueue)
	if err != nil || len(pollers) == 0 {
		return "no worker has answered yet; waiting until a worker runs, for example `everturn dev`"
	}
	return fmt.Sprintf("no answer yet: worker %s polls task queue %s (now or in the last minute) and may still be working",
		Line(pollers[0].Identity, 80), t.Cfg.Temporal.TaskQueue)
}

// NoteVersionLost prints a note if the session's running turn is pinned to a version for which no worker runs.
func (t *TurnClient) NoteVersionLost(ctx context.Context, session string) {
	if !t.Online || t.quiet {
		return
	}
	if why, err := temporalconn.LostVersionText(ctx, t.conn, t.Client.WorkflowID(session)); err == nil && why != "" {
		t.App.Note("%s", why)
	}
}

// link returns the link to the turn in Temporal's Web UI.
func (t *TurnClient) link(s Started) string { return t.RunLink(t.Client.WorkflowID(s.Session), s.ID) }

// RunLink returns the link to a run of a workflow in Temporal's Web UI.
func (t *TurnClient) RunLink(workflowID, run string) string {
	return fmt.Sprintf("%s/workflows/%s/%s/history", webUI(t.Cfg.Temporal), url.PathEscape(workflowID),
		url.PathEscape(run))
}

// webUI returns the address at which Temporal's Web UI shows the configured namespace.
func webUI(c config.Temporal) string {
	base := c.UIURL
	if base == "" {
		base = "http://" + devserver.UIAddress(c.Address)
	}
	return strings.TrimRight(base, "/") + "/namespaces/" + url.PathEscape(c.Namespace)
}
