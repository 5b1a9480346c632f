package sessionmodel

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// Kind is an action of a user.
type Kind string

// The kinds.
const (
	Send   Kind = "send"   // a message
	Burst  Kind = "burst"  // several at once
	Resend Kind = "resend" // an earlier message again, under its ID
	Decide Kind = "decide" // about the call that waits longest
	Answer Kind = "answer" // to the question
	Stop   Kind = "stop"
	Settle Kind = "settle" // wait until the session waits for a decision, or for nothing
	Pause  Kind = "pause"
)

// Verdict is a decision that a user sends, valid or not.
type Verdict string

// The verdicts. The turn must refuse those from WrongHash on.
const (
	Allow      Verdict = "allow"
	Deny       Verdict = "deny"
	AlwaysCall Verdict = "always-call"
	AlwaysTool Verdict = "always-tool"
	Twice      Verdict = "twice"    // allow, and allow again
	Conflict   Verdict = "conflict" // allow and deny, both at once
	WrongHash  Verdict = "wrong-hash"
	WrongCall  Verdict = "wrong-call"
	WrongTurn  Verdict = "wrong-turn"
	DenyAlways Verdict = "deny-always"
)

// Wrong reports whether the turn must refuse the decision in every case.
func (v Verdict) Wrong() bool {
	return v == WrongHash || v == WrongCall || v == WrongTurn || v == DenyAlways
}

// Op is one operation. Its kind determines which fields are used.
type Op struct {
	Kind    Kind
	Do      []string // what the turn does for the message or answer
	After   bool
	Which   int // the message to resend, counted from the first
	Verdict Verdict
	Wrong   bool          // the answer names a question that does not exist
	Wait    time.Duration // of a Pause
}

// String returns the form in which a failing sequence is printed.
func (o Op) String() string {
	s := string(o.Kind)
	switch o.Kind {
	case Send, Burst, Answer:
		s += " " + strings.Join(o.Do, "+")
		if o.After {
			s += " after"
		}
		if o.Wrong {
			s += " wrong"
		}
	case Resend:
		s += fmt.Sprintf(" %d", o.Which)
	case Decide:
		s += " " + string(o.Verdict)
	case Pause:
		s += " " + o.Wait.String()
	}
	return s
}

// GoString returns the form in which rapid prints the operation.
func (o Op) GoString() string { return o.String() }

// Ops generates sequences: short enough that a thousand of them run in minutes, long enough that a session continues in
// new runs.
func Ops() *rapid.Generator[[]Op] { return rapid.SliceOfN(op(), 2, 12) }

func op() *rapid.Generator[Op] {
	return rapid.Custom(func(t *rapid.T) Op {
		o := Op{Kind: rapid.SampledFrom([]Kind{Send, Send, Send, Send, Burst, Resend, Resend, Decide, Decide, Decide, Decide,
			Answer, Answer, Stop, Settle, Settle, Pause}).Draw(t, "kind")}
		switch o.Kind {
		case Send, Burst, Answer:
			o.Do = rapid.SliceOfN(rapid.SampledFrom(deeds), 0, 5).Draw(t, "do")
			o.After = o.Kind != Answer && rapid.IntRange(0, 3).Draw(t, "after") == 3
			o.Wrong = o.Kind == Answer && rapid.IntRange(0, 3).Draw(t, "wrong") == 3
		case Resend:
			o.Which = rapid.IntRange(0, 5).Draw(t, "which")
		case Decide:
			o.Verdict = rapid.SampledFrom([]Verdict{Allow, Allow, Allow, Deny, Deny, AlwaysCall, AlwaysTool, Twice, Conflict,
				WrongHash, WrongCall, WrongTurn, DenyAlways}).Draw(t, "verdict")
		case Pause:
			o.Wait = time.Duration(rapid.IntRange(1, 40).Draw(t, "ms")) * time.Millisecond
		}
		return o
	})
}
