package journal

import (
	"encoding/json"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// TurnConfig is the turn config that a worker recorded when the turn began, with the turn's session, tenant and current
// state.
type TurnConfig struct {
	Session string
	Tenant  string
	Caller  turn.Caller // of the session, if it is that of a subagent
	State   turn.State
	Config  json.RawMessage // a turn.Config
}

// BeginResult is the result of Begin. If DuplicateOf, Earlier or Kept is set, Begin has opened no turn and Turn is
// empty.
type BeginResult struct {
	Turn TurnRecord
	// Head is the transcript's head right after this turn's message. A resuming run starts from it.
	Head turn.Head
	// Message is this turn's message as it was stored, unless Resumed is set.
	Message turn.Message
	// Config is the turn config of the turn's first Begin; later calls do not change it.
	Config json.RawMessage
	// Resumed means that an earlier Begin of the same workflow chain opened the turn.
	Resumed bool
	// DuplicateOf is the other turn that has already taken the message. Begin has written nothing.
	DuplicateOf *TurnRecord
	// TextDiffers means that the message which DuplicateOf took has this ID but another text.
	TextDiffers bool
	// Earlier are late messages of the session's previous turn that come before this message. Begin has written
	// nothing: the caller begins the turn with the first of them. See turn.FinishInput.Left.
	Earlier []turn.UserMessage
	// Later are the late messages of the previous turn that come after this message.
	Later []turn.UserMessage
	// Closed is the ID of the unfinished turn that Begin closed; empty if there was none.
	Closed string
	// Kept means that the message is the answer of a subagent and may not begin a turn, because the limits of the
	// user's message are used up or a user has stopped the subagent. The session's next inference shows the answer to
	// the model.
	Kept bool
}

// Origin says which user message led to the answer of a subagent, and how much it has cost so far.
type Origin struct {
	Turn string // the turn that called the subagent
	Root string // the turn that began with the user's message
	// Spent is what the user's message has cost so far: the sum of all turns that result from it. A subagent in the
	// background counts with its whole allowance until its turn has ended.
	Spent turn.Spending
	// Known is false if a turn has no record of its spending, because it runs or its workflow did not end it. Then the
	// caller must assume that no allowance is left.
	Known bool
}

// StartInference is the input of DB.StartInference.
type StartInference struct {
	Session string
	Key     StepKey
	// Expect is the head before Outcomes are appended. If an earlier attempt of the same step has appended the results,
	// the head is ahead of Expect by exactly those, and that is no conflict.
	Expect   turn.Head
	Outcomes []turn.CallOutcome // of the step before, in the order of its calls
	// Messages are appended after Outcomes, each with message_added. A message whose ID the session has had is skipped.
	Messages []turn.UserMessage
	// Provider and Model are those that the attempt asks.
	Provider, Model string
	At              time.Time
}

// ForkInput names a point of a session and the new session that begins there.
type ForkInput struct {
	Session string // the session to fork
	// At is the seq of the last shared message, at least 1. A fork must not separate calls from their results: Fork
	// returns ErrForkPoint if the message at At requests calls, or the next message is a result.
	At    int64
	ID    string // the new session's ID
	Agent string // empty: the forked session's agent
	Time  time.Time
}

// SettleInference is the input of DB.SettleInference.
type SettleInference struct {
	Session string
	Key     StepKey
	Attempt int
	// Base is Inference.Base of the attempt. It may be left out, which costs a read.
	Base   turn.Head
	Answer turn.Completion
	// Message is appended to the transcript: role assistant, text, tool calls with their IDs.
	Message turn.Message
	// Events are the last deltas of the answer, which AppendEvents has not appended yet.
	Events []turn.Event
	At     time.Time
	// Provider and Model are those that the attempt was sent to, and whose prices Answer.Usage.Cost is computed with.
	Provider, Model string
	Latency         time.Duration // of the provider
	// Reserved means that ReserveUsage has reserved the attempt's usage.
	Reserved bool
}

// ClaimState is the state in which a claim found the call.
type ClaimState string

// The states of a claim.
const (
	// ClaimGranted: the call has not run, or it is repeatable and has no outcome yet. Run it.
	ClaimGranted ClaimState = "granted"
	// ClaimSettled: the outcome is known. Do not run it.
	ClaimSettled ClaimState = "settled"
	// ClaimTaken: an earlier attempt claimed the call and left no outcome, and the tool is not repeatable. Do not run
	// it: its outcome is unknown.
	ClaimTaken ClaimState = "taken"
	// ClaimStale: a later attempt has claimed the call. Do not run it.
	ClaimStale ClaimState = "stale"
)
