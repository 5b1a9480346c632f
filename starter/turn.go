package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// turnClient starts turns and follows them: through Temporal what they come to, through the journal how.
type turnClient struct {
	app    *app
	client client.Client
	store  journal.Store
	cfg    config.Config
	// failed reports the end of this command's own worker; nil where it has none.
	failed <-chan error
}

// started names a turn that was accepted.
type started struct {
	Version int    `json:"v"`
	Session string `json:"session"`
	Turn    string `json:"turn"`
	Link    string `json:"link"`
}

// inlineMessage is how much of a message travels in the workflow's input, in bytes; a longer one goes into the journal
// and is named. Temporal refuses payloads over 2 MiB.
const inlineMessage = 256 << 10

// start hands the message to Temporal. When it returns without an error the turn is accepted and will be answered.
func (t *turnClient) start(ctx context.Context, f runFlags, prompt string) (started, error) {
	session := f.session
	if session == "" {
		session = "s-" + strings.ToLower(rand.Text()[:12])
	}
	message := workflows.Message{ID: f.messageID, Text: prompt}
	if len(prompt) > inlineMessage {
		hash, err := t.store.PutBlob(ctx, "text/plain", []byte(prompt))
		if err != nil {
			return started{}, fmt.Errorf("putting the message into the journal: %w", err)
		}
		message.Text, message.Blob = "", hash
	}
	if err := t.checkJournal(ctx); err != nil {
		return started{}, err
	}
	run, err := t.client.ExecuteWorkflow(ctx, t.options(session), workflows.TurnWorkflow,
		workflows.Input{Version: workflows.WireVersion, Session: session, Message: &message, Limits: f.limits.request})
	if err != nil {
		return started{}, startError(session, err)
	}
	s := started{Version: workflows.WireVersion, Session: session, Turn: run.GetRunID()}
	s.Link = t.link(s)
	return s, nil
}

// checkJournal refuses to start a turn on another folder's development server: its workers would carry the turn on, in
// a journal that this command does not see. Of a server that does not tell whose it is nothing can be said.
func (t *turnClient) checkJournal(ctx context.Context) error {
	path, err := filepath.Abs(t.cfg.Journal.Path)
	if err != nil {
		return fmt.Errorf("finding the journal: %w", err)
	}
	err = checkOwner(ctx, t.client, t.cfg.Temporal, filepath.Dir(path))
	var refused *exitError
	if errors.As(err, &refused) {
		return err
	}
	return nil
}

func (t *turnClient) options(session string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: session, TaskQueue: t.cfg.Temporal.TaskQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		// Without it the SDK takes the turn that runs for the one that was asked for, and the message is lost.
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:                            "Everturn turn of session " + turn.Cut(session, 80),
		StaticDetails:                            "One user request carried to its answer. Its transcript is in the journal: `starter show " + turn.Cut(session, 80) + "`.",
		TypedSearchAttributes: temporal.NewSearchAttributes(
			workflows.AttrSession.ValueSet(session), workflows.AttrAgent.ValueSet(t.cfg.Runtime.Agent),
			workflows.AttrState.ValueSet(string(turn.StateRunning))),
	}
}

func startError(session string, err error) error {
	var running *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &running) {
		return &exitError{code: exitFailed, cause: fmt.Errorf("session %q is busy with a turn: follow it with `starter attach %s`, or stop it with `starter stop %s`", session, session, session)}
	}
	var attribute *serviceerror.InvalidArgument
	if errors.As(err, &attribute) {
		return fmt.Errorf("starting the turn: %w (were the search attributes added? a worker adds them when it starts)", err)
	}
	return fmt.Errorf("starting the turn: %w", err)
}

// link leads to the turn in Temporal's Web UI.
func (t *turnClient) link(s started) string {
	base := t.cfg.Temporal.UIURL
	if base == "" {
		base = fmt.Sprintf("http://127.0.0.1:%d", t.cfg.Temporal.DevUIPort)
	}
	return fmt.Sprintf("%s/namespaces/%s/workflows/%s/%s/history", strings.TrimRight(base, "/"),
		url.PathEscape(t.cfg.Temporal.Namespace), url.PathEscape(s.Session), url.PathEscape(s.Turn))
}

// result waits for the turn and returns what it came to: its value, or the detail of its failure or cancellation.
func (t *turnClient) result(ctx context.Context, s started) (workflows.Result, error) {
	var r workflows.Result
	err := t.client.GetWorkflow(ctx, s.Session, s.Turn).Get(ctx, &r)
	if err == nil {
		return r, nil
	}
	var app *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	var terminated *temporal.TerminatedError
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &app) && app.HasDetails() && app.Details(&r) == nil:
		return r, nil
	case errors.As(err, &cancelled) && cancelled.HasDetails() && cancelled.Details(&r) == nil:
		return r, nil
	case errors.As(err, &terminated), errors.As(err, &timeout):
		return workflows.Result{Version: workflows.WireVersion, Session: s.Session, Turn: s.Turn, State: turn.StateClosed, FinishReason: turn.FinishTerminated,
			Message: "the turn was ended from outside; what was done is kept, and the session's next turn goes on from it"}, nil
	}
	return r, fmt.Errorf("waiting for the turn: %w", err)
}
