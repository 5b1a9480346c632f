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
	CodeLLMUnauthorized    Code = "llm_unauthorized" // the provider does not take the key
	CodeLLMTruncated       Code = "llm_truncated"
	CodeInvalidAction      Code = "invalid_action"
	CodeToolNotSent        Code = "tool_not_sent"
	CodeToolFailed         Code = "tool_failed"
	CodeToolOutcomeUnknown Code = "tool_outcome_unknown"
	CodeToolDrift          Code = "tool_drift"
	CodeToolStateLost      Code = "tool_state_lost" // what a stateful server remembered of the turn is gone
	CodePolicyDenied       Code = "policy_denied"
	CodeApprovalExpired    Code = "approval_expired"
	CodeBudgetExceeded     Code = "budget_exceeded"
	CodeGuardExceeded      Code = "guard_exceeded"
	CodeStoreUnavailable   Code = "store_unavailable"
	CodeSessionBusy        Code = "session_busy"
	CodeSessionEnding      Code = "session_ending" // the turn is just ending; ask again in a moment
	CodeSessionTaken       Code = "session_taken"  // the session of this name is another tenant's
	CodeNotWaiting         Code = "not_waiting"    // nobody was asked that, or somebody has answered
	CodeConfigInvalid      Code = "config_invalid"
	CodeInternal           Code = "internal"
)

// Error is a failure of a turn. Message is for its user: what happened, what was kept, what to do. Cause goes to
// telemetry only.
type Error struct {
	Code    Code
	Message string
	// RetryAfter is how long the other side asked to be left alone, or how long it is left alone because it is away; 0: not
	// known.
	RetryAfter time.Duration
	// Refused: the request reached the server, whose front says that it was not acted on (HTTP 404, 429, some 400).
	Refused bool
	Cause   error
}

// Errorf is the one constructor of Error. cause may be nil.
func Errorf(code Code, cause error, message string) *Error {
	return &Error{Code: code, Message: message, Cause: cause}
}

func (e *Error) Error() string {
	if e.Cause == nil {
		return string(e.Code) + ": " + e.Message
	}
	return string(e.Code) + ": " + e.Message + ": " + e.Cause.Error()
}

func (e *Error) Unwrap() error { return e.Cause }

// Retryable reports whether trying the same thing again may help.
func (c Code) Retryable() bool {
	switch c {
	case CodeLLMTransport, CodeLLMRateLimited, CodeLLMTruncated, CodeStoreUnavailable:
		return true
	}
	return false
}

// Codes lists all codes.
func Codes() []Code {
	return []Code{
		CodeLLMTransport, CodeLLMRateLimited, CodeLLMRejected, CodeLLMUnauthorized, CodeLLMTruncated, CodeInvalidAction,
		CodeToolNotSent, CodeToolFailed, CodeToolOutcomeUnknown, CodeToolDrift, CodeToolStateLost, CodePolicyDenied,
		CodeApprovalExpired, CodeBudgetExceeded, CodeGuardExceeded, CodeStoreUnavailable, CodeSessionBusy,
		CodeSessionEnding, CodeSessionTaken, CodeNotWaiting, CodeConfigInvalid, CodeInternal,
	}
}

// Known reports whether c is a code of this package. An error of an activity that carries none is not the activity's.
func (c Code) Known() bool { return slices.Contains(Codes(), c) }

// CodeOf returns the code of the first Error in err's chain, or CodeInternal.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
