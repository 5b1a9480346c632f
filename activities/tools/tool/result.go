package tool

import (
	"fmt"
	"time"

	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// Limits are the bounds of a result.
type Limits struct {
	Shown int // bytes that the model sees
	Full  int // bytes that are kept
}

// Text returns an ok result with the sanitized text. Its Text has at most l.Shown bytes. If the text is longer, its
// Full has the text again, up to l.Full bytes. redact removes secrets before anything is cut.
func Text(text string, l Limits, redact func(string) string) turn.ToolResult {
	r := turn.ToolResult{Outcome: turn.OutcomeOK, SizeBytes: int64(len(text))}
	whole := redact(printable.Sanitize(text))
	var cut bool
	if r.Text, cut = printable.Cut(whole, l.Shown); cut {
		r.Full, r.MediaType = []byte(printable.Head(whole, l.Full)), "text/plain; charset=utf-8"
	}
	return r
}

// Error returns an error result with this text.
func Error(text string) turn.ToolResult {
	return turn.ToolResult{Outcome: turn.OutcomeError, Text: text, SizeBytes: int64(len(text))}
}

// Denied returns the result of a call that this program does not pass on to its tool.
func Denied(text string) turn.ToolResult {
	c, _ := Ending{Stage: StageChecked}.Class()
	r := Error(text)
	r.Outcome = turn.Outcome(c)
	return r
}

// Unknown returns the result of a call of the tool id that was sent and got no response. why says what happened, as
// the end of a sentence that begins "the tool was called, and".
func Unknown(id string, e Ending, why string) turn.ToolResult {
	class, again := e.Class()
	advice := "It may or may not have taken effect. Find out before calling it again."
	if again {
		advice = "It may be called again."
	}
	r := Error(fmt.Sprintf("Outcome unknown: %s was called, and %s. %s", id, why, advice))
	r.Outcome = turn.Outcome(class)
	return r
}

// NotSent returns the error of a call of which nothing was sent. to names the server or the functions; why may be
// empty.
func NotSent(to, why string, cause error) error {
	text := "nothing was sent to " + to
	if why != "" {
		text += ": " + why
	}
	return turn.NewError(turn.CodeToolNotSent, cause, text)
}

// Drift returns the error of a call of a tool that no longer matches the turn config. what says in which way.
func Drift(what string) error {
	return turn.NewError(turn.CodeToolDrift, nil,
		what+"; it was not called. The tool is quarantined until the operator approves it (tools diff, tools approve)")
}

// Matching returns the descriptor of a call's tool from the tools that are offered now, by their IDs. It returns a
// Drift error if the tool is not among them, or not in the version of the turn config. owner names the tool's server.
func Matching(offered map[string]turn.Descriptor, req turn.ToolRequest, owner string) (turn.Descriptor, error) {
	d, ok := offered[req.Tool]
	if !ok {
		return d, Drift(req.Tool + " is no longer offered by " + owner)
	}
	if d.Hash != req.Hash {
		return d, Drift(req.Tool + " is not what this turn was given: its description, parameters or annotations changed")
	}
	return d, nil
}

// FirstOf returns the first timeout that is set (greater than 0), or 0.
func FirstOf(timeouts ...time.Duration) time.Duration {
	for _, t := range timeouts {
		if t > 0 {
			return t
		}
	}
	return 0
}
