package check

import (
	"fmt"
	"slices"
	"strings"
)

// Invariant is a promise of docs/guarantees.md.
type Invariant string

// The invariants.
const (
	I1 Invariant = "I1" // each acknowledged message gets exactly one terminal answer
	I2 Invariant = "I2" // each call has at most one effect, unless its tool may be repeated; ok means exactly one
	I3 Invariant = "I3" // no gap in the transcript; one result a call, in request order
	I4 Invariant = "I4" // a completed inference is never sent again; interrupted ones are counted
	I5 Invariant = "I5" // no effect before its approval; each decision is applied once, to the call that it names
	I6 Invariant = "I6" // every history replays on the current code
	I7 Invariant = "I7" // no orphan, no leak
	I8 Invariant = "I8" // no secret in any sink
	I9 Invariant = "I9" // what comes of a message keeps to its limits and to its tools
)

// Violation is a broken promise, and the evidence for it.
type Violation struct {
	Invariant Invariant `json:"invariant"`
	What      string    `json:"what"`
}

func (v Violation) String() string { return string(v.Invariant) + ": " + v.What }

// Check returns every violation that the ledgers show, ordered by invariant.
func Check(l Ledgers) []Violation {
	c := newChecker(l)
	c.ends()
	c.streams()
	c.outcomes()
	c.attempts()
	c.notices()
	c.progress()
	c.decisions()
	c.transcripts()
	c.replay()
	if !l.Partial {
		c.answers()
		c.effects()
		c.allowances()
		c.elicitations()
		c.homes()
		c.faces()
		c.taints()
		c.people()
		c.stops()
		c.shown()
		c.inferences()
		c.processes()
		c.secrets()
	}
	slices.SortStableFunc(c.found,
		func(a, b Violation) int { return strings.Compare(string(a.Invariant), string(b.Invariant)) })
	return c.found
}

// Invariants returns the invariants that the violations break, each once, in order.
func Invariants(list []Violation) []Invariant {
	var out []Invariant
	for _, v := range list {
		if !slices.Contains(out, v.Invariant) {
			out = append(out, v.Invariant)
		}
	}
	return out
}

func (c *checker) breaks(i Invariant, format string, args ...any) {
	v := Violation{i, fmt.Sprintf(format, args...)}
	if !slices.Contains(c.found, v) {
		c.found = append(c.found, v)
	}
}
