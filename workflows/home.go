package workflows

import (
	"errors"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// A stateful server remembers between the calls of a turn, in one process on one worker: the turn's home. The first call
// goes to any worker, whose own task queue the turn keeps to from then on. Where a home is lost, so is what the server
// remembered: the model is told so, and its next call begins anew.

// homePatience is how long a call waits for its home to take it. A worker that is well takes it at once.
const homePatience = 15 * time.Second

// server is the part of a tool's ID that names its server: "mcp/git" of "mcp/git/status".
func server(tool turn.Tool) string {
	if i := strings.LastIndexByte(tool.ID, '/'); i > 0 {
		return tool.ID[:i]
	}
	return tool.ID
}

// home waits while another call finds the turn its home on the tool's server. What it returns takes the receipt of the
// call that is made then.
func (r *run) home(ctx workflow.Context, tool turn.Tool) (settle func(CallResult, error), err error) {
	if !tool.Stateful {
		return func(CallResult, error) {}, nil
	}
	name := server(tool)
	if err := workflow.Await(ctx, func() bool { return !r.settling[name] }); err != nil {
		return nil, err
	}
	if _, known := r.progress.StickyQueues[name]; known {
		return func(CallResult, error) {}, nil
	}
	r.settling[name] = true
	return func(receipt CallResult, err error) {
		delete(r.settling, name)
		if err == nil && receipt.StickyQueue != "" {
			r.moveHome(name, receipt.StickyQueue)
			r.found(name, receipt.CallID)
		}
	}, nil
}

func (r *run) moveHome(name, home string) {
	if r.progress.StickyQueues == nil {
		r.progress.StickyQueues = map[string]string{}
	}
	r.progress.StickyQueues[name] = home
}

// found notes which call has made the connection that the turn keeps to: see CallInput.OwningCall.
func (r *run) found(name, call string) {
	if r.progress.OwningCalls == nil {
		r.progress.OwningCalls = map[string]string{}
	}
	r.progress.OwningCalls[name] = call
}

func (r *run) loseHome(name string) {
	delete(r.progress.StickyQueues, name)
	delete(r.progress.OwningCalls, name)
}

func (r *run) homeOf(tool turn.Tool) string {
	if !tool.Stateful {
		return ""
	}
	return r.progress.StickyQueues[server(tool)]
}

// lostHome notes what an error says about the tool's home. A call that its home has not taken in time was not sent.
func (r *run) lostHome(tool turn.Tool, err error) error {
	home, known := r.progress.StickyQueues[server(tool)]
	if err == nil || !tool.Stateful || !known {
		return err
	}
	if code(err) == turn.CodeToolStateLost {
		r.loseHome(server(tool))
		return err
	}
	if home == "" || !lost(err) {
		return err
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) && timeout.TimeoutType().String() == "ScheduleToStart" {
		r.loseHome(server(tool))
		return temporal.NewApplicationError(stateLostText, string(turn.CodeToolStateLost))
	}
	r.moveHome(server(tool), "") // the ledger knows what became of this call; what it was to build on is gone
	return err
}

const stateLostText = "server state lost: the worker that held the connection to this server is gone, and with it all that the server " +
	"remembered of this turn. The call was not made. What you do next begins with a new server."
