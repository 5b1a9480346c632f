package workflows

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// Turn carries one user message to its answer. Its workflow ID derives from the session's ID (see WorkflowID), so
// Temporal itself limits a session to one turn at a time.
//
// A turn that answers, or that a limit ends, completes with a Result. A turn that fails ends with an application error
// whose type is its turn.Code, and a cancelled turn ends with Temporal's Canceled error. Both errors have a Result as
// their detail, and both leave a transcript that the session's next turn can build on.
func Turn(ctx workflow.Context, in Input) (Result, error) {
	in = in.bound(ctx)
	r := newRun(ctx, in)
	if err := r.registerHandlers(ctx); err != nil {
		return Result{}, err
	}
	var phase turn.Phase
	if in.Continued != nil {
		phase = r.resumePhase()
	} else {
		phase = r.start(ctx, turn.Open(&r.progress))
	}
	for {
		switch p := phase.(type) {
		case turn.BuildPrompt: // the only phase whose whole state is in r.progress, which the next run gets
			if r.historyTooLong(ctx) {
				return Result{}, r.continueAsNew(ctx)
			}
			phase = r.buildPrompt(ctx, p)
		case turn.LlmInfer:
			r.show(ctx)
			phase = r.llmInfer(ctx, p)
		case turn.ParseAction:
			phase = r.parseAction(ctx, p)
		case turn.CallTool:
			r.show(ctx)
			phase = r.callTool(ctx, p)
		case turn.Done:
			return r.done(ctx, p)
		default:
			return Result{}, errors.New("the turn is in no known phase")
		}
		if r.progress.Waiting != nil { // see mayMove
			return Result{}, r.continueAsNew(ctx)
		}
	}
}

// run is the state of one run of a turn: its input and its progress.
type run struct {
	in           Input
	id           string // the workflow ID
	session      string
	turnID       string
	runID        string
	progress     turn.Progress
	phase        turn.PhaseName
	begun        bool     // the Begin activity has succeeded: the journal has the turn
	opening      string   // the ID of the message that begins the turn
	refused      *Message // the message with which Begin failed; nil if Begin did not fail
	opened       bool     // the turn has its first message, and may still be waiting for Begin
	stopping     bool     // the turn accepts no more messages: it was cancelled, or it delivers its unused messages
	queuedByStop []string // the IDs of messages that arrived after a cancellation and were queued for that reason only
	requests     requestSet
	expiresAt    time.Time       // when the requests expire with which a run continues; zero: no such requests, or never
	attempt      int             // Waiting.Attempt of the calls with which a run continues
	connecting   map[string]bool // the servers to which a call is making the turn's connection
	worked       time.Duration   // the working time of the step's calls so far; see addWork
	calls        []*callState    // the calls of the step under way; nil if there are none
	agents       *stepAgents     // the subagents that the step calls; nil if there are none
}

// newRun returns the state of a run with all fields that the update and query handlers use. They must be set first: an
// update that arrives with the start of a run is handled during the registration of the handlers.
func newRun(ctx workflow.Context, in Input) *run {
	info := workflow.GetInfo(ctx)
	id := info.WorkflowExecution.ID
	r := &run{in: in, id: id, session: in.sessionOf(id), turnID: turnID(info, in), runID: info.WorkflowExecution.RunID,
		phase:      turn.PhaseStart,
		connecting: map[string]bool{}}
	if in.Continued != nil {
		r.progress, r.begun, r.opened = *in.Continued, true, true
		if p := in.Continued.Waiting; p != nil {
			r.requests.requests, r.requests.messagesBefore = p.Requests, p.MessagesBefore
		}
	}
	if in.Message != nil {
		r.opening = in.Message.ID
	}
	r.progress.Observe = r.observer(ctx)
	return r
}

// turnID returns the ID of the run in which the turn began. A chain of runs is one turn.
func turnID(info *workflow.Info, in Input) string { return cmp.Or(in.Turn, info.FirstRunID) }

// observer returns the function that observes each transition: it logs the transition and sets the phase for the State
// query.
func (r *run) observer(ctx workflow.Context) func(turn.Transition) {
	log := workflow.GetLogger(ctx)
	return func(t turn.Transition) {
		r.phase = t.To
		log.Debug("transition", "turn", r.turnID, "from", t.From, "to", t.To, "step", t.Step)
	}
}

// historyTooLong reports whether the turn should continue in a new run because its history is long. A cancelled turn
// ends in this run.
func (r *run) historyTooLong(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested() && ctx.Err() == nil
}

// continueAsNew returns the error that continues the turn in a new run, with r.progress. It first waits for the update
// handlers, because an update that is not finished would be lost.
func (r *run) continueAsNew(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return err
	}
	progress := r.progress
	return nextRun(ctx, TurnWorkflow, Input{
		Version: WireVersion, Session: r.session, Tenant: r.in.Tenant, Agent: r.in.Agent, Continued: &progress,
		Turn: r.turnID, Caller: r.in.Caller, Asks: r.in.Asks,
	})
}

// done settles the turn, records its end in the search attributes and returns the result or error of the workflow.
// Messages that the turn accepted and did not use begin the session's next turn: done starts a delivery that sends
// them. A cancelled turn instead keeps in its transcript the messages that it would have merged.
func (r *run) done(ctx workflow.Context, p turn.Done) (Result, error) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx) // a cancelled turn must be settled, too
	defer cancel()
	e := p.Result
	if e.State == turn.StateCancelled {
		r.stopBackground(ctx, r.progress.Background)
	}
	r.stopping = e.State == turn.StateCancelled
	if err := r.upsertResult(ctx, e); err != nil {
		return Result{}, err
	}
	e, kept, err := r.settle(ctx, e)
	if err != nil {
		return Result{}, err
	}
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return Result{}, err
	}
	r.showEnding(ctx, e)
	left := slices.DeleteFunc(r.unanswered(), func(m Message) bool { return slices.Contains(kept, m.ID) })
	left = r.unqueue(left)
	if err := r.deliverLeft(ctx, e, left); err != nil {
		return Result{}, err
	}
	discardNudges(ctx)
	return r.outcome(e, left)
}

// settle records in the journal that the turn ended with e, if the journal has the turn or must have it. It returns the
// result to report, which is a failure if the journal could not record e, and the IDs of the accepted messages that the
// transcript of a cancelled turn keeps.
func (r *run) settle(ctx workflow.Context, e turn.Result) (turn.Result, []string, error) {
	// A turn whose Begin failed is recorded only if its caller would not see the failure otherwise: a delivery sent the
	// message, or more messages wait for this run.
	recordRefusal := r.refused != nil && (r.refused.Late || len(r.unanswered()) > 0)
	if !r.begun && !recordRefusal {
		return e, nil, nil
	}
	unmerged := r.unmerged()
	settled, err := r.finish(ctx, e, unmerged)
	if err != nil {
		answer := e.Answer
		e = r.resultOf(err)
		e.Answer = answer
		return e, nil, r.upsertResult(ctx, e) // again, because done has recorded another result
	}
	r.stopBackground(ctx, slices.DeleteFunc(settled.Stopped, // without the turn's own, which done has stopped
		func(s string) bool { return slices.Contains(r.progress.Background, s) }))
	if settled.Answer != "" { // the partial text of an inference that was cancelled
		e.Answer = settled.Answer
	}
	if settled.Usage != nil {
		r.progress.Counters.Usage = *settled.Usage
		if err := r.upsertCost(ctx); err != nil {
			return e, nil, err
		}
	}
	var kept []string // all of unmerged that the transcript has
	for _, m := range unmerged {
		if !slices.Contains(settled.Undelivered, m.ID) {
			kept = append(kept, m.ID)
		}
	}
	return e, kept, nil
}

// unmerged returns the accepted messages that a cancelled turn would have merged: its transcript keeps them. It returns
// nil if the turn was not cancelled.
func (r *run) unmerged() []Message {
	if !r.stopping {
		return nil
	}
	return slices.DeleteFunc(r.unanswered(), func(m Message) bool { return m.Queue })
}

// unqueue clears Queue of the messages that send queued only because they arrived after a cancellation. The next turn
// merges them then. If they stayed queued, later messages would overtake them.
func (r *run) unqueue(left []Message) []Message {
	for i, m := range left {
		left[i].Queue = m.Queue && !slices.Contains(r.queuedByStop, m.ID)
	}
	return left
}

// unanswered returns the accepted messages that no completed inference has seen: those to be merged, then the inbox. A
// message to be merged may be in the transcript already, if its inference failed later. It is then not appended again
// when it is delivered.
func (r *run) unanswered() []Message {
	return append(slices.Clone(r.progress.Merging), r.progress.Inbox...)
}

// outcome returns the result or error with which the workflow closes. left are the messages that the turn accepted and
// did not use.
func (r *run) outcome(e turn.Result, left []Message) (Result, error) {
	result := r.result(e)
	for _, m := range left {
		result.Left = append(result.Left, m.ID)
	}
	switch e.State {
	case turn.StateFailed:
		return Result{}, temporal.NewApplicationErrorWithOptions(e.Message, string(e.Code),
			temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{result}})
	case turn.StateCancelled:
		return Result{}, temporal.NewCanceledError(result)
	}
	return result, nil
}

// result returns the workflow's Result for a turn that ended with e. Busy is set only for a subagent's turn, because
// only the caller of a subagent counts it.
func (r *run) result(e turn.Result) Result {
	c := r.progress.Counters
	out := Result{
		Version: WireVersion, Session: r.session, Turn: r.turnID, State: e.State, FinishReason: e.Reason,
		Answer: e.Answer, Truncated: e.Truncated, DuplicateOf: e.DuplicateOf, Code: e.Code, Message: e.Message,
		Usage: c.Usage, Steps: c.Step, ToolCalls: c.ToolCalls, Model: r.progress.Config.Model,
	}
	if !r.in.Caller.IsZero() {
		out.Busy = c.Busy
	}
	return out
}
