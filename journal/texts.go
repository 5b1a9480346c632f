package journal

import (
	"fmt"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// Bounds that every store keeps. Sizes are in bytes.
const (
	// MaxBlobBytes bounds one blob, and with it one message and one tool output.
	MaxBlobBytes = 64 << 20
	// MaxMessageBytes bounds the text of a user's message.
	MaxMessageBytes = 8 << 20
	// MaxIDBytes bounds the IDs of sessions, turns, messages and calls.
	MaxIDBytes = 1 << 10
	// MaxChunkBytes bounds text and data of one chunk together; MaxChunks how many one append may bring.
	MaxChunkBytes = 1 << 20
	MaxChunks     = 4096
	// PreviewBytes bounds the previews in turn.CallChunk.
	PreviewBytes = 512
	// MaxContinuationBytes bounds what a suspended call goes on with.
	MaxContinuationBytes = 1 << 20
	// MaxInquiryBytes bounds what a tool's server asks a person, MaxReplyBytes what it is told: each as JSON.
	MaxInquiryBytes = 64 << 10
	MaxReplyBytes   = 64 << 10
	// MaxMedia is how many media of one result are kept, MaxMediaBytes how large each may be.
	MaxMedia      = 8
	MaxMediaBytes = 8 << 20
	// MaxNotes is how many tool_progress a call may leave.
	MaxNotes = 200
	// MaxNotices is how much of what has become of unknown calls one step is told; the next step is told the rest.
	MaxNotices = 32
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

// HeldEnded is the reason of the ruling about what a call was held for that has ended without an answer to it.
const HeldEnded = "its call has ended"

// SuspendedText is what the model is told of a call whose server had asked for something when the turn ended.
const SuspendedText = "outcome unknown: the tool's server had asked for something, and the turn ended before it went on. What it had done until then is not known. Check before trying again."

// lateNotice is what the model is told of a call whose outcome was unknown, in a message that no user wrote: the result
// that came after all. rec is the call as it was settled, late what came.
func lateNotice(rec CallRecord, late ExportLate) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Notice of the system, not of the user: the call %s of %s, whose outcome was unknown, has come to an end after all. Its outcome is %s.",
		rec.Call.ID, rec.Call.Tool, late.Outcome)
	for _, m := range late.Media {
		if strings.Contains(late.Text, m.Hash) {
			continue
		}
		fmt.Fprintf(&b, " It left the artifact %s (%s, %d bytes).", m.Hash, m.Type, m.Bytes)
	}
	if late.FullBlob != "" && !strings.Contains(late.Text, late.FullBlob) {
		fmt.Fprintf(&b, " What follows is a part of its result; the whole is the artifact %s.", late.FullBlob)
	}
	if late.Text != "" {
		b.WriteString(" It answered:\n\n" + late.Text)
	}
	return b.String()
}

// LateID is the ID of the message that holds a lateNotice.
func LateID(turnID, callID string, attempt int) string {
	return fmt.Sprintf("late:%s:%s:%d", turnID, callID, attempt)
}

// ForkedMessage is for the people who look at a turn of which an imported fork has the beginning alone.
const ForkedMessage = "The session was forked in the middle of this turn. What came after is in the session that it was forked from."

// closedMessage is for the people who look at a turn that its session's next turn had to close.
const closedMessage = "The turn was ended from outside before it could answer. What it had done is kept; calls without a known result are marked. Send the message again to have it answered."

// ImportedMessage is for the people who look at a turn that was running when its session was exported.
const ImportedMessage = "The session was exported while this turn was running, and imported here. An import carries no running turn, approval or open question. Send the message again to have it answered."

// LargeText stands for the text of a message that is over MaxMessageBytes.
const LargeText = "(this message's text is too large: send a shorter one)"

// LostText stands for the text of a message whose blob the journal does not have.
const LostText = "(this message's text is not in the journal: send it again)"
