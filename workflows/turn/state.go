package turn

// State is the state of a turn in output, indexes and exit codes.
type State string

// The states of a turn.
const (
	StateRunning   State = "running"
	StateWaiting   State = "waiting" // for a decision
	StateCompleted State = "completed"
	StateFailed    State = "failed"
	StateCancelled State = "cancelled"
	// StateClosed means that the turn was ended from outside (terminate, run timeout) and closed by the session's next
	// turn.
	StateClosed State = "closed"
)

// Terminal reports whether a turn in this state has ended.
func (s State) Terminal() bool { return s != StateRunning && s != StateWaiting && s != "" }

// Known reports whether s is a state of this package.
func (s State) Known() bool {
	switch s {
	case StateRunning, StateWaiting, StateCompleted, StateFailed, StateCancelled, StateClosed:
		return true
	}
	return false
}

// FinishReason says why a turn ended.
type FinishReason string

// The finish reasons.
const (
	FinishAnswered  FinishReason = "answered"
	FinishDuplicate FinishReason = "duplicate" // another turn had this message first; its answer is given
	FinishNoMessage FinishReason = "no_message"
	// FinishKept means that the message is a subagent's answer that begins no turn: the session's next turn gets it.
	FinishKept         FinishReason = "kept"
	FinishMaxSteps     FinishReason = "max_steps"
	FinishMaxToolCalls FinishReason = "max_tool_calls"
	FinishMaxErrors    FinishReason = "max_consecutive_errors"
	FinishMaxTokens    FinishReason = "max_tokens"
	FinishMaxCost      FinishReason = "max_cost_usd"
	FinishTimeout      FinishReason = "turn_timeout"
	// FinishRepeatedCalls means that the model repeated the same calls with the same results: see MaxRepeats.
	FinishRepeatedCalls FinishReason = "repeated_calls"
	// The completion ended early, or the model refused: see StopCause. The partial text is the answer.
	FinishLength        FinishReason = FinishReason(StopLength)
	FinishContentFilter FinishReason = FinishReason(StopContentFilter)
	FinishRefusal       FinishReason = FinishReason(StopRefusal)
	FinishInterrupted   FinishReason = "interrupted" // the policy is interrupt, and an error occurred
	FinishCancelled     FinishReason = "cancelled"
	FinishFailed        FinishReason = "failed"
	FinishTerminated    FinishReason = "terminated" // closed by the session's next turn
)

// Known reports whether r is a finish reason of this package.
func (r FinishReason) Known() bool {
	switch r {
	case FinishAnswered, FinishDuplicate, FinishNoMessage, FinishKept, FinishMaxSteps, FinishMaxToolCalls, FinishMaxErrors,
		FinishMaxTokens, FinishMaxCost, FinishTimeout, FinishRepeatedCalls, FinishLength, FinishContentFilter, FinishRefusal,
		FinishInterrupted, FinishCancelled, FinishFailed, FinishTerminated:
		return true
	}
	return false
}
