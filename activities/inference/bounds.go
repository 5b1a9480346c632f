package inference

import (
	"fmt"

	"github.com/everturn/everturn/internal/jsonbound"
)

// The bounds of one response, besides Options.MaxAnswerBytes. They are well above what models send. A response that
// reaches all of them costs a few seconds of one core, and the context is checked between its events.
const (
	maxEventBytes  = 8 << 20 // of one event, or of a response that is not streamed
	maxEventDepth  = 128     // nested objects and arrays in one event
	maxEventValues = 1 << 16 // brackets and commas in one event, without those in strings
	maxPieces      = 1 << 19 // events, choices and parts of tool calls in one response
	maxCalls       = 1 << 10 // tool calls in one response
	maxTextBytes   = 1 << 20 // text, reasoning, IDs, names and arguments of one response, held in a dozen copies
)

// overBound is the error of a response that exceeds a bound.
type overBound struct {
	limit int64
	unit  string // in the plural, for instance "bytes in one event"
}

func (e *overBound) Error() string {
	return fmt.Sprintf("the response has more than %d %s", e.limit, e.unit)
}

// eventBounds checks the bounds of one event before it is decoded.
type eventBounds struct{ scanner jsonbound.Scanner }

// add checks the next bytes of the event. The error is an *overBound.
func (b *eventBounds) add(data []byte) error {
	switch b.scanner.Add(data, maxEventDepth, maxEventValues) {
	case jsonbound.Depth:
		return &overBound{maxEventDepth, "levels of nesting in one event"}
	case jsonbound.Values:
		return &overBound{maxEventValues, "values in one event"}
	}
	return nil
}

// complete reports whether the bytes so far are a whole JSON object or array.
func (b *eventBounds) complete() bool { return b.scanner.Complete() }
