package workflows

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// messageWait is how long a run that was started without a message waits for an update with one.
const messageWait = 10 * time.Second

// start checks the input and waits for the turn's first message. It then runs Begin, which appends the message to the
// session and freezes the turn config. It returns the next phase: BuildPrompt, or Done if no turn begins.
func (r *run) start(ctx workflow.Context, p turn.Start) turn.Phase {
	if err := r.in.check(r.id); err != nil {
		if ctx.Err() != nil { // a cancelled turn reports its cancellation, not its invalid input
			return p.Done(r.resultOf(ctx.Err()))
		}
		return p.Done(failedResult(err))
	}
	message, ok := r.message(ctx)
	switch {
	case ok:
	case ctx.Err() != nil:
		return p.Done(r.resultOf(ctx.Err()))
	default:
		return p.Done(turn.Result{State: turn.StateCompleted, Reason: turn.FinishNoMessage,
			Message: "no message arrived within " + messageWait.String()})
	}
	if err := checkMessage(message); err != nil {
		return p.Done(failedResult(err))
	}
	r.opened = true
	begun, err := r.beginWith(ctx, message)
	if err != nil {
		return p.Done(r.resultOf(err))
	}
	if begun.Kept {
		return p.Done(turn.Result{State: turn.StateCompleted, Reason: turn.FinishKept,
			Message: "the answer of a subagent is kept for the session's next turn"})
	}
	if begun.Duplicate != nil {
		return p.Done(duplicateResult(*begun.Duplicate))
	}
	r.begun = true
	r.putFirst(begun.Later)
	r.progress.Config, r.progress.Head = begun.Config, begun.Head
	r.progress.From, r.progress.Anchor = 1, begun.Head.Seq
	return p.BuildPrompt()
}

// beginWith runs Begin with message m. It repeats Begin with another message in two cases. If the session's previous
// turn left messages that come before m, the first of them begins the turn. If m begins no turn (BeginResult.Kept), the
// next message of the inbox does, if there is one. The agent, limits, output schema and context of the run's input are
// those of m.
func (r *run) beginWith(ctx workflow.Context, m Message) (BeginResult, error) {
	m.Limits = cmp.Or(m.Limits, r.in.Limits)
	if len(m.OutputSchema) == 0 {
		m.OutputSchema = r.in.OutputSchema
	}
	if len(m.Context) == 0 {
		m.Context = r.in.Context
	}
	var waiting *Message // the message that Earlier ones come before
	for {
		m.Agent = cmp.Or(m.Agent, r.in.Agent)
		r.opening = m.ID
		begun, err := r.begin(ctx, m)
		if err != nil {
			r.refused = &m
			return begun, err
		}
		switch {
		case len(begun.Earlier) > 0:
			m.ID = cmp.Or(m.ID, "turn:"+r.turnID) // as the journal names it; the session recognizes messages by their IDs
			own := m
			waiting = &own
			r.putFirst(append(begun.Earlier, m)) // Earlier has no answers of subagents, so its first message is taken
		case !begun.Kept || len(r.progress.Inbox) == 0:
			if waiting != nil && begun.Config.Version >= turn.OwnTurnVersion {
				r.keepApart(*waiting, begun.Config.Agent)
			}
			return begun, nil
		}
		m = r.takeFirstMessage()
	}
}

// keepApart queues the message m, which has come to begin a turn, if it would lose its choices or its agent by being
// merged into the turn that another message has begun. agent is that of the turn.
func (r *run) keepApart(m Message, agent string) {
	if !m.Chooses() && (m.Agent == "" || m.Agent == agent) {
		return
	}
	for i := range r.progress.Inbox {
		if r.progress.Inbox[i].ID == m.ID {
			r.progress.Inbox[i].Queue = true
		}
	}
}

// message returns the message of the input, or else the first one from an update. ok is false if no message arrives
// within messageWait, or if the turn is cancelled before.
func (r *run) message(ctx workflow.Context) (m Message, ok bool) {
	if r.in.Message != nil {
		return *r.in.Message, true
	}
	if len(r.progress.Inbox) == 0 {
		// This starts the timer only if no update came with the start.
		arrived := func() bool { return len(r.progress.Inbox) > 0 }
		if _, err := awaitWithin(ctx, messageWait, "wait for a message", arrived); err != nil {
			return Message{}, false
		}
	}
	if len(r.progress.Inbox) == 0 {
		return Message{}, false
	}
	return r.takeFirstMessage(), true
}

// putFirst puts messages at the front of the inbox, and removes other copies of them from it.
func (r *run) putFirst(messages []Message) {
	rest := slices.DeleteFunc(slices.Clone(r.progress.Inbox), func(waiting Message) bool {
		return slices.ContainsFunc(messages, func(m Message) bool { return m.ID == waiting.ID })
	})
	r.progress.Inbox = slices.Concat(messages, rest)
}

// takeFirstMessage removes from the inbox the message that begins the turn, and returns it: the first message of a user
// or, if the inbox has only answers of subagents, the first answer. A user's message has precedence because its turn
// gets full limits, and an answer's turn only what is left of the limits of an earlier message. The inbox must not be
// empty.
func (r *run) takeFirstMessage() Message {
	i := max(slices.IndexFunc(r.progress.Inbox, func(m Message) bool {
		_, subagentAnswer := turn.AnsweringSubagent(m.ID)
		return !subagentAnswer
	}), 0)
	m := r.progress.Inbox[i]
	r.progress.Inbox = slices.Delete(slices.Clone(r.progress.Inbox), i, i+1)
	return m
}

// duplicateResult returns the result of a turn whose message the session already had: the answer of the first turn that
// had the message. A turn that was ended from outside has no answer to repeat.
func duplicateResult(first Result) turn.Result {
	message := "turn " + first.Turn + " of session " + first.Session + " already had this message (" + string(first.State) +
		")"
	if first.State == turn.StateClosed {
		message += "; that turn was ended from outside: to ask again, send the message under a new ID"
	}
	return turn.Result{State: turn.StateCompleted, Reason: turn.FinishDuplicate, Answer: first.Answer,
		Truncated: first.Truncated, Message: message, DuplicateOf: first.Turn}
}

// buildPrompt plans another inference, if the limits allow one.
func (r *run) buildPrompt(ctx workflow.Context, p turn.BuildPrompt) turn.Phase {
	if ctx.Err() != nil {
		return p.Done(r.resultOf(ctx.Err()))
	}
	if exceeded := turn.CheckInferenceLimits(r.progress.Config.Limits, r.progress.Counters); exceeded != nil {
		return p.Done(r.limitResult(exceeded))
	}
	r.refreshTools(ctx)
	p.Merge()
	return p.LlmInfer()
}

// refreshTools adds the tools of servers that are available again. The first step skips it, because Begin has just
// checked. If the journal cannot be read, the next step tries again.
func (r *run) refreshTools(ctx workflow.Context) {
	cfg := &r.progress.Config
	if len(cfg.Unavailable) == 0 || r.progress.Counters.Step == 0 {
		return
	}
	res, err := callLocal(localOptions(ctx, "look for missing tools"), Activities.RefreshTools, RefreshInput{
		Session: r.session, Turn: r.turnID, PromptConfig: cfg.PromptConfig, Unavailable: cfg.Unavailable,
	})
	if err != nil || res.PromptConfig == "" { // no tools to add
		return
	}
	cfg.PromptConfig, cfg.Unavailable = res.PromptConfig, res.Unavailable
	cfg.Tools = append(slices.Clone(cfg.Tools), res.Tools...)
	r.progress.Note = strings.TrimSpace(r.progress.Note + " " + recoveredText(res.Recovered))
}

// llmInfer runs the inference of a step and adds what it used to the counters.
func (r *run) llmInfer(ctx workflow.Context, p turn.LlmInfer) turn.Phase {
	c := &r.progress.Counters
	res, err := r.infer(ctx, p.Prompt)
	if err != nil {
		return r.afterModelError(ctx, p, err)
	}
	c.Usage = c.Usage.Add(res.Usage)
	if res.TurnUsage != nil {
		c.Usage, c.UsageUnknown = *res.TurnUsage, false
	}
	c.Busy += res.Busy
	c.Spent += res.Failures
	r.progress.Head = res.Head
	if res.Model != "" { // a fallback has taken over for the rest of the turn
		r.progress.Config.Provider, r.progress.Config.Model = res.Provider, res.Model
	}
	if res.Proposal.Text != "" {
		r.progress.LastText = res.Proposal.Text
	}
	// Messages that came too late for this inference return to the front of the inbox, in their order.
	for _, m := range slices.Backward(r.progress.Merging) {
		if slices.Contains(res.Undelivered, m.ID) {
			r.progress.Inbox = slices.Insert(r.progress.Inbox, 0, m)
		}
	}
	return p.ParseAction(res.Proposal)
}

// afterModelError decides what follows an inference that failed with err: the end of the turn, or another inference.
// The activity has retried whatever may be retried, so only the policy decides about another inference.
func (r *run) afterModelError(ctx workflow.Context, p turn.LlmInfer, err error) turn.Phase {
	c, cfg := &r.progress.Counters, r.progress.Config
	if ctx.Err() != nil && !temporal.IsCanceledError(err) {
		err = ctx.Err() // the worker died after the stop: the server reports a timeout instead of retrying
	}
	e := r.resultOf(err)
	if e.State == turn.StateCancelled {
		return p.Done(e)
	}
	c.Busy += workingTime(err)
	c.UsageUnknown = true
	// The inference was not requested, because it might have used more than max_tokens or max_cost_usd leaves.
	if reason := exceededLimit(err); e.Code == turn.CodeLimitExceeded && reason != "" {
		return p.Done(r.limitResult(turn.Exceeded(reason, e.Message)))
	}
	// The inference used up the working time that was left. Counting all of it makes CheckInferenceLimits return a limit.
	if e.Code == turn.CodeLimitExceeded {
		c.Busy += max(cfg.Limits.TurnTimeout-c.Taken().Time, 0)
		if text := partialText(err); text != "" {
			r.progress.LastText = text
		}
		return p.Done(r.limitResult(turn.CheckInferenceLimits(cfg.Limits, *c)))
	}
	c.ConsecutiveErrors += cfg.Policy.Counted(turn.ModelError)
	switch cfg.Policy.AfterModelError(e.Code, cfg.Limits, *c) {
	case turn.ErrorRetry:
		return p.BuildPrompt("")
	case turn.ErrorReprompt:
		c.Reprompts++
		return p.BuildPrompt("The last attempt to answer failed. Answer again, more briefly.")
	case turn.ErrorInterrupt:
		return p.Done(r.interruptedResult(e.Message))
	}
	return p.Done(e)
}

// parseAction decides what a proposal leads to: the end of the turn, a reprompt, a question to the user, or tool calls.
func (r *run) parseAction(ctx workflow.Context, p turn.ParseAction) turn.Phase {
	proposal := p.Proposal
	switch proposal.Kind {
	case turn.ProposeFinal:
		return p.Done(turn.Result{State: turn.StateCompleted, Reason: turn.FinishAnswered, Answer: proposal.Text,
			Truncated: proposal.Truncated}, nil)
	case turn.ProposeAsk:
		if !r.in.Caller.IsZero() && !r.in.Asks {
			return p.Done(turn.Result{State: turn.StateCompleted, Reason: turn.FinishInterrupted, Answer: proposal.Question,
				Message: "the agent has a question, which only its caller can answer"}, nil)
		}
		return r.question(ctx, p)
	case turn.ProposeCalls:
		return r.acceptCalls(p)
	case turn.ProposeStopped:
		if proposal.Invalid == nil { // otherwise it ended within an action, which the model may give again
			return p.Done(r.stoppedResult(proposal), deniedOutcomes(proposal.Calls, "not run: "+stopMessages[proposal.Stop]))
		}
	}
	return r.afterInvalid(p, proposal)
}

// acceptCalls returns the CallTool phase for the proposed calls, or ends the turn if its limits do not allow all of
// them.
func (r *run) acceptCalls(p turn.ParseAction) turn.Phase {
	calls := p.Proposal.Calls
	if exceeded := turn.CheckCallLimits(r.progress.Config.Limits, r.progress.Counters, len(calls)); exceeded != nil {
		return p.Done(r.limitResult(exceeded), deniedOutcomes(calls, exceeded.Message))
	}
	return p.CallTool()
}

// afterInvalid decides what follows an invalid action: a reprompt, or the end of the turn. None of its calls runs.
func (r *run) afterInvalid(p turn.ParseAction, proposal turn.Proposal) turn.Phase {
	if proposal.Invalid == nil { // a kind that a newer worker produced
		proposal.Invalid = &turn.InvalidAction{Step: r.progress.Counters.Step, Kind: turn.InvalidUnknownType,
			Reason: "the completion is of the unknown kind " + turn.Truncate(string(proposal.Kind), 40)}
	}
	cfg, c := r.progress.Config, &r.progress.Counters
	reason := proposal.Invalid.Error()
	results := deniedOutcomes(proposal.Calls, "not run: "+reason)
	for i := range results { // only the calls of the tool that made the action invalid get its code
		if proposal.Calls[i].Tool == proposal.Invalid.Name {
			results[i].Code = proposal.Invalid.Code
		}
	}
	c.ConsecutiveErrors += cfg.Policy.Counted(turn.InvalidActionError)
	switch cfg.Policy.AfterInvalid(cfg.Limits, *c) {
	case turn.ErrorReprompt:
		note := ""
		if len(results) == 0 {
			note = "Your last answer was not a valid action: " + reason + "."
		}
		return p.BuildPrompt(results, note, r.unknownTool(proposal))
	case turn.ErrorInterrupt:
		return p.Done(r.interruptedResult(reason), results)
	}
	if proposal.Kind == turn.ProposeStopped {
		return p.Done(r.stoppedResult(proposal), results)
	}
	code, message := turn.CodeInvalidAction, "the model did not give a valid action: "
	if proposal.Invalid.Code == turn.CodeInvalidOutput {
		code, message = turn.CodeInvalidOutput, "the model's answer does not match the output schema: "
	}
	return p.Done(turn.Result{State: turn.StateFailed, Reason: turn.FinishFailed, Code: code,
		Answer: r.progress.LastText, Message: message + reason}, results)
}

// stopMessages say why a completion ended early, and what to do about it.
var stopMessages = map[turn.StopCause]string{
	turn.StopLength: "the model's answer was cut at its limit of output tokens; " +
		"raise llm.max_output_tokens or choose a model with a larger limit, or ask for less",
	turn.StopContentFilter: "the provider's content filter ended the model's answer; ask in other words, or see the " +
		"provider's filter settings",
	turn.StopRefusal: "the model refused to answer; ask in other words",
}

// stoppedResult returns the result of a turn whose completion ended early. The answer is the completion's text, or else
// the model's latest text.
func (r *run) stoppedResult(proposal turn.Proposal) turn.Result {
	e := turn.Result{State: turn.StateCompleted, Reason: turn.FinishReason(proposal.Stop), Answer: proposal.Text,
		Truncated: proposal.Truncated,
		Message:   stopMessages[proposal.Stop] + ". What was said and done is kept."}
	if l := r.progress.Config.Limits; proposal.Stop == turn.StopLength && (l.MaxTokens > 0 || l.MaxCostUSD > 0) {
		e.Message += " The turn's max_tokens or max_cost_usd may have lowered that limit."
	}
	if e.Answer == "" {
		e.Answer = r.progress.LastText
	}
	return e
}

// unknownTool reports whether the action is invalid because it calls a tool that the turn does not have. The reprompt
// then lists the turn's tools.
func (r *run) unknownTool(p turn.Proposal) bool {
	_, known := r.progress.Config.Find(p.Invalid.Name)
	return p.Invalid.Name != "" && !known
}

// deniedOutcomes returns the same denied result for each call, without running any.
func deniedOutcomes(calls []turn.ToolCall, text string) []turn.CallOutcome {
	out := make([]turn.CallOutcome, len(calls))
	for i, c := range calls {
		out[i] = turn.CallOutcome{CallID: c.ID, Outcome: turn.OutcomeDenied, Text: text}
	}
	return out
}

// limitResult returns the result of a turn that ends because it would exceed a limit, with the model's latest text.
func (r *run) limitResult(exceeded *turn.Result) turn.Result {
	exceeded.Answer = r.progress.LastText
	return *exceeded
}

// interruptedResult returns the result of a turn that ends because the policy for an error is interrupt.
func (r *run) interruptedResult(why string) turn.Result {
	return turn.Result{State: turn.StateCompleted, Reason: turn.FinishInterrupted, Answer: r.progress.LastText,
		Message: "stopped for the operator to inspect: " + why}
}
