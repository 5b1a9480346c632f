package turn

import (
	"regexp"
	"strings"
)

// AgentTools is the prefix of the IDs of the tools that call agents: "agent/<id>".
const AgentTools = "agent/"

// SubagentSession returns the ID of the session in which a subagent works for this call. It depends on the call
// alone, so a repeated call finds the same session, and every reader of the session can find the call.
func SubagentSession(turnID, callID string) string { return AgentTools + turnID + "/" + callID }

var subagentSession = regexp.MustCompile(`^agent/([^/]+)/(\d{1,9}\.\d{1,9})$`)

// ParentCall returns the call that started a subagent's session; ok is false if the session is not a subagent's.
func ParentCall(session string) (turnID, callID string, ok bool) {
	m := subagentSession.FindStringSubmatch(session)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// answerSuffix ends the ID of the message with the answer of a background subagent, and the ID of the workflow that
// delivers this message.
const answerSuffix = "/answer"

// SubagentAnswerID returns the ID of the message with which a background subagent's answer is sent to its caller's
// session. session is the subagent's session. No other message has such an ID.
func SubagentAnswerID(session string) string { return session + answerSuffix }

// AnsweredCall returns the call that a subagent answers with the message messageID; ok is false for every other
// message.
func AnsweredCall(messageID string) (turnID, callID string, ok bool) {
	session, ok := strings.CutSuffix(messageID, answerSuffix)
	if !ok {
		return "", "", false
	}
	return ParentCall(session)
}
