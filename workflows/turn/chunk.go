package turn

import (
	"encoding/json"
	"strings"
	"time"
)

// ChunkKind is what a chunk of a turn's output says.
type ChunkKind string

// The kinds of chunks. A turn's first chunk is turn_started and its last is turn_completed.
const (
	ChunkTurnStarted        ChunkKind = "turn_started"
	ChunkTextDelta          ChunkKind = "text_delta"
	ChunkReasoningDelta     ChunkKind = "reasoning_delta"
	ChunkToolCallStarted    ChunkKind = "tool_call_started"
	ChunkToolCallCompleted  ChunkKind = "tool_call_completed"
	ChunkToolProgress       ChunkKind = "tool_progress"      // how far a call has come, at most a few times a second
	ChunkToolCallLateResult ChunkKind = "tool_call_resolved" // what became of a call whose outcome was unknown
	ChunkMessageAdded       ChunkKind = "message_joined"     // a user's message came in mid-turn and is in the transcript
	ChunkApprovalRequested  ChunkKind = "approval_requested"
	ChunkApprovalDecided    ChunkKind = "approval_decided"
	ChunkQuestionAsked      ChunkKind = "question_asked"
	ChunkQuestionAnswered   ChunkKind = "question_answered"
	ChunkAttemptRestarted   ChunkKind = "attempt_restarted" // drop the step's text so far: an inference is repeated
	ChunkTurnCompleted      ChunkKind = "turn_completed"
	ChunkPhase              ChunkKind = "phase" // the turn is in a phase that no other chunk shows: it waits for the model
	ChunkError              ChunkKind = "error" // an attempt of an inference or of a call failed
)

// Chunk is one numbered piece of a turn's output. Indexes begin at 0 and have no gaps.
type Chunk struct {
	Turn    string    `json:"turn"`
	Index   int64     `json:"index"`
	Step    int       `json:"step"`
	Attempt int       `json:"attempt,omitempty"`
	Kind    ChunkKind `json:"kind"`
	At      time.Time `json:"at"`
	// Text is the delta's text; for turn_completed the final answer's preview is in Data.
	Text string `json:"text,omitempty"`
	// Data holds the kind's own fields: CallChunk for tool calls, ProgressChunk for tool_progress, RequestChunk for what
	// people are asked and say, MessageChunk for message_joined, PhaseChunk for phase, ErrorChunk for error, DoneChunk for
	// turn_completed.
	Data json.RawMessage `json:"data,omitempty"`
}

// CallChunk is the data of tool_call_started and tool_call_completed.
type CallChunk struct {
	CallID    string `json:"call_id"`
	Tool      string `json:"tool"`
	Arguments string `json:"arguments,omitempty"` // a preview
	// ArgumentsBytes is the size of the whole arguments, if Arguments is the beginning of them.
	ArgumentsBytes int64   `json:"arguments_bytes,omitempty"`
	Outcome        Outcome `json:"outcome,omitempty"` // completed only
	Code           Code    `json:"code,omitempty"`    // completed only: see ToolResult
	Preview        string  `json:"preview,omitempty"` // completed only
	SizeBytes      int64   `json:"size_bytes,omitempty"`
	// DurationMS is the time between claim and settlement, in milliseconds.
	DurationMS int64 `json:"duration_ms,omitempty"`
}

// ProgressChunk is the data of tool_progress.
type ProgressChunk struct {
	CallID string `json:"call_id"`
	Tool   string `json:"tool"`
	ToolProgress
}

// PhaseChunk is the data of phase. A turn's other transitions are shown by the chunks of what happens in them: Start by
// turn_started, CallTool by tool_call_started and approval_requested, Done by turn_completed.
type PhaseChunk struct {
	Phase PhaseName `json:"phase"`
}

// ErrorChunk is the data of error, whose text says what failed. The turn goes on, unless turn_completed says otherwise.
type ErrorChunk struct {
	Code   Code   `json:"code"`
	CallID string `json:"call_id,omitempty"` // of a call; empty: the step's inference
	Tool   string `json:"tool,omitempty"`
	// Final: no further attempt of the inference follows.
	Final bool `json:"final,omitempty"`
}

// DoneChunk is the data of turn_completed.
type DoneChunk struct {
	State        State        `json:"state"`
	FinishReason FinishReason `json:"finish_reason"`
	Message      string       `json:"message,omitempty"` // for people: what happened, what was kept, what to do
	Usage        Usage        `json:"usage"`
	Steps        int          `json:"steps"`
	ToolCalls    int          `json:"tool_calls"`
}

// RequestChunk is the data of approval_requested, approval_decided, question_asked and question_answered. In the first
// of each pair Decision is nil. Request.Arguments are what would run, byte for byte, up to WaitArguments bytes.
type RequestChunk struct {
	Request
	ArgumentsBytes int64     `json:"arguments_bytes,omitempty"` // of the whole arguments
	Decision       *Decision `json:"ruling,omitempty"`
}

// MessageChunk is the data of message_joined.
type MessageChunk struct {
	MessageID string `json:"message_id"`
	Text      string `json:"text"` // a preview
	// TextBytes is the size of the whole text, if Text is the beginning of it.
	TextBytes int64 `json:"text_bytes,omitempty"`
}

// Reader folds a turn's chunks into the text that a reader should see. The zero Reader is ready to use.
type Reader struct {
	step int
	text strings.Builder
}

// Add takes the next chunk and reports whether text that was shown before is withdrawn by it.
func (r *Reader) Add(c Chunk) (withdrawn bool) {
	switch c.Kind {
	case ChunkTextDelta:
		if c.Step != r.step {
			r.step = c.Step
			r.text.Reset()
		}
		r.text.WriteString(c.Text)
	case ChunkAttemptRestarted:
		withdrawn = r.step == c.Step && r.text.Len() > 0
		if r.step == c.Step {
			r.text.Reset()
		}
	}
	return withdrawn
}

// Text is the text of the last step that had any: after turn_completed, the final answer.
func (r *Reader) Text() string { return r.text.String() }
