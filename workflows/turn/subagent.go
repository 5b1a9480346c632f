package turn

import (
	"regexp"
	"strings"
)

// AgentTools begins the IDs of the tools that stand for agents: "agent/<id>".
const AgentTools = "agent/"

// SubagentSession returns the session of the agent that a call of an agent's tool starts. It derives from the call alone,
// so a repeated call finds the same session, and every reader finds the session's parent.
func SubagentSession(turnID, callID string) string { return AgentTools + turnID + "/" + callID }

var subagentSession = regexp.MustCompile(`^agent/([^/]+)/(\d{1,9}\.\d{1,9})$`)

// ParentCall returns the call that started the session; ok is false for a session that no call started.
func ParentCall(session string) (turnID, callID string, ok bool) {
	m := subagentSession.FindStringSubmatch(session)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// answerSuffix ends the ID of the message with the answer of a subagent in the background, and the workflow ID of the
// delivery that sends it.
const answerSuffix = "/answer"

// SubagentAnswerID returns the ID of the message with which the answer of the subagent with this session reaches its caller's
// session. Only a subagent's answer has such an ID.
func SubagentAnswerID(session string) string { return session + answerSuffix }

// AnsweredCall returns the call of the subagent whose answer a message is; ok is false for every other message.
func AnsweredCall(messageID string) (turnID, callID string, ok bool) {
	session, ok := strings.CutSuffix(messageID, answerSuffix)
	if !ok {
		return "", "", false
	}
	return ParentCall(session)
}
