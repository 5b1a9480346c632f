package journal

import (
	"fmt"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// Bounds that every journal keeps. Sizes are in bytes.
const (
	// MaxBlobBytes bounds one blob, and therefore one message and one tool output.
	MaxBlobBytes = 64 << 20
	// MaxMessageBytes bounds the text of a user's message.
	MaxMessageBytes = 8 << 20
	// MaxIDBytes bounds the IDs of sessions, turns, messages and calls.
	MaxIDBytes = 1 << 10
	// MaxEventBytes bounds the text and data of one event together; MaxEvents bounds the events of one append.
	MaxEventBytes = 1 << 20
	MaxEvents     = 4096
	// PreviewBytes bounds the previews in turn.CallEvent.
	PreviewBytes = 512
	// MaxContinuationBytes bounds the continuation of a suspended call.
	MaxContinuationBytes = 1 << 20
	// MaxElicitationBytes bounds the texts and the schema of an elicitation together.
	MaxElicitationBytes = 64 << 10
	// MaxMedia is how many media of one result the journal keeps; MaxMediaBytes bounds each of them.
	MaxMedia      = 8
	MaxMediaBytes = 8 << 20
	// MaxCalls bounds the tool calls of a message.
	MaxCalls = 128
	// MaxNotes bounds the tool_progress events of one call.
	MaxNotes = 200
	// MaxNotices bounds how many late results one step reports to the model; the next step reports the rest.
	MaxNotices = 32
	// SummaryBytes bounds a turn's Answer and Message.
	SummaryBytes = 16 << 10
)

// ResultText returns the text that the model gets for a call with this outcome whose result has no text. It is empty
// for an ok outcome.
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

// SuspendedText is the result of a call that was still suspended when its turn ended.
const SuspendedText = "outcome unknown: the tool's server had asked for something, and the turn ended before it went " +
	"on. What it had done until then is not known. Check before trying again."

// notice returns the text of the message that reports a late result to the model, for a call whose outcome was
// unknown. The message has the role user, so the text says that no user wrote it. The answer of a subagent, which is a
// late result with a known outcome, gets the text that it has if it begins a turn.
func (late LateResult) notice() string {
	if agent, ok := strings.CutPrefix(late.tool, turn.AgentTools); ok && late.Outcome != turn.OutcomeUnknown {
		return SubagentAnswer(agent, late.Text)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Notice of the system, not of the user: the call %s of %s, whose outcome was unknown, has come to "+
		"an end after all. Its outcome is %s.",
		late.CallID, late.tool, late.Outcome)
	for _, m := range late.Media {
		if strings.Contains(late.Text, m.Hash) { // the text names it already
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

// noticeID returns the ID of the message with the notice. The answer of a subagent has the same ID whether it
// arrives as a notice or begins a turn, so that the session takes it once.
func (late LateResult) noticeID() string {
	if strings.HasPrefix(late.tool, turn.AgentTools) {
		return turn.SubagentAnswerID(turn.SubagentSession(late.Turn, late.CallID))
	}
	return LateID(late.Turn, late.CallID, late.Attempt)
}

// LateID returns the ID of the message with the notice of a call that started no subagent.
func LateID(turnID, callID string, attempt int) string {
	return fmt.Sprintf("late:%s:%s:%d", turnID, callID, attempt)
}

// SubagentAnswer returns the text of the message that brings the answer of a subagent in the background to its caller's
// session. agent is the name of the agent.
func SubagentAnswer(agent, answer string) string {
	return fmt.Sprintf("(The agent %s, which you have called in the background, has ended its task.)\n\n%s", agent, answer)
}

// ForkedMessage is TurnRecord.Message of a turn in an imported fork that was forked in the middle of the turn. Users
// see it.
const ForkedMessage = "The session was forked in the middle of this turn. What came after is in the session that it " +
	"was forked from."

// closedMessage is TurnRecord.Message of a turn that the session's next turn had to close. Users see it.
const closedMessage = "The turn was ended from outside before it could answer. What it had done is kept; calls " +
	"without a known result are marked. Send the message again to have it answered."

// ImportedMessage is TurnRecord.Message of a turn that was running when its session was exported. Users see it.
const ImportedMessage = "The session was exported while this turn was running, and imported here. An import carries " +
	"no running turn, approval or open question. Send the message again to have it answered."

// LargeText replaces the text of a message that exceeds MaxMessageBytes.
const LargeText = "(this message's text is too large: send a shorter one)"

// LostText replaces the text of a message whose blob the journal does not have.
const LostText = "(this message's text is not in the journal: send it again)"

// firstTextBytes bounds SessionRecord.FirstText.
const firstTextBytes = 120
