package turn

import (
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/workflows/plan"
)

// EventKind is the kind of an Event.
type EventKind string

// The kinds of events: eventTypes describes each.
const (
	EventTurnStarted        EventKind = "turn_started"
	EventSkillsSelected     EventKind = "skills_selected"
	EventPhase              EventKind = "phase"
	EventTextDelta          EventKind = "text_delta"
	EventReasoningDelta     EventKind = "reasoning_delta"
	EventAttemptRestarted   EventKind = "attempt_restarted"
	EventInferenceCompleted EventKind = "inference_completed"
	EventInferenceWaiting   EventKind = "inference_waiting"
	EventModelChanged       EventKind = "model_changed"
	EventCompacted          EventKind = "compacted"
	EventError              EventKind = "error"
	EventToolCallStarted    EventKind = "tool_call_started"
	EventToolProgress       EventKind = "tool_progress"
	EventToolCallCompleted  EventKind = "tool_call_completed"
	EventToolCallLateResult EventKind = "tool_call_late_result"
	EventPlan               EventKind = "plan"
	EventApprovalRequested  EventKind = "approval_requested"
	EventApprovalDecided    EventKind = "approval_decided"
	EventQuestionAsked      EventKind = "question_asked"
	EventQuestionAnswered   EventKind = "question_answered"
	EventMessageAdded       EventKind = "message_added"
	EventWorkspaceCreated   EventKind = "workspace_created"
	EventWorkspaceSetup     EventKind = "workspace_setup"
	EventWorkspaceCommitted EventKind = "workspace_committed"
	EventWorkspaceRewound   EventKind = "workspace_rewound"
	EventWorkspaceMerged    EventKind = "workspace_merged"
	EventWorkspacePublished EventKind = "workspace_published"
	EventTurnCompleted      EventKind = "turn_completed"
)

// EventType describes a kind of event.
type EventType struct {
	Kind EventKind
	// Doc says what has happened, in the words of docs/events.md.
	Doc string
	// Data is the zero value of the type of Event.Data; nil if the kind has no data.
	Data any
	// HasText means that Event.Text is never empty.
	HasText bool
	// ByWorker means that workers append the event to an attempt of an inference. The journal itself writes the others,
	// with what they report.
	ByWorker bool
	// Line returns the line in which views show an event; nil if they do not, or in a way of their own.
	Line func(Event) string
}

// eventTypes is the one table of events. The JSON schema and docs/events.md are generated from it: go generate ./docs.
var eventTypes = []EventType{
	{Kind: EventTurnStarted, Data: StartedEvent{}, Line: dataLine[StartedEvent],
		Doc: "The turn's first event, with the settings that its model refuses."},
	{Kind: EventSkillsSelected, Data: SkillsEvent{}, Line: dataLine[SkillsEvent],
		Doc: "Skills were selected for the turn."},
	{Kind: EventPhase, Data: PhaseEvent{}, ByWorker: true, Line: textLine,
		Doc: "The turn entered a phase, or its inference waits for a fleet limit, which the text describes."},
	{Kind: EventTextDelta, HasText: true, ByWorker: true,
		Doc: "The next part of the text of a step; that of the last step is the answer."},
	{Kind: EventReasoningDelta, HasText: true, ByWorker: true,
		Doc: "A piece of the model's reasoning."},
	{Kind: EventAttemptRestarted,
		Doc: "The inference is repeated: drop the text of its step so far."},
	{Kind: EventInferenceCompleted, Data: InferenceEvent{},
		Doc: "The step's completion is recorded."},
	{Kind: EventInferenceWaiting, Data: WaitingEvent{}, HasText: true, ByWorker: true,
		Doc: "The inference failed, or was not tried, because its provider is unavailable; it is tried again. The text " +
			"says why."},
	{Kind: EventModelChanged, Data: ModelEvent{}, HasText: true, Line: textLine,
		Doc: "An inference failed permanently, and a fallback takes over for the rest of the turn. The text says why."},
	{Kind: EventCompacted, Data: CompactedEvent{}, Line: dataLine[CompactedEvent],
		Doc: "The beginning of the conversation was compacted for the prompts from now on. The text is a warning, if there " +
			"is one."},
	{Kind: EventError, Data: ErrorEvent{}, HasText: true, ByWorker: true,
		Doc: "An attempt of an inference or of a call failed, or a completion is no valid action. The text says why."},
	{Kind: EventToolCallStarted, Data: CallEvent{}, Doc: "A call was claimed, or is closed without having run."},
	{Kind: EventToolProgress, Data: ProgressEvent{},
		Doc: "The progress of a call, as its server reports it, or a part of a command's output: at most a few times per " +
			"second."},
	{Kind: EventToolCallCompleted, Data: CallEvent{}, Doc: "A call has ended. Each started call ends once."},
	{Kind: EventToolCallLateResult, Data: CallEvent{},
		Doc: "The result of an earlier call, perhaps of another turn, whose outcome was unknown."},
	{Kind: EventPlan, Data: plan.Progress{}, Doc: "A plan was accepted, or a step of it has ended."},
	{Kind: EventApprovalRequested, Data: Request{}, Doc: "A call needs an approval."},
	{Kind: EventApprovalDecided, Data: Request{}, Doc: "An approval was decided, has expired or was cancelled."},
	{Kind: EventQuestionAsked, Data: Request{},
		Doc: "The model, or the server of a tool, asks the user, or a client must run a call (kind result)."},
	{Kind: EventQuestionAnswered, Data: Request{},
		Doc: "A question was answered, or the result of a call has arrived; or either has expired or was cancelled."},
	{Kind: EventMessageAdded, Data: MessageEvent{},
		Doc: "A user's message was merged into the turn and is in the transcript."},
	{Kind: EventWorkspaceCreated, Data: WorkspaceEvent{}, Doc: "The session got a tree of its own."},
	{Kind: EventWorkspaceSetup, Data: WorkspaceEvent{}, Line: workspaceLine(""),
		Doc: "The command workspace.setup has ended in a new tree. While it runs, its output is tool_progress of the same " +
			"call."},
	{Kind: EventWorkspaceCommitted, Data: WorkspaceEvent{}, Doc: "What a call has changed in the tree is a commit."},
	{Kind: EventWorkspaceRewound, Data: WorkspaceEvent{}, Line: workspaceLine("the user took back"),
		Doc: "The user took back a commit, and the model is told."},
	{Kind: EventWorkspaceMerged, Data: WorkspaceEvent{}, Line: workspaceLine("merged as"),
		Doc: "A call merged the session's changes into a branch of the user's."},
	{Kind: EventWorkspacePublished, Data: WorkspaceEvent{}, Line: workspaceLine("pushed"),
		Doc: "A call pushed the session's changes to a branch of a remote repository."},
	{Kind: EventTurnCompleted, Data: DoneEvent{}, Doc: "The turn's last event."},
}

// EventTypes describes all kinds of events.
func EventTypes() []EventType { return slices.Clone(eventTypes) }

// Type describes the kind. It returns false if the kind is not known.
func (k EventKind) Type() (EventType, bool) {
	i := slices.IndexFunc(eventTypes, func(t EventType) bool { return t.Kind == k })
	if i < 0 {
		return EventType{}, false
	}
	return eventTypes[i], true
}

// CallEvent is the data of tool_call_started and tool_call_completed.
type CallEvent struct {
	// CallID is <step>.<index>, unique in the turn.
	CallID string `json:"call_id"`
	Tool   string `json:"tool"`
	// Arguments are a preview, without sensitive values; tool_call_started has them.
	Arguments string `json:"arguments,omitempty"`
	// ArgumentsBytes is the size of the whole arguments, if Arguments is truncated.
	ArgumentsBytes int64 `json:"arguments_bytes,omitempty"`
	// Outcome is set when the call has ended.
	Outcome Outcome `json:"outcome,omitempty"`
	// Code says why the call did not run or has no result, if that is not the tool's own error.
	Code Code `json:"code,omitempty"`
	// Preview is the beginning of the result, and SizeBytes the size of the whole result.
	Preview   string `json:"preview,omitempty"`
	SizeBytes int64  `json:"size_bytes,omitempty"`
	// DurationMS is the time between claim and settlement, in milliseconds.
	DurationMS int64 `json:"duration_ms,omitempty"`
}

// ProgressEvent is the data of tool_progress.
type ProgressEvent struct {
	CallID string `json:"call_id"`
	Tool   string `json:"tool"`
	ToolProgress
}

// PhaseEvent is the data of phase. The journal writes it together with what the phase brings: BuildPrompt and LlmInfer
// with the first attempt of a step, ParseAction with its completion, and CallTool with the first call that runs.
type PhaseEvent struct {
	Phase PhaseName `json:"phase"`
	// Provider and Model are those that LlmInfer asks first.
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	// Wait is set while the inference waits for a fleet limit; the event's text describes it.
	Wait *LimitWait `json:"wait,omitempty"`
}

// StartedEvent is the data of turn_started.
type StartedEvent struct {
	// TraceID is the ID of the turn's OpenTelemetry trace.
	TraceID string `json:"trace_id"`
	// TraceParent is the W3C trace context of the message's sender, to which the turn's trace links.
	TraceParent string `json:"traceparent,omitempty"`
	// FittedSettings are those of the turn's model.
	FittedSettings
}

// InferenceEvent is the data of inference_completed.
type InferenceEvent struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	// LatencyMS is how long the provider took for the completion, in milliseconds.
	LatencyMS int64 `json:"latency_ms"`
	Usage     Usage `json:"usage"` // what this attempt used, and its cost
	// Omitted are the settings that the provider refused, and without which the request was sent again.
	Omitted []string `json:"omitted,omitempty"`
}

// LimitWait says which fleet limit an inference waits for: see journal.Refusal.
type LimitWait struct {
	Scope string `json:"scope"`
	Limit string `json:"limit"`
	Used  int64  `json:"used,omitempty"`
	Max   int64  `json:"max,omitempty"`
	// AboutMS is about how long it waits, in milliseconds.
	AboutMS int64 `json:"about_ms"`
}

// ErrorEvent is the data of error; the event's text says what failed. The turn continues, unless turn_completed follows
// with a failure.
type ErrorEvent struct {
	Code   Code   `json:"code"`
	CallID string `json:"call_id,omitempty"` // the failed call; empty: the step's inference
	Tool   string `json:"tool,omitempty"`
	// Invalid says what is wrong with the completion, if Code is invalid_action. Tool is then the tool that the
	// completion names.
	Invalid InvalidKind `json:"invalid,omitempty"`
	// Final means that the inference is not attempted again.
	Final bool `json:"final,omitempty"`
}

// WaitingEvent is the data of inference_waiting; the event's text says what failed. While the wait lasts, the event is
// repeated now and then, not with every attempt.
type WaitingEvent struct {
	Provider string    `json:"provider"`
	Model    string    `json:"model"`
	Code     Code      `json:"code"`
	Status   int       `json:"status,omitempty"` // the HTTP status with which the provider refused the request, if it did
	Attempt  int       `json:"attempt"`          // the activity's attempt, from 1; not each sends a request
	NextAt   time.Time `json:"next_at"`          // when the next attempt begins
	WaitedMS int64     `json:"waited_ms"`
	// LimitMS is the longest wait: then the turn's next model takes over or, if there is none, the inference fails.
	LimitMS int64 `json:"limit_ms"`
}

// ModelEvent is the data of model_changed; the event's text describes it.
type ModelEvent struct {
	Provider     string `json:"provider"`
	Model        string `json:"model"` // the model that takes over with the step's next attempt
	FromProvider string `json:"from_provider"`
	FromModel    string `json:"from_model"`
	Code         Code   `json:"code"`     // why the last attempt of the previous model failed
	Position     int    `json:"position"` // the model's place among the turn's models, whose first is 0
	Step         int    `json:"step"`
	Failures     int    `json:"failures"` // the failed attempts of the step so far
	// Mode is set if the model stays the same, and the turn goes on in this mode.
	Mode Mode `json:"mode,omitempty"`
	// FittedSettings are those of the model that takes over.
	FittedSettings
}

// SkillsEvent is the data of skills_selected: the skills in the turn's prompt, and the selected skills for which it
// had no room.
type SkillsEvent struct {
	Skills []SkillChoice `json:"skills"`
}

// SkillChoice is a skill that was selected for a turn.
type SkillChoice struct {
	Name   string  `json:"name"`
	Score  float64 `json:"score"`  // how well it matches the message: its name counts 1, a tag 0.4, a keyword 0.2
	Part   string  `json:"part"`   // the part of its text in the prompt: whole, no_examples, checklists or dropped
	Tokens int     `json:"tokens"` // estimated
}

// String lists the skills in one line.
func (c SkillsEvent) String() string {
	names := make([]string, len(c.Skills))
	for i, s := range c.Skills {
		names[i] = s.Name
		if s.Part != "whole" {
			names[i] += " (" + strings.ReplaceAll(s.Part, "_", " ") + ")"
		}
	}
	return "skills: " + strings.Join(names, ", ")
}

// DoneEvent is the data of turn_completed.
type DoneEvent struct {
	State        State        `json:"state"`
	FinishReason FinishReason `json:"finish_reason"`     // such as answered, max_steps, cancelled or failed
	Message      string       `json:"message,omitempty"` // for the user: what happened, what was kept, what to do
	Usage        Usage        `json:"usage"`
	Steps        int          `json:"steps"`
	ToolCalls    int          `json:"tool_calls"`
}

// MessageEvent is the data of message_added.
type MessageEvent struct {
	MessageID string `json:"message_id"`
	Text      string `json:"text"` // a preview
	// TextBytes is the size of the whole text, if Text is truncated.
	TextBytes int64 `json:"text_bytes,omitempty"`
}
