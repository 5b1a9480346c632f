package app

import (
	"context"
	"fmt"
	"time"

	"github.com/everturn/everturn/internal/loopback"
	"github.com/everturn/everturn/internal/temporalconn"
)

// Waits returns what keeps the session's turn, or a message to the session, from being worked on: Temporal does not
// answer, no worker of its version runs, or an activity is retried. It returns "" if it is none of these.
func (t *TurnClient) Waits(ctx context.Context, session string) string {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	pollers, err := temporalconn.Pollers(ctx, t.conn, t.Cfg.Temporal.TaskQueue)
	switch address := t.Cfg.Temporal.Address; {
	case err != nil && loopback.Address(address):
		return fmt.Sprintf("no Temporal answers at %s (`everturn dev` starts one)", address)
	case err != nil:
		return "no Temporal answers at " + address
	case len(pollers) == 0:
		return fmt.Sprintf("waiting for a worker of task queue %s (`everturn worker` starts one)", t.Cfg.Temporal.TaskQueue)
	}
	if lost, err := temporalconn.LostVersionText(ctx, t.conn, t.Client.WorkflowID(session)); err != nil || lost != "" {
		return lost
	}
	return t.retried(ctx, session)
}

// checkWriteWithin bounds the check whether the journal can be written.
const checkWriteWithin = time.Second

// NoteSilence prints why no worker has answered. If the journal cannot be written, that is the reason, because a worker
// writes to the journal before it answers. If it can be written, NoteSilence prints the text otherwise.
func (t *TurnClient) NoteSilence(ctx context.Context, otherwise string) {
	if t.quiet {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkWriteWithin)
	defer cancel()
	if t.Journal != nil {
		if err := t.Journal.CheckWrite(ctx); err != nil {
			t.App.Note("the journal cannot be written, so no worker can answer; the message waits until it can: %v", err)
			return
		}
	}
	t.App.Note("%s", otherwise)
}
