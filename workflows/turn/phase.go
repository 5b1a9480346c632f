package turn

import "time"

// PhaseName is the name of a phase in logs, events and output.
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

// Phase is one state of a turn: Start, BuildPrompt, LlmInfer, ParseAction, CallTool or Done. Each is a separate type
// whose methods are the only legal next steps, so an illegal transition does not compile. The set is closed.
type Phase interface {
	Name() PhaseName
	phase()
}

// Transition is the event of a change from one phase to the next.
type Transition struct {
	From PhaseName `json:"from"`
	To   PhaseName `json:"to"`
	Step int       `json:"step"`
}

// Progress is the state that a turn carries from phase to phase. All of it except Observe survives continue-as-new.
type Progress struct {
	Config   Config   `json:"config"`
	Counters Counters `json:"counters"`
	Head     Head     `json:"head"`
	From     int64    `json:"from"`   // first message of the prompt's window
	Anchor   int64    `json:"anchor"` // the message that began the turn
	// Pending are the results of the last step that are not in the transcript yet. The next inference or Finish appends
	// them.
	Pending []CallOutcome `json:"pending,omitempty"`
	// Inbox are accepted messages that are not merged yet. Merging are the messages that the next inference appends to
	// the transcript; they stay here until a completion arrives.
	Inbox   []UserMessage `json:"inbox,omitempty"`
	Merging []UserMessage `json:"merging,omitempty"`
	// Retries counts the repetitions of the step. While the step is repeated, the messages that it merged stay the same,
	// and new ones wait for the next step.
	Retries int `json:"retries,omitempty"`
	// Note is added to the next prompt only, and with Catalogue a list of the turn's tools.
	Note      string `json:"note,omitempty"`
	Catalogue bool   `json:"catalogue,omitempty"`
	// LastText is the model's latest text: the partial result of a turn that ends without an answer.
	LastText string `json:"last_text,omitempty"`
	// StickyQueues are the task queues of the workers that hold the turn's connections to stateful servers, by server.
	// An empty queue means that the connection is lost, which the next call reports.
	StickyQueues map[string]string `json:"sticky_queues,omitempty"`
	// OwningCalls are the calls that created these connections, by server.
	OwningCalls map[string]string `json:"owning_calls,omitempty"`
	// Waiting is set if the turn continues in a new run while it waits for decisions.
	Waiting *Waiting `json:"waiting,omitempty"`
	// Background are the sessions of the agents that the turn has called in the background.
	Background []string `json:"background,omitempty"`
	// Tools are the tools that the turn called, each once, for the search attributes.
	Tools []string `json:"tools,omitempty"`

	Observe func(Transition) `json:"-"`
}

// Waiting is the state of a turn that waits for decisions: the proposal that needs them, and the time when its
// requests expire. The zero ExpiresAt means never.
type Waiting struct {
	Proposal  Proposal  `json:"proposal"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Requests are the open requests. Decisions about them can arrive before the next run has opened them again.
	Requests []Request `json:"requests,omitempty"`
	// MessagesBefore is the number of messages that waited to be merged when the question was asked, so they do not
	// answer it.
	MessagesBefore int `json:"messages_before,omitempty"`
	// Attempt is the highest number of an attempt of the proposal's calls. Later attempts have higher numbers.
	Attempt int `json:"attempt,omitempty"`
}

// CallOutcome says how a call ended, for the transcript. If Outcome and Text are empty, the call was claimed, and the
// journal has its result. Otherwise the workflow reports them: the call did not run, or its end is unknown. See
// ToolResult for Code.
type CallOutcome struct {
	CallID  string  `json:"call_id"`
	Outcome Outcome `json:"outcome,omitempty"`
	Code    Code    `json:"code,omitempty"`
	Text    string  `json:"text,omitempty"`
}

// Result is how and why a turn ended.
type Result struct {
	State       State        `json:"state"`
	Reason      FinishReason `json:"reason"`
	Answer      string       `json:"answer,omitempty"`
	Truncated   bool         `json:"truncated,omitempty"` // Answer is the beginning of a longer one
	Code        Code         `json:"code,omitempty"`
	Message     string       `json:"message,omitempty"`
	DuplicateOf string       `json:"duplicate_of,omitempty"` // for a duplicate: the turn that had the message first
}

// observe passes the transition to Observe, if that is set, and returns p.
func (p *Progress) observe(from, to PhaseName) *Progress {
	if p.Observe != nil {
		p.Observe(Transition{From: from, To: to, Step: p.Counters.Step})
	}
	return p
}

// Start is the first phase. It appends the message to the session and freezes the turn config.
type Start struct{ p *Progress }

// BuildPrompt decides what the next inference sees, and whether the limits allow one.
type BuildPrompt struct{ p *Progress }

// LlmInfer waits for the model's completion.
type LlmInfer struct {
	p      *Progress
	Prompt PromptSpec
}

// ParseAction decides what follows from the model's proposal.
type ParseAction struct {
	p        *Progress
	Proposal Proposal
}

// CallTool runs the calls that the policy and the limits allow.
type CallTool struct {
	p        *Progress
	Proposal Proposal
}

// Done is the last phase.
type Done struct {
	p      *Progress
	Result Result
}

// Open begins a turn.
func Open(p *Progress) Start { return Start{p} }

// Resume continues a turn in a new run. If the turn waits for decisions, it continues with the proposal that needs
// them; otherwise it builds the next prompt. A turn can move to a new run only in these two phases.
func Resume(p *Progress) Phase {
	if p.Waiting != nil && (p.Waiting.Proposal.Kind == ProposeCalls || p.Waiting.Proposal.Kind == ProposeAsk) {
		return ParseAction{p: p, Proposal: p.Waiting.Proposal}
	}
	return BuildPrompt{p}
}

// BuildPrompt follows when the message is in the transcript and the turn config is frozen.
func (s Start) BuildPrompt() BuildPrompt {
	return BuildPrompt{s.p.observe(PhaseStart, PhaseBuildPrompt)}
}

// Done ends the turn before its first step, because there is nothing to do or the turn cannot begin.
func (s Start) Done(e Result) Done { return Done{s.p.observe(PhaseStart, PhaseDone), e} }

// LlmInfer opens the next step and plans its inference.
func (b BuildPrompt) LlmInfer() LlmInfer {
	p := b.p
	p.Counters.Step++
	p.Counters.Spent++
	// The head is the completion whose results are pending. The window must include it, however many results there are.
	p.From = min(Window(p.From, p.Head.Seq+int64(len(p.Pending)+len(p.Merging)), p.Config.Limits), p.Head.Seq)
	spec := PromptSpec{
		Model: p.Config.Model, Mode: p.Config.Mode, PromptConfig: p.Config.PromptConfig, From: p.From, Anchor: p.Anchor,
		Note: p.Note, Catalogue: p.Catalogue, MaxTokens: p.Config.MaxTokens,
	}
	p.Note, p.Catalogue = "", false
	return LlmInfer{p: p.observe(PhaseBuildPrompt, PhaseLlmInfer), Prompt: spec}
}

// Done ends the turn because a limit does not allow another inference.
func (b BuildPrompt) Done(e Result) Done { return Done{b.p.observe(PhaseBuildPrompt, PhaseDone), e} }

// ParseAction follows when the model has returned a completion.
func (i LlmInfer) ParseAction(proposal Proposal) ParseAction {
	i.p.Pending, i.p.Merging, i.p.Retries = nil, nil, 0 // the inference has appended them
	return ParseAction{p: i.p.observe(PhaseLlmInfer, PhaseParseAction), Proposal: proposal}
}

// BuildPrompt repeats the step after a failed inference that the policy retries. The retry counts against max_steps.
func (i LlmInfer) BuildPrompt(note string) BuildPrompt {
	i.p.Note = note
	i.p.Retries++
	i.p.Counters.Step--
	return BuildPrompt{i.p.observe(PhaseLlmInfer, PhaseBuildPrompt)}
}

// Done ends the turn after an inference that failed permanently or was cancelled.
func (i LlmInfer) Done(e Result) Done { return Done{i.p.observe(PhaseLlmInfer, PhaseDone), e} }

// Merge moves the messages that are not queued from the inbox to Merging. It does nothing while a step is repeated or
// still has messages to merge, because a repeated inference must append the same messages.
func (b BuildPrompt) Merge() {
	p := b.p
	if p.Retries > 0 || len(p.Merging) > 0 {
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

// Answered continues after a question to the user. If the user did not answer in time, note tells the model.
func (a ParseAction) Answered(note string) BuildPrompt {
	a.p.Note = note
	return BuildPrompt{a.p.observe(PhaseParseAction, PhaseBuildPrompt)}
}

// CallTool follows if the model requests calls and all of them are valid.
func (a ParseAction) CallTool() CallTool {
	return CallTool{p: a.p.observe(PhaseParseAction, PhaseCallTool), Proposal: a.Proposal}
}

// BuildPrompt reprompts the model. Each of results says why its call did not run. If the completion had no calls,
// note says what was wrong with it. catalogue adds the list of the turn's tools to the prompt.
func (a ParseAction) BuildPrompt(results []CallOutcome, note string, catalogue bool) BuildPrompt {
	a.p.Pending, a.p.Note, a.p.Catalogue = results, note, catalogue
	a.p.Counters.Reprompts++
	return BuildPrompt{a.p.observe(PhaseParseAction, PhaseBuildPrompt)}
}

// Done ends the turn with an answer, at a limit, or after an invalid action that the policy does not
// reprompt. The transcript keeps the results of the calls that did not run.
func (a ParseAction) Done(e Result, results []CallOutcome) Done {
	a.p.Pending = results
	return Done{a.p.observe(PhaseParseAction, PhaseDone), e}
}

// BuildPrompt follows when every call has a result; results are in request order.
func (c CallTool) BuildPrompt(results []CallOutcome) BuildPrompt {
	c.p.Pending = results
	return BuildPrompt{c.p.observe(PhaseCallTool, PhaseBuildPrompt)}
}

// Done ends the turn during its calls: it was cancelled, or the policy for tool errors is fail or interrupt.
func (c CallTool) Done(e Result, results []CallOutcome) Done {
	c.p.Pending = results
	return Done{c.p.observe(PhaseCallTool, PhaseDone), e}
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
