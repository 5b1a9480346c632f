package workflows

import (
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// Turn carries one user request to its answer. Its workflow ID is the session's ID: Temporal itself keeps a session to
// one turn at a time.
//
// A turn that answers, or that a guard ends, completes with a Result. A turn that fails ends as an application error
// named by its turn.Code and a cancelled one as Temporal's Canceled; both have a Result as their detail, and both leave
// a transcript that the session's next turn can build on.
func Turn(ctx workflow.Context, in Input) (Result, error) {
	r := newRun(ctx, in)
	if err := r.handlers(ctx); err != nil {
		return Result{}, err
	}
	var phase turn.Phase
	if in.Continued != nil {
		phase = r.resume(ctx, in.Continued)
	} else {
		phase = r.start(ctx, turn.Open(&r.progress))
	}
	for {
		switch p := phase.(type) {
		case turn.BuildPrompt:
			if r.tooLong(ctx) {
				return Result{}, r.continueAsNew(ctx)
			}
			phase = r.buildPrompt(p)
		case turn.LlmInfer:
			r.show(ctx)
			phase = r.llmInfer(ctx, p)
		case turn.ParseAction:
			phase = r.parseAction(p)
		case turn.CallTool:
			r.show(ctx)
			phase = r.callTool(ctx, p)
		case turn.Done:
			return r.done(ctx, p)
		default:
			return Result{}, errors.New("the turn is in no known phase")
		}
	}
}

// run is one run of a turn: what it was asked and how far it has come.
type run struct {
	in       Input
	session  string
	turnID   string
	runID    string
	progress turn.Progress
	phase    turn.PhaseName
	begun    bool // the journal has the turn
	// inbox holds the message that came by update; nil until one does.
	inbox *Message
}

func newRun(ctx workflow.Context, in Input) *run {
	info := workflow.GetInfo(ctx)
	r := &run{in: in, session: info.WorkflowExecution.ID, turnID: info.FirstRunID, runID: info.WorkflowExecution.RunID, phase: turn.PhaseStart}
	r.progress.Observe = r.observer(ctx)
	return r
}

// observer is where every transition is seen: it is logged and shown by the State query.
func (r *run) observer(ctx workflow.Context) func(turn.Transition) {
	log := workflow.GetLogger(ctx)
	return func(t turn.Transition) {
		r.phase = t.To
		log.Debug("transition", "turn", r.turnID, "from", t.From, "to", t.To, "step", t.Step)
	}
}

func (r *run) resume(ctx workflow.Context, p *turn.Progress) turn.Phase {
	r.progress = *p
	r.progress.Observe = r.observer(ctx)
	r.begun = true
	return turn.Resume(&r.progress)
}

// tooLong says that the history has grown enough to go on in a new run.
func (r *run) tooLong(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested() && ctx.Err() == nil
}

func (r *run) continueAsNew(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return err
	}
	progress := r.progress
	return workflow.NewContinueAsNewError(ctx, TurnWorkflow, Input{
		Version: WireVersion, Session: r.session, Agent: r.in.Agent, Continued: &progress,
	})
}

// done settles the turn, fills what the Web UI shows of it and hands out its result.
func (r *run) done(ctx workflow.Context, p turn.Done) (Result, error) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	e := p.Ending
	if err := r.upsert(ctx, e); err != nil {
		return Result{}, err
	}
	if r.begun {
		if err := r.finish(ctx, e); err != nil {
			return Result{}, err
		}
	}
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return Result{}, err
	}
	r.showEnding(ctx, e)
	return r.outcome(e)
}

// outcome maps an ending to how the workflow closes.
func (r *run) outcome(e turn.Ending) (Result, error) {
	result := r.result(e)
	switch e.State {
	case turn.StateFailed:
		return Result{}, temporal.NewApplicationErrorWithOptions(e.Message, string(e.Code),
			temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{result}})
	case turn.StateCancelled:
		return Result{}, temporal.NewCanceledError(result)
	}
	return result, nil
}

func (r *run) result(e turn.Ending) Result {
	c := r.progress.Counters
	return Result{
		Version: WireVersion, Session: r.session, Turn: r.turnID, State: e.State, FinishReason: e.Reason,
		Answer: e.Answer, Truncated: e.Cut, Code: e.Code, Message: e.Message,
		Usage: c.Usage, Steps: c.Step, ToolCalls: c.ToolCalls, Model: r.progress.Pins.Model,
	}
}
