package workflows

import (
	"errors"
	"slices"

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
	in = in.bound(ctx)
	r := newRun(ctx, in)
	if err := r.handlers(ctx); err != nil {
		return Result{}, err
	}
	var phase turn.Phase
	if in.Continued != nil {
		phase = turn.Resume(&r.progress)
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
	}
}

// run is one run of a turn: what it was asked and how far it has come.
type run struct {
	in       Input
	id       string // of the workflow
	session  string
	turnID   string
	runID    string
	progress turn.Progress
	phase    turn.PhaseName
	begun    bool     // the journal has the turn
	opening  string   // the ID of the message that the turn began with
	refused  *Message // the message that the turn could not begin with
	opened   bool     // a message has begun the turn
	stopping bool     // the turn was stopped and takes no more messages
	held     []string // the IDs of messages that wanted to join and came after the stop
	desk     desk
	settling map[string]bool // servers for which a call is finding the turn's home
	holding  map[string]int  // the dispatches that run of calls that their servers may hold, by the calls' IDs
}

// newRun is what the handlers find: an update that is there already when a run begins is handled while they are being
// set, before anything else of the run, so that all that they look at has to be here.
func newRun(ctx workflow.Context, in Input) *run {
	info := workflow.GetInfo(ctx)
	id := info.WorkflowExecution.ID
	r := &run{in: in, id: id, session: in.sessionOf(id), turnID: turnID(info, in), runID: info.WorkflowExecution.RunID, phase: turn.PhaseStart,
		settling: map[string]bool{}, holding: map[string]int{}}
	if in.Continued != nil {
		r.progress, r.begun, r.opened = *in.Continued, true, true
	} else {
		r.progress.Inbox = in.Queue
	}
	if in.Message != nil {
		r.opening = in.Message.ID
	}
	r.progress.Observe = r.observer(ctx)
	return r
}

// turnID is the ID of the run in which the turn began. A chain of runs may hold several turns.
func turnID(info *workflow.Info, in Input) string {
	switch {
	case in.Turn != "":
		return in.Turn
	case len(in.Queue) > 0:
		return info.OriginalRunID
	}
	return info.FirstRunID
}

// observer is where every transition is seen: it is logged and shown by the State query.
func (r *run) observer(ctx workflow.Context) func(turn.Transition) {
	log := workflow.GetLogger(ctx)
	return func(t turn.Transition) {
		r.phase = t.To
		log.Debug("transition", "turn", r.turnID, "from", t.From, "to", t.To, "step", t.Step)
	}
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
		Version: WireVersion, Session: r.session, Tenant: r.in.Tenant, Agent: r.in.Agent, Continued: &progress, Turn: r.turnID,
	})
}

// done settles the turn, records its end in the search attributes and returns its result. Messages that came too late
// for this turn begin the session's next one. A stopped turn keeps the messages that wanted to join it in its transcript.
func (r *run) done(ctx workflow.Context, p turn.Done) (Result, error) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	e := p.Result
	r.stopping = e.State == turn.StateCancelled
	if err := r.upsert(ctx, e); err != nil {
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
	left := slices.DeleteFunc(r.left(), func(m Message) bool { return slices.Contains(kept, m.ID) })
	if left = r.freed(left); len(left) > 0 {
		return Result{}, workflow.NewContinueAsNewError(ctx, TurnWorkflow, Input{
			Version: WireVersion, Session: r.session, Tenant: r.in.Tenant, Agent: r.in.Agent, Queue: left,
		})
	}
	return r.outcome(e)
}

// settle has the journal record how the turn ended. It returns the ending to report, and the IDs of the accepted
// messages that the transcript of a stopped turn keeps. If the journal cannot record the ending and no message is left
// to begin the session's next turn, which would close this one, the turn has failed.
func (r *run) settle(ctx workflow.Context, e turn.Result) (turn.Result, []string, error) {
	// Nothing is recorded in another tenant's session.
	if !r.begun && (r.refused == nil || !r.chained() || e.Code == turn.CodeSessionTaken) {
		return e, nil, nil
	}
	late := r.late()
	settled, err := r.finish(ctx, e, late)
	if err != nil {
		if len(r.left()) > 0 {
			return e, nil, nil
		}
		said := e.Answer
		e = r.ending(err)
		e.Answer = said
		return e, nil, r.upsert(ctx, e)
	}
	if settled.Answer != "" {
		e.Answer = settled.Answer
	}
	var kept []string
	for _, m := range late {
		if !slices.Contains(settled.Untaken, m.ID) {
			kept = append(kept, m.ID)
		}
	}
	return e, kept, nil
}

// late are the messages that wanted to join a turn that was stopped.
func (r *run) late() []Message {
	if !r.stopping {
		return nil
	}
	return slices.DeleteFunc(r.left(), func(m Message) bool { return m.Queue })
}

// chained says that this run is not the last of its chain, or not the first: who sent its message does not see how it
// closes.
func (r *run) chained() bool { return len(r.in.Queue) > 0 || len(r.left()) > 0 }

// freed lets the messages that a stop has held back join the next turn. Otherwise later ones would overtake them there.
func (r *run) freed(left []Message) []Message {
	for i, m := range left {
		left[i].Queue = m.Queue && !slices.Contains(r.held, m.ID)
	}
	return left
}

// left are the messages that were accepted and have no answer. One that is in the transcript after all, because its
// inference failed later, is found there by the turn that it begins.
func (r *run) left() []Message {
	return append(slices.Clone(r.progress.Merging), r.progress.Inbox...)
}

// outcome maps an ending to how the workflow closes.
func (r *run) outcome(e turn.Result) (Result, error) {
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

func (r *run) result(e turn.Result) Result {
	c := r.progress.Counters
	return Result{
		Version: WireVersion, Session: r.session, Turn: r.turnID, State: e.State, FinishReason: e.Reason,
		Answer: e.Answer, Truncated: e.Truncated, Of: e.DuplicateOf, Code: e.Code, Message: e.Message,
		Usage: c.Usage, Steps: c.Step, ToolCalls: c.ToolCalls, Model: r.progress.Config.Model,
	}
}
