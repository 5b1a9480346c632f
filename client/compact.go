package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/workflows"
)

// CompactInput names the session to compact.
type CompactInput struct {
	Session string
	// Focus is what the summary is to keep above all, at most 1000 bytes. It may be empty.
	Focus string
}

// Compact compacts the conversation of a session that has no running turn: a model summarizes it, and the prompts of
// later turns contain the summary instead. The transcript stays as it is, so a fork at an earlier message has the whole
// conversation. Compact waits until a worker has done this. If ctx ends first, the worker continues.
//
// Errors: ErrNotFound, ErrBusy if a turn is running, ErrInvalid, ErrUnreachable.
func (c *Client) Compact(ctx context.Context, in CompactInput) (workflows.CompactResult, error) {
	var res workflows.CompactResult
	if c.temporal == nil {
		return res, ErrUnreachable
	}
	if c.journal != nil {
		if _, err := c.journal.Session(ctx, in.Session); err != nil {
			return res, err
		}
	}
	o := client.StartWorkflowOptions{
		ID: c.WorkflowID("compact-" + rand.Text()), TaskQueue: c.options.TaskQueue,
		StaticSummary: workflows.Summary("compact " + in.Session), Priority: workflows.Priority(c.options.Tenant, false),
	}
	run, err := retryRequest(ctx, c, func(ctx context.Context) (client.WorkflowRun, error) {
		return c.temporal.ExecuteWorkflow(ctx, o, workflows.CompactWorkflow, workflows.CompactInput{
			Version: workflows.WireVersion, Session: in.Session, Tenant: c.options.Tenant, Focus: in.Focus,
		})
	})
	if err != nil {
		return res, fmt.Errorf("asking Temporal to compact the session: %w", err)
	}
	err = run.Get(ctx, &res)
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return res, refusalError(app)
	}
	return res, err
}
