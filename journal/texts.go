package journal

import "github.com/everturn/everturn/workflows/turn"

// Bounds that every store keeps. Sizes are in bytes.
const (
	// MaxBlobBytes bounds one blob, and with it one message and one tool output.
	MaxBlobBytes = 64 << 20
	// MaxIDBytes bounds the IDs of sessions, turns, messages and calls.
	MaxIDBytes = 1 << 10
	// MaxChunkBytes bounds text and data of one chunk together; MaxChunks how many one append may bring.
	MaxChunkBytes = 1 << 20
	MaxChunks     = 4096
	// PreviewBytes bounds the previews in turn.CallChunk.
	PreviewBytes = 512
	// SummaryBytes bounds a turn's Answer and Message.
	SummaryBytes = 16 << 10
)

// ResultText is what the model is told of a call that has no text of its own.
func ResultText(o turn.Outcome) string {
	switch o {
	case turn.OutcomeUnknown:
		return "outcome unknown: the call may or may not have taken effect; it was not repeated. Check before trying again."
	case turn.OutcomeCancelled:
		return "cancelled: the turn ended before the call ran; it had no effect."
	case turn.OutcomeDenied:
		return "denied: the call was refused before it ran; it had no effect."
	case turn.OutcomeError:
		return "error: the call failed and gave no reason."
	}
	return ""
}

// ForkedMessage is for the people who look at a turn of which an imported fork has the beginning alone.
const ForkedMessage = "The session was forked in the middle of this turn. What came after is in the session that it was forked from."

// ClosedMessage is for the people who look at a turn that its session's next turn had to close.
const ClosedMessage = "The turn was ended from outside before it could answer. What it had done is kept; calls without a known result are marked. Send the message again to have it answered."

// LostText stands for the text of a message whose blob the journal does not have.
const LostText = "(this message's text is not in the journal: send it again)"
