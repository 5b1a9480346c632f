package journal

import (
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// ClaimInput claims a call.
type ClaimInput struct {
	Turn string
	Step int
	Call turn.ToolCall
	// Attempt is the dispatch, from 1: a claim is refused where a higher one exists.
	Attempt    int
	Repeatable bool
	Approved   bool // the journal must have a person's word for it
	Worker     string
	At         time.Time
}

// ClaimState is what a claim found.
type ClaimState string

// What a claim may find.
const (
	// ClaimGranted: nobody has run the call, or it is repeatable and has no outcome yet. Run it.
	ClaimGranted ClaimState = "granted"
	// ClaimSettled: the outcome is known. Do not run it.
	ClaimSettled ClaimState = "settled"
	// ClaimTaken: an earlier attempt claimed it, left no outcome, and the tool is not repeatable. Do not run it: its
	// outcome is unknown.
	ClaimTaken ClaimState = "taken"
	// ClaimStale: a later attempt has claimed it. Do not run it.
	ClaimStale ClaimState = "stale"
)

// Claim answers ClaimCall. Record is set in every state.
type Claim struct {
	State  ClaimState
	Record CallRecord
}

// SettleInput settles a call.
type SettleInput struct {
	Turn    string
	CallID  string
	Attempt int
	// Result: of its media each brings its Data; hash and size are the journal's to say. See CleanResult for its bounds.
	Result turn.ToolResult
	// Taints: the words of this result may be anybody's. The settlement, also a late one, marks the session where it brings
	// such words: text or media of a call that came to an end, or media of one whose outcome is unknown.
	Taints bool
	At     time.Time
}

// SuspendInput gives the claim of (turn, call, attempt) back in the middle of the call.
type SuspendInput struct {
	Turn    string
	CallID  string
	Attempt int
	// Continuation is what the tool's server wants to be handed back: at most MaxContinuationBytes. The journal keeps it as
	// bytes that mean nothing to it, and leaves it out of exports: it is between the server and whoever calls it.
	Continuation []byte
	At           time.Time
}

// Mark says which call brought words into a session that may be anybody's.
type Mark struct {
	Turn   string    `json:"turn"`
	CallID string    `json:"call_id"`
	Tool   string    `json:"tool"`
	At     time.Time `json:"at"`
}

// CallRecord is the ledger's record of a call.
type CallRecord struct {
	Turn    string        `json:"turn"`
	Step    int           `json:"step"`
	Call    turn.ToolCall `json:"call"`
	Attempt int           `json:"attempt"` // the highest that claimed
	// Runs counts the claims that were granted and not released: above 1 only for repeatable tools, and for calls that went
	// on after their server had asked for something.
	Runs int `json:"runs,omitempty"`
	// Repeatable is what the first claim said of the tool. Where it is false, no later claim has begun the call anew.
	Repeatable bool         `json:"repeatable,omitempty"`
	Worker     string       `json:"worker,omitempty"`
	ClaimedAt  time.Time    `json:"claimed_at,omitzero"`
	Outcome    turn.Outcome `json:"outcome,omitempty"`   // zero while open
	Code       turn.Code    `json:"code,omitempty"`      // see turn.ToolResult
	Text       string       `json:"text,omitempty"`      // what the model is shown
	FullBlob   string       `json:"full_blob,omitempty"` // the whole output, where Text is a cut of it
	Media      []turn.Media `json:"media,omitempty"`     // without Data: see Journal.Artifact
	SizeBytes  int64        `json:"size_bytes,omitempty"`
	SettledAt  time.Time    `json:"settled_at,omitzero"`
	DurationMS int64        `json:"duration_ms,omitempty"`
	Late       bool         `json:"late,omitempty"` // of a SettleCall: this settlement was kept as late
	LateCount  int          `json:"late_count,omitempty"`
	// Suspended is the attempt that was given back in the middle of the call (see SuspendCall), 0 where none was, and
	// Continuation what it left: nil where the journal does not have it, as after an import.
	Suspended    int    `json:"suspended,omitempty"`
	Continuation []byte `json:"-"`
}
