package turn

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
)

// Event is one numbered event of a turn's stream. Indexes begin at 0 and have no gaps.
type Event struct {
	// Turn is the ID of the turn. The ID of the turn's trace derives from it: see turn_started.
	Turn string `json:"turn"`
	// Index is the event's number in its turn: `everturn attach --after-event N` continues after it.
	Index int64 `json:"index"`
	// Step is the step that the event belongs to, from 1; 0 before the first one.
	Step int `json:"step"`
	// Attempt is the attempt of the inference or of the call, from 1.
	Attempt int       `json:"attempt,omitempty"`
	Kind    EventKind `json:"kind"`
	At      time.Time `json:"at"`
	// Text is the delta's text, or describes what happened.
	Text string `json:"text,omitempty"`
	// Data are the kind's own fields: see EventType.Data.
	Data json.RawMessage `json:"data,omitempty"`
}

// Line describes the event in one line, which is not safe for terminals. It is empty if plain views do not show the
// event, or show it in a way of their own.
func (e Event) Line() string {
	if t, ok := e.Kind.Type(); ok && t.Line != nil {
		return t.Line(e)
	}
	return ""
}

// dataLine is an EventType.Line: the event's data as a T describes itself.
func dataLine[T interface{ String() string }](e Event) string {
	var data T
	if json.Unmarshal(e.Data, &data) != nil {
		return ""
	}
	return data.String()
}

// textLine is an EventType.Line: the event's text.
func textLine(e Event) string { return e.Text }

// TraceID returns the ID of a turn's OpenTelemetry trace in hexadecimal: the first 16 bytes of the SHA-256 of the
// turn's ID.
func TraceID(turnID string) string {
	sum := sha256.Sum256([]byte(turnID))
	return hex.EncodeToString(sum[:16])
}

// Reader accumulates the model's text from a turn's events, for display. The zero Reader is ready to use.
type Reader struct {
	step int
	text strings.Builder
}

// Add processes the next event. withdrawn means that the text returned so far is void, because the inference is
// repeated.
func (r *Reader) Add(e Event) (withdrawn bool) {
	switch e.Kind {
	case EventTextDelta:
		if e.Step != r.step {
			r.step = e.Step
			r.text.Reset()
		}
		r.text.WriteString(e.Text)
	case EventAttemptRestarted:
		withdrawn = r.step == e.Step && r.text.Len() > 0
		if r.step == e.Step {
			r.text.Reset()
		}
	}
	return withdrawn
}

// Text returns the text of the latest step that has text. After turn_completed, it is the final answer.
func (r *Reader) Text() string { return r.text.String() }
