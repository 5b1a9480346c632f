package turn

import (
	"encoding/json"
	"strings"
	"time"
)

// EventKind is the kind of an Event.
type EventKind string

// The kinds of events. A turn's first event is turn_started and its last is turn_completed.
const (
	EventTurnStarted        EventKind = "turn_started"
	EventTextDelta          EventKind = "text_delta" // the next part of a step's text; that of the last step is the answer
	EventReasoningDelta     EventKind = "reasoning_delta"
	EventToolCallStarted    EventKind = "tool_call_started"
	EventToolCallCompleted  EventKind = "tool_call_completed"
	EventToolProgress       EventKind = "tool_progress"         // the progress of a call, at most a few times per second
	EventToolCallLateResult EventKind = "tool_call_late_result" // the late result of a call whose outcome was unknown
	// a user's message was merged into the turn and is in the transcript
	EventMessageAdded      EventKind = "message_added"
	EventApprovalRequested EventKind = "approval_requested"
	EventApprovalDecided   EventKind = "approval_decided"
	EventQuestionAsked     EventKind = "question_asked"
	EventQuestionAnswered  EventKind = "question_answered"
	EventAttemptRestarted  EventKind = "attempt_restarted" // drop the step's text so far: the inference is repeated
	EventModelChanged      EventKind = "model_changed"     // a fallback takes over for the rest of the turn
	// the inference failed, or was not tried, because its provider is unavailable; it is tried again
	EventInferenceWaiting EventKind = "inference_waiting"
	EventTurnCompleted    EventKind = "turn_completed"
	EventPhase            EventKind = "phase" // the turn entered LlmInfer, which no other event shows
	// an attempt of an inference or of a call failed, or a completion is no valid action
	EventError EventKind = "error"
	// the beginning of the transcript was compacted for the prompts from now on; with a warning if it was cut
	EventCompacted EventKind = "compacted"
	// skills were selected for the turn
	EventSkillsSelected EventKind = "skills_selected"
	// a plan was accepted, or a step of it has ended
	EventPlan EventKind = "plan"
)

// Event is one numbered event of a turn's stream. Indexes begin at 0 and have no gaps.
type Event struct {
	Turn    string    `json:"turn"`
	Index   int64     `json:"index"`
	Step    int       `json:"step"`
	Attempt int       `json:"attempt,omitempty"`
	Kind    EventKind `json:"kind"`
	At      time.Time `json:"at"`
	// Text is the delta's text. The preview of the final answer is in the Data of turn_completed.
	Text string `json:"text,omitempty"`
	// Data holds the kind's own fields: CallEvent for tool calls, ProgressEvent for tool_progress, RequestEvent for
	// requests and decisions, MessageEvent for message_added, PhaseEvent for phase, ErrorEvent for error, ModelEvent for
	// model_changed, WaitingEvent for inference_waiting, CompactedEvent for compacted, SkillsEvent for skills_selected,
	// plan.Progress for plan, DoneEvent for turn_completed.
	Data json.RawMessage `json:"data,omitempty"`
}

// CallEvent is the data of tool_call_started and tool_call_completed.
type CallEvent struct {
	CallID    string `json:"call_id"`
	Tool      string `json:"tool"`
	Arguments string `json:"arguments,omitempty"` // a preview: see BlankArguments
	// ArgumentsBytes is the size of the whole arguments, if Arguments is truncated.
	ArgumentsBytes int64   `json:"arguments_bytes,omitempty"`
	Outcome        Outcome `json:"outcome,omitempty"` // completed only
	Code           Code    `json:"code,omitempty"`    // completed only: see ToolResult
	Preview        string  `json:"preview,omitempty"` // completed only
	SizeBytes      int64   `json:"size_bytes,omitempty"`
	// DurationMS is the time between claim and settlement, in milliseconds.
	DurationMS int64 `json:"duration_ms,omitempty"`
}

// ProgressEvent is the data of tool_progress.
type ProgressEvent struct {
	CallID string `json:"call_id"`
	Tool   string `json:"tool"`
	ToolProgress
}

// PhaseEvent is the data of phase. Other events show the other transitions of a turn: turn_started shows Start,
// tool_call_started and approval_requested show CallTool, and turn_completed shows Done.
type PhaseEvent struct {
	Phase PhaseName `json:"phase"`
	// Wait is set while the inference waits for a fleet limit; the event's text describes it.
	Wait *LimitWait `json:"wait,omitempty"`
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
	Status   int       `json:"status,omitempty"` // of HTTP
	Attempt  int       `json:"attempt"`          // of the activity, from 1; not each attempt sends a request
	NextAt   time.Time `json:"next_at"`          // of the next attempt
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
	Code         Code   `json:"code"`     // of the failure that the change follows
	Position     int    `json:"position"` // of the model in Config.Models
	Step         int    `json:"step"`
	Failures     int    `json:"failures"` // of the step so far
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
	Part   string  `json:"part"`   // the part of its text in the prompt: whole, no_examples, checklists, or dropped
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
	FinishReason FinishReason `json:"finish_reason"`
	Message      string       `json:"message,omitempty"` // for the user: what happened, what was kept, what to do
	Usage        Usage        `json:"usage"`
	Steps        int          `json:"steps"`
	ToolCalls    int          `json:"tool_calls"`
}

// RequestEvent is the data of approval_requested, approval_decided, question_asked and question_answered. Decision is
// nil in the first of each pair. Request.Arguments are the arguments that would run, byte for byte, up to WaitArguments
// bytes.
type RequestEvent struct {
	Request
	ArgumentsBytes int64     `json:"arguments_bytes,omitempty"` // of the whole arguments
	Decision       *Decision `json:"decision,omitempty"`
}

// MessageEvent is the data of message_added.
type MessageEvent struct {
	MessageID string `json:"message_id"`
	Text      string `json:"text"` // a preview
	// TextBytes is the size of the whole text, if Text is truncated.
	TextBytes int64 `json:"text_bytes,omitempty"`
}

// Reader accumulates the model's text from a turn's events, for display. The zero Reader is ready to use.
type Reader struct {
	step int
	text strings.Builder
}

// Add processes the next event. withdrawn means that the text returned so far is void, because the inference is
// repeated.
func (r *Reader) Add(e Event) (withdrawn bool) {
	switch e.Kind {
	case EventTextDelta:
		if e.Step != r.step {
			r.step = e.Step
			r.text.Reset()
		}
		r.text.WriteString(e.Text)
	case EventAttemptRestarted:
		withdrawn = r.step == e.Step && r.text.Len() > 0
		if r.step == e.Step {
			r.text.Reset()
		}
	}
	return withdrawn
}

// Text returns the text of the latest step that has text. After turn_completed, it is the final answer.
func (r *Reader) Text() string { return r.text.String() }
