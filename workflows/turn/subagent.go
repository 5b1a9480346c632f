package turn

import (
	"fmt"
	"strings"
)

// AgentTools is the prefix of the IDs of the tools that call agents: "agent/<id>".
const AgentTools = "agent/"

// Caller is the call that started a subagent, with its turn and session. The zero value means that a session is no
// subagent's.
type Caller struct {
	Session string `json:"session,omitempty"`
	Turn    string `json:"turn,omitempty"`
	Call    string `json:"call,omitempty"`
}

// IsZero reports whether there is no caller.
func (c Caller) IsZero() bool { return c == Caller{} }

// SubagentSession returns the ID of the session in which a subagent works for this call. It depends on the call alone,
// so a repeated call finds the same session. The ID does not say who called: the journal records a session's Caller.
func SubagentSession(turnID, callID string) string { return AgentTools + turnID + "/" + callID }

// ReservedSession reports whether only a subagent may have a session of this ID.
func ReservedSession(id string) bool { return strings.HasPrefix(id, AgentTools) }

// answerSuffix ends the ID of the message with the answer of a background subagent, and the ID of the workflow that
// delivers this message.
const answerSuffix = "/answer"

// SubagentAnswerID returns the ID of the message with which a background subagent's answer is sent to its caller's
// session. session is the subagent's session. No other message has such an ID.
func SubagentAnswerID(session string) string { return session + answerSuffix }

// AnsweringSubagent returns the session of the subagent whose answer the message is, by the form of the message's ID;
// ok is false for every other message. A client may send any ID, so the journal must know the subagent.
func AnsweringSubagent(messageID string) (session string, ok bool) {
	session, ok = strings.CutSuffix(messageID, answerSuffix)
	return session, ok && ReservedSession(session)
}

// CanvasNotice ends the result of an agent's call if the agent has changed the canvas of its session.
func CanvasNotice(session string) string {
	return fmt.Sprintf("[Its canvas has changes. Look at them with canvas_diff and take them with canvas_take, both with {\"from\":%q}.]",
		session)
}
