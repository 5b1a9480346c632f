package turn

// PhaseName names a phase for people, logs and events.
type PhaseName string

// The phases.
const (
	PhaseStart       PhaseName = "Start"
	PhaseBuildPrompt PhaseName = "BuildPrompt"
	PhaseLlmInfer    PhaseName = "LlmInfer"
	PhaseParseAction PhaseName = "ParseAction"
	PhaseCallTool    PhaseName = "CallTool"
	PhaseDone        PhaseName = "Done"
)

// Phase is one state of a turn: Start, BuildPrompt, LlmInfer, ParseAction, CallTool or Done. Each is a type of its own
// whose methods are the only legal next steps, so that an illegal transition does not compile. The set is closed.
type Phase interface {
	Name() PhaseName
	phase()
}

// Transition is the event that every step from one phase to the next emits.
type Transition struct {
	From PhaseName `json:"from"`
	To   PhaseName `json:"to"`
	Step int       `json:"step"`
}

// Progress is what a turn carries from phase to phase. All of it but Observe survives continue-as-new.
type Progress struct {
	Config   Config   `json:"pins"`
	Counters Counters `json:"counters"`
	Head     Head     `json:"head"`
	From     int64    `json:"from"`   // first message of the prompt's window
	Anchor   int64    `json:"anchor"` // the turn's own request
	// Pending are the results of the last step, not in the transcript yet: the next inference or Finish appends them.
	Pending []CallOutcome `json:"pending,omitempty"`
	// Inbox are messages that were accepted and not taken yet. Joining are those that go into the transcript with the
	// next inference; they stay until one has an answer.
	Inbox   []UserMessage `json:"inbox,omitempty"`
	Merging []UserMessage `json:"joining,omitempty"`
	// Retrying: the step is asked for again. What it joined is settled, and new messages wait for the next one.
	Retrying bool `json:"retrying,omitempty"`
	// Note is said to the model in the next prompt only.
	Note string `json:"note,omitempty"`
	// Said is the latest text of the model: the partial result of a turn that ends without an answer.
	LastText string `json:"said,omitempty"`
	// Homes are the task queues of the workers that hold the turn's connections to stateful servers, by server. An empty
	// one is lost: the next call is told.
	StickyQueues map[string]string `json:"homes,omitempty"`
	// OwningCalls are the calls that made these connections, by server.
	OwningCalls map[string]string `json:"founders,omitempty"`
	// Tools are the tools that were called, each once, for the search attributes.
	Tools []string `json:"tools,omitempty"`

	Observe func(Transition) `json:"-"`
}

// CallOutcome is the result of one call as the transcript will get it. Outcome and Text are empty where the ledger has them.
// Code is ToolResult's.
type CallOutcome struct {
	Call    CallProposal `json:"call"`
	Outcome Outcome      `json:"outcome,omitempty"`
	Code    Code         `json:"code,omitempty"`
	Text    string       `json:"text,omitempty"`
}

// Result is why and how a turn is done.
type Result struct {
	State       State        `json:"state"`
	Reason      FinishReason `json:"reason"`
	Answer      string       `json:"answer,omitempty"`
	Truncated   bool         `json:"cut,omitempty"` // Answer is the beginning of a longer one
	Code        Code         `json:"code,omitempty"`
	Message     string       `json:"message,omitempty"`
	DuplicateOf string       `json:"of,omitempty"` // of a duplicate: the turn that had the message first
}

func (p *Progress) moved(from, to PhaseName) *Progress {
	if p.Observe != nil {
		p.Observe(Transition{From: from, To: to, Step: p.Counters.Step})
	}
	return p
}

// Start is the first phase: the message is taken and the configuration pinned.
type Start struct{ p *Progress }

// BuildPrompt decides what the next inference sees, and whether there may be one.
type BuildPrompt struct{ p *Progress }

// LlmInfer waits for the model.
type LlmInfer struct {
	p    *Progress
	Plan Plan
}

// ParseAction weighs what the model proposes.
type ParseAction struct {
	p        *Progress
	Proposal Proposal
}

// CallTool runs the calls that policy and guard let through.
type CallTool struct {
	p     *Progress
	Calls []CallProposal
}

// Done is the last phase.
type Done struct {
	p      *Progress
	Result Result
}

// Open begins a turn.
func Open(p *Progress) Start { return Start{p} }

// Resume continues a turn at the one boundary at which it may be carried into a new run.
func Resume(p *Progress) BuildPrompt { return BuildPrompt{p} }

// BuildPrompt: the message is in the transcript and the pins are known.
func (s Start) BuildPrompt() BuildPrompt { return BuildPrompt{s.p.moved(PhaseStart, PhaseBuildPrompt)} }

// Done: there is nothing to do, or it cannot be done.
func (s Start) Done(e Result) Done { return Done{s.p.moved(PhaseStart, PhaseDone), e} }

// LlmInfer opens the next step with its plan.
func (b BuildPrompt) LlmInfer() LlmInfer {
	p := b.p
	p.Counters.Step++
	p.Counters.Spent++
	// The head is the answer whose results are pending: however many they are, the window holds it.
	p.From = min(Window(p.From, p.Head.Seq+int64(len(p.Pending)+len(p.Merging)), p.Config.Limits), p.Head.Seq)
	plan := Plan{
		Model: p.Config.Model, Mode: p.Config.Mode, PromptConfig: p.Config.PromptConfig, From: p.From, Anchor: p.Anchor,
		Note: p.Note, Temperature: p.Config.Temperature, MaxTokens: p.Config.MaxTokens,
	}
	p.Note = ""
	return LlmInfer{p: p.moved(PhaseBuildPrompt, PhaseLlmInfer), Plan: plan}
}

// Done: the guard says no.
func (b BuildPrompt) Done(e Result) Done { return Done{b.p.moved(PhaseBuildPrompt, PhaseDone), e} }

// ParseAction: the model has answered.
func (i LlmInfer) ParseAction(proposal Proposal) ParseAction {
	i.p.Pending, i.p.Merging, i.p.Retrying = nil, nil, false // they were appended before the inference
	return ParseAction{p: i.p.moved(PhaseLlmInfer, PhaseParseAction), Proposal: proposal}
}

// BuildPrompt: the inference failed and policy lets it be tried again, as the same step but paid from the step budget.
func (i LlmInfer) BuildPrompt(note string) BuildPrompt {
	i.p.Note, i.p.Retrying = note, true
	i.p.Counters.Step--
	return BuildPrompt{i.p.moved(PhaseLlmInfer, PhaseBuildPrompt)}
}

// Done: the inference failed for good, or was cancelled.
func (i LlmInfer) Done(e Result) Done { return Done{i.p.moved(PhaseLlmInfer, PhaseDone), e} }

// Join takes the messages that wait to join the turn out of the inbox.
func (b BuildPrompt) Join() {
	p := b.p
	if p.Retrying || len(p.Merging) > 0 {
		return
	}
	var later []UserMessage
	for _, m := range p.Inbox {
		if m.Queue {
			later = append(later, m)
		} else {
			p.Merging = append(p.Merging, m)
		}
	}
	p.Inbox = later
}

// Answered: the user was asked and has said something, or has not in time, which the note then tells the model.
func (a ParseAction) Answered(note string) BuildPrompt {
	a.p.Note = note
	return BuildPrompt{a.p.moved(PhaseParseAction, PhaseBuildPrompt)}
}

// CallTool: the model asks for calls that are all valid.
func (a ParseAction) CallTool(calls []CallProposal) CallTool {
	return CallTool{p: a.p.moved(PhaseParseAction, PhaseCallTool), Calls: calls}
}

// BuildPrompt reprompts: results say to each call why it was not run, note says it where there were none.
func (a ParseAction) BuildPrompt(results []CallOutcome, note string) BuildPrompt {
	a.p.Pending, a.p.Note = results, note
	a.p.Counters.Reprompts++
	return BuildPrompt{a.p.moved(PhaseParseAction, PhaseBuildPrompt)}
}

// Done: a final answer, a question, a guard or an invalid action that policy does not forgive. Results are what the
// transcript keeps of calls that were not run.
func (a ParseAction) Done(e Result, results []CallOutcome) Done {
	a.p.Pending = results
	return Done{a.p.moved(PhaseParseAction, PhaseDone), e}
}

// BuildPrompt: every call has a result, in request order.
func (c CallTool) BuildPrompt(results []CallOutcome) BuildPrompt {
	c.p.Pending = results
	return BuildPrompt{c.p.moved(PhaseCallTool, PhaseBuildPrompt)}
}

// Done: the calls ended the turn (cancelled, or a policy of fail or interrupt).
func (c CallTool) Done(e Result, results []CallOutcome) Done {
	c.p.Pending = results
	return Done{c.p.moved(PhaseCallTool, PhaseDone), e}
}

// Name implements Phase.
func (Start) Name() PhaseName       { return PhaseStart }
func (BuildPrompt) Name() PhaseName { return PhaseBuildPrompt }
func (LlmInfer) Name() PhaseName    { return PhaseLlmInfer }
func (ParseAction) Name() PhaseName { return PhaseParseAction }
func (CallTool) Name() PhaseName    { return PhaseCallTool }
func (Done) Name() PhaseName        { return PhaseDone }

func (Start) phase()       {}
func (BuildPrompt) phase() {}
func (LlmInfer) phase()    {}
func (ParseAction) phase() {}
func (CallTool) phase()    {}
func (Done) phase()        {}
