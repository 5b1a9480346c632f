package session

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// Kind is what a user does.
type Kind string

// The kinds.
const (
	Send   Kind = "send"   // a message
	Burst  Kind = "burst"  // several at once
	Resend Kind = "resend" // one that was sent before, under its ID
	Decide Kind = "decide" // about the call that waits longest
	Answer Kind = "answer" // to the question
	Stop   Kind = "stop"
	Settle Kind = "settle" // wait until the session needs somebody, or nothing
	Pause  Kind = "pause"
)

// DecisionStatus is a decision, right or wrong.
type Verdict string

// The verdicts. All from WrongHash on have to be refused.
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

// Wrong reports whether the decision has to be refused, whatever waits.
func (v Verdict) Wrong() bool {
	return v == WrongHash || v == WrongCall || v == WrongTurn || v == DenyAlways
}

// Op is one operation. Which fields count depends on its kind.
type Op struct {
	Kind    Kind
	Do      []string // what the turn does about the message or answer
	After   bool
	Which   int // the message that is sent again, counted from the first
	Verdict Verdict
	Wrong   bool          // the answer is to a question that nobody asked
	Wait    time.Duration // of a Pause
}

// String is how a failing sequence is shown.
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

// GoString is how rapid shows it.
func (o Op) GoString() string { return o.String() }

// Ops generates sequences: short enough that a thousand of them run in minutes, long enough that a session goes on in
// new runs.
func Ops() *rapid.Generator[[]Op] { return rapid.SliceOfN(op(), 2, 12) }

func op() *rapid.Generator[Op] {
	return rapid.Custom(func(t *rapid.T) Op {
		o := Op{Kind: rapid.SampledFrom([]Kind{Send, Send, Send, Send, Burst, Resend, Resend, Decide, Decide, Decide, Decide, Answer, Answer, Stop, Settle, Settle, Pause}).Draw(t, "kind")}
		switch o.Kind {
		case Send, Burst, Answer:
			o.Do = rapid.SliceOfN(rapid.SampledFrom(deeds), 0, 5).Draw(t, "do")
			o.After = o.Kind != Answer && rapid.IntRange(0, 3).Draw(t, "after") == 3
			o.Wrong = o.Kind == Answer && rapid.IntRange(0, 3).Draw(t, "wrong") == 3
		case Resend:
			o.Which = rapid.IntRange(0, 5).Draw(t, "which")
		case Decide:
			o.Verdict = rapid.SampledFrom([]Verdict{Allow, Allow, Allow, Deny, Deny, AlwaysCall, AlwaysTool, Twice, Conflict, WrongHash, WrongCall, WrongTurn, DenyAlways}).Draw(t, "verdict")
		case Pause:
			o.Wait = time.Duration(rapid.IntRange(1, 40).Draw(t, "ms")) * time.Millisecond
		}
		return o
	})
}
