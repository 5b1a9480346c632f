package turn

import (
	"errors"
	"slices"
	"time"
)

// Code is a class of failure. The set is closed; each code is a Temporal application error's type.
type Code string

// The codes.
const (
	CodeLLMTransport       Code = "llm_transport"
	CodeLLMRateLimited     Code = "llm_rate_limited"
	CodeLLMRejected        Code = "llm_rejected"
	CodeLLMUnauthorized    Code = "llm_unauthorized" // the provider rejects the API key
	CodeLLMTruncated       Code = "llm_truncated"
	CodeContextOverflow    Code = "context_overflow" // the prompt exceeds the model's context window
	CodeInvalidAction      Code = "invalid_action"
	CodeInvalidOutput      Code = "invalid_output" // the answer does not match the turn's output schema
	CodeToolNotSent        Code = "tool_not_sent"
	CodeToolFailed         Code = "tool_failed"
	CodeToolOutcomeUnknown Code = "tool_outcome_unknown"
	CodeToolDrift          Code = "tool_drift"
	CodeToolStateLost      Code = "tool_state_lost" // the state that a stateful server kept for the turn is lost
	CodePolicyDenied       Code = "policy_denied"
	CodeApprovalExpired    Code = "approval_expired"
	CodeLimitExceeded      Code = "limit_exceeded"
	CodeTokensUsedUp       Code = "tokens_used_up" // a fleet limit per day or month is reached
	CodeBudgetUsedUp       Code = "budget_used_up" // of the session or tenant
	CodeJournalUnavailable Code = "journal_unavailable"
	// CodeWorkerUnavailable: the worker has no room for the task, stops, or still runs an earlier attempt of it.
	CodeWorkerUnavailable   Code = "worker_unavailable"
	CodeTemporalUnavailable Code = "temporal_unavailable"
	CodeSessionBusy         Code = "session_busy"
	CodeSessionEnding       Code = "session_ending" // the turn is ending; try again in a moment
	CodeNotWaiting          Code = "not_waiting"    // no such request is open, or it is already settled
	CodeConfigInvalid       Code = "config_invalid"
	CodeInputInvalid        Code = "input_invalid" // a message, decision or input of a client is malformed
	CodeInternal            Code = "internal"
)

// Error is a failure of a turn. Message is for the user: what happened, what was kept, what to do. Cause goes to
// telemetry only.
type Error struct {
	Code    Code
	Message string
	// RetryAfter is the pause before the next attempt that the provider or server has requested, or that this worker
	// makes while it is unavailable. 0 means unknown.
	RetryAfter time.Duration
	// Refused means that the request reached the server and its front end answered that it did not act on it (HTTP 404,
	// 429, some 400).
	Refused bool
	// Status is the HTTP status with which the provider or server refused the request; 0 if there is none.
	Status int
	// OfModel means that another model may accept the same request: the provider does not have this model, or the
	// account has no quota for it.
	OfModel bool
	// NoTools means that the provider refused the request because it has tools.
	NoTools bool
	Cause   error
}

// NewError is the only constructor of Error. cause may be nil.
func NewError(code Code, cause error, message string) *Error {
	return &Error{Code: code, Message: message, Cause: cause}
}

// ErrToolAbsent is the cause of the error that a worker returns if it lacks the called tool. Another worker may have
// it.
var ErrToolAbsent = errors.New("this worker does not have the tool")

// ToolAbsent returns the error of a call of a tool that this worker does not have.
func ToolAbsent(id string) *Error {
	return NewError(CodeToolNotSent, ErrToolAbsent, "not sent: no running worker has the tool "+Truncate(id, 200)+
		" as the turn began with it")
}

// OnQueue is the cause of the error of a call that was not made, because only the worker of the task queue Queue can run
// it.
type OnQueue struct{ Queue string }

func (e *OnQueue) Error() string {
	return "only the worker of the task queue " + e.Queue + " can run the call"
}

func (e *Error) Error() string {
	if e.Cause == nil {
		return string(e.Code) + ": " + e.Message
	}
	return string(e.Code) + ": " + e.Message + ": " + e.Cause.Error()
}

func (e *Error) Unwrap() error { return e.Cause }

// Retryable reports whether trying the same thing again may succeed.
func (c Code) Retryable() bool {
	switch c {
	case CodeLLMTransport, CodeLLMRateLimited, CodeLLMTruncated, CodeJournalUnavailable, CodeWorkerUnavailable,
		CodeTemporalUnavailable:
		return true
	}
	return false
}

// Codes returns all codes.
func Codes() []Code {
	return []Code{
		CodeLLMTransport, CodeLLMRateLimited, CodeLLMRejected, CodeLLMUnauthorized, CodeLLMTruncated,
		CodeContextOverflow, CodeInvalidAction, CodeInvalidOutput,
		CodeToolNotSent, CodeToolFailed, CodeToolOutcomeUnknown, CodeToolDrift, CodeToolStateLost, CodePolicyDenied,
		CodeApprovalExpired, CodeLimitExceeded, CodeTokensUsedUp, CodeBudgetUsedUp, CodeJournalUnavailable,
		CodeWorkerUnavailable, CodeTemporalUnavailable, CodeSessionBusy,
		CodeSessionEnding, CodeNotWaiting, CodeConfigInvalid, CodeInputInvalid, CodeInternal,
	}
}

// Known reports whether c is a code of this package. An activity's error without a known code does not come from the
// activity itself.
func (c Code) Known() bool { return slices.Contains(Codes(), c) }

// CodeOf returns the code of the first Error in err's chain, or CodeInternal.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
