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
	if err := r.handlers(ctx); err != nil {
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
		case turn.BuildPrompt:
			if r.tooLong(ctx) {
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
		if r.progress.Waiting != nil {
			return Result{}, r.continueAsNew(ctx)
		}
	}
}

// run is the state of one run of a turn: its input and its progress.
type run struct {
	in           Input
	id           string // of the workflow
	session      string
	turnID       string
	runID        string
	progress     turn.Progress
	phase        turn.PhaseName
	begun        bool     // the journal has the turn
	opening      string   // the ID of the message that the turn began with
	refused      *Message // the message that the turn could not begin with
	opened       bool     // a message has begun the turn
	stopping     bool     // the turn was stopped, or hands its messages on: it takes no more
	queuedByStop []string // the IDs of messages that arrived after the stop and would have been merged
	requests     requestSet
	expiresAt    time.Time       // of the requests that a run continues with; zero: none, or never
	connecting   map[string]bool // servers to which a call is making the turn's connection
	worked       time.Duration   // working time of the step's calls so far
	agents       *stepAgents     // that the step calls; nil if there are none
}

// newRun sets all state that the handlers use. An update that arrives with the start of a run is handled while the
// handlers are being registered, before any other code of the run.
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

// tooLong reports whether the history is large enough to continue in a new run.
func (r *run) tooLong(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested() && ctx.Err() == nil
}

func (r *run) continueAsNew(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return err
	}
	progress := r.progress
	return nextRun(ctx, TurnWorkflow, Input{
		Version: WireVersion, Session: r.session, Tenant: r.in.Tenant, Agent: r.in.Agent, Continued: &progress,
		Turn: r.turnID, Asks: r.in.Asks,
	})
}

// done settles the turn, records its end in the search attributes and returns its result. A delivery sends the messages
// that came too late for this turn to the session, where they begin the next turn. A stopped turn keeps in its
// transcript the messages that were to be merged into it.
func (r *run) done(ctx workflow.Context, p turn.Done) (Result, error) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
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
	left := slices.DeleteFunc(r.leftover(), func(m Message) bool { return slices.Contains(kept, m.ID) })
	left = r.release(left)
	if err := r.handOn(ctx, e, left); err != nil {
		return Result{}, err
	}
	takeNudges(ctx)
	return r.outcome(e, left)
}

// settle records in the journal how the turn ended. It returns the ending to report, and the IDs of the accepted
// messages that the transcript of a stopped turn keeps. If the journal cannot record the ending, the turn has failed.
func (r *run) settle(ctx workflow.Context, e turn.Result) (turn.Result, []string, error) {
	if !r.begun && (r.refused == nil || !r.refused.Late && len(r.leftover()) == 0) {
		return e, nil, nil
	}
	late := r.lateMessages()
	settled, err := r.finish(ctx, e, late)
	if err != nil {
		output := e.Answer
		e = r.resultOf(err)
		e.Answer = output
		return e, nil, r.upsertResult(ctx, e)
	}
	r.stopBackground(ctx, slices.DeleteFunc(settled.Stopped,
		func(s string) bool { return slices.Contains(r.progress.Background, s) }))
	if settled.Answer != "" {
		e.Answer = settled.Answer
	}
	if settled.Usage != nil {
		r.progress.Counters.Usage = *settled.Usage
		if err := r.upsertCost(ctx); err != nil {
			return e, nil, err
		}
	}
	var kept []string
	for _, m := range late {
		if !slices.Contains(settled.Undelivered, m.ID) {
			kept = append(kept, m.ID)
		}
	}
	return e, kept, nil
}

// lateMessages returns the messages that were to be merged into a turn that was stopped.
func (r *run) lateMessages() []Message {
	if !r.stopping {
		return nil
	}
	return slices.DeleteFunc(r.leftover(), func(m Message) bool { return m.Queue })
}

// release lets the messages that arrived after a stop be merged into the next turn. Otherwise later messages would
// overtake them.
func (r *run) release(left []Message) []Message {
	for i, m := range left {
		left[i].Queue = m.Queue && !slices.Contains(r.queuedByStop, m.ID)
	}
	return left
}

// leftover returns the accepted messages that have no answer. If such a message is already in the transcript, because
// its inference failed later, the turn that it begins finds it there.
func (r *run) leftover() []Message {
	return append(slices.Clone(r.progress.Merging), r.progress.Inbox...)
}

// outcome returns the result or error with which the workflow closes. left are the messages that the turn leaves.
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

func (r *run) result(e turn.Result) Result {
	c := r.progress.Counters
	out := Result{
		Version: WireVersion, Session: r.session, Turn: r.turnID, State: e.State, FinishReason: e.Reason,
		Answer: e.Answer, Truncated: e.Truncated, DuplicateOf: e.DuplicateOf, Code: e.Code, Message: e.Message,
		Usage: c.Usage, Steps: c.Step, ToolCalls: c.ToolCalls, Model: r.progress.Config.Model,
	}
	if _, _, subagent := turn.ParentCall(r.session); subagent {
		out.Busy = c.Busy
	}
	return out
}
