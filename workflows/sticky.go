package workflows

import (
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// A server with session affinity keeps state between the calls of a turn, in one process on one worker. The turn's
// first call may go to any worker; later calls go to the sticky queue of that worker. If the worker is lost, so is the
// server's state. The next call then fails with an error that says so, and the call after that starts with a new
// server.

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

// awaitConnection waits while another call makes the turn's connection to the tool's server, if the server has session
// affinity. If the turn then has no connection, this call makes it, and other calls wait. The caller must call done
// with the call's receipt and error: it records the connection and lets the waiting calls continue.
func (r *run) awaitConnection(ctx workflow.Context, tool turn.Tool) (done func(CallResult, error), err error) {
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
	r.connecting[name] = true // until done is called
	return func(receipt CallResult, err error) {
		delete(r.connecting, name)
		if err == nil && receipt.StickyQueue != "" {
			r.setStickyQueue(name, receipt.StickyQueue)
			r.setOwningCall(name, receipt.CallID)
		}
	}, nil
}

// setStickyQueue records the task queue of the worker that holds the turn's connection to a server; "" means that the
// connection is lost, which the next call reports.
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

// dropStickyQueue forgets the turn's connection to a server, so that the next call makes a new one.
func (r *run) dropStickyQueue(name string) {
	delete(r.progress.StickyQueues, name)
	delete(r.progress.OwningCalls, name)
}

// stickyQueue returns the task queue of the worker that holds the turn's connection to the tool's server, or "" if
// there is none.
func (r *run) stickyQueue(tool turn.Tool) string {
	if !tool.SessionAffinity {
		return ""
	}
	return r.progress.StickyQueues[server(tool)]
}

// recordDependence records in c whether the call depends on state that its server keeps for the turn: the turn has
// already called this server. All attempts of a call depend on the same state: if it is lost, none of them may run.
func (r *run) recordDependence(c *callState, tool turn.Tool) {
	if _, known := r.progress.StickyQueues[server(tool)]; known && tool.SessionAffinity && !c.Resume {
		c.Resume, c.OwningCall = true, r.progress.OwningCalls[server(tool)]
	}
}

// handleStateLost updates the turn's connection to the tool's server if err means that the connection, and with it the
// state that the call depends on, is lost. It returns the error to report: tool_state_lost if no worker took the call
// from its sticky queue in time, so that it was not sent, and otherwise err.
func (r *run) handleStateLost(c *callState, tool turn.Tool, err error) error {
	name := server(tool)
	current := r.progress.OwningCalls[name] == c.OwningCall // no other call has made a new connection since
	switch {
	case !c.Resume || err == nil:
		return err
	case neverStarted(err):
		err = temporal.NewApplicationError(stateLostText, string(turn.CodeToolStateLost))
	case attemptLost(err) && current && r.progress.StickyQueues[name] != "":
		// Another attempt looks up in the journal how this call ended. The next call reports that the state is lost.
		r.setStickyQueue(name, "")
	}
	if code(err) == turn.CodeToolStateLost && current {
		r.dropStickyQueue(name)
	}
	return err
}

// stateLostText is the model's text for a call that was not sent because its server's state is lost.
const stateLostText = "server state lost: the worker that held the connection to this server is gone, and with it " +
	"the state that the server " +
	"kept for this turn. The call was not made. The next call starts with a new server."
