package workflows

import (
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// A server with session affinity keeps state between the calls of a turn, in one process on one worker. The turn's first
// call may go to any worker; later ones go to the sticky queue of that worker. If the worker is lost, so is the server's
// state. The model is told, and its next call starts without state.

// stickyTimeout is how long a call waits for the worker of its sticky queue to start it. A healthy worker starts it at
// once.
const stickyTimeout = 15 * time.Second

// server returns the part of a tool's ID that names its server: "mcp/git" of "mcp/git/status".
func server(tool turn.Tool) string {
	if i := strings.LastIndexByte(tool.ID, '/'); i > 0 {
		return tool.ID[:i]
	}
	return tool.ID
}

// awaitOwner waits while another call makes the turn's connection to the tool's server. The caller must pass its call's
// receipt and error to the returned function.
func (r *run) awaitOwner(ctx workflow.Context, tool turn.Tool) (settle func(CallResult, error), err error) {
	if !tool.SessionAffinity {
		return func(CallResult, error) {}, nil
	}
	name := server(tool)
	if err := workflow.Await(ctx, func() bool { return !r.connecting[name] }); err != nil {
		return nil, err
	}
	if _, known := r.progress.StickyQueues[name]; known {
		return func(CallResult, error) {}, nil
	}
	r.connecting[name] = true
	return func(receipt CallResult, err error) {
		delete(r.connecting, name)
		if err == nil && receipt.StickyQueue != "" {
			r.setStickyQueue(name, receipt.StickyQueue)
			r.setOwningCall(name, receipt.CallID)
		}
	}, nil
}

func (r *run) setStickyQueue(name, queue string) {
	if r.progress.StickyQueues == nil {
		r.progress.StickyQueues = map[string]string{}
	}
	r.progress.StickyQueues[name] = queue
}

// setOwningCall records the call that created the turn's connection to a server: see CallInput.OwningCall.
func (r *run) setOwningCall(name, call string) {
	if r.progress.OwningCalls == nil {
		r.progress.OwningCalls = map[string]string{}
	}
	r.progress.OwningCalls[name] = call
}

func (r *run) dropStickyQueue(name string) {
	delete(r.progress.StickyQueues, name)
	delete(r.progress.OwningCalls, name)
}

func (r *run) stickyQueue(tool turn.Tool) string {
	if !tool.SessionAffinity {
		return ""
	}
	return r.progress.StickyQueues[server(tool)]
}

// recordDependence records whether the call depends on the state that its server keeps for the turn. All attempts of
// a call depend on the same state: if it is lost, none of them may run without it.
func (r *run) recordDependence(c *callState, tool turn.Tool) {
	if _, known := r.progress.StickyQueues[server(tool)]; known && tool.SessionAffinity && !c.dependsOnState {
		c.dependsOnState, c.owningCall = true, r.progress.OwningCalls[server(tool)]
	}
}

// checkStateLost forgets the server's sticky queue if err means that the state that the call depends on is lost, unless
// another call has created new state since. A call that its sticky queue did not start in time was not sent.
func (r *run) checkStateLost(c *callState, tool turn.Tool, err error) error {
	name := server(tool)
	current := r.progress.OwningCalls[name] == c.owningCall
	switch {
	case !c.dependsOnState || err == nil:
		return err
	case neverStarted(err):
		err = temporal.NewApplicationError(stateLostText, string(turn.CodeToolStateLost))
	case attemptLost(err) && current && r.progress.StickyQueues[name] != "":
		r.setStickyQueue(name, "") // the journal knows the call's fate; the state that it relied on is gone
	}
	if code(err) == turn.CodeToolStateLost && current {
		r.dropStickyQueue(name)
	}
	return err
}

const stateLostText = "server state lost: the worker that held the connection to this server is gone, and with it " +
	"the state that the server " +
	"kept for this turn. The call was not made. The next call starts with a new server."
