package sessions

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// maxReply bounds what a reply to a tool's server holds, in bytes: it travels as it is.
const maxReply = 64 << 10

// checkReply refuses an answer that no workflow would take, before anything is sent.
func checkReply(a workflows.Answer) error {
	if a.Reply == nil {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return turn.Errorf(turn.CodeConfigInvalid, nil, fmt.Sprintf(format, args...))
	}
	switch {
	case a.Text != "" || a.Blob != "":
		return refuse("an answer is a text or a reply, not both")
	case len(a.Reply.Content) > maxReply:
		return refuse("the reply has %d bytes, and the bound is %d: say less", len(a.Reply.Content), maxReply)
	}
	switch a.Reply.Action {
	case turn.ReplyAccept:
		if object := bytes.TrimSpace(a.Reply.Content); len(object) > 0 && (object[0] != '{' || !json.Valid(object)) {
			return refuse("what a reply accepts with is a JSON object, or nothing")
		}
	case turn.ReplyDecline, turn.ReplyCancel:
		if len(a.Reply.Content) > 0 {
			return refuse("a reply that does not accept has no content")
		}
	default:
		return refuse("a reply's action is accept, decline or cancel, not %q", turn.Cut(string(a.Reply.Action), 40))
	}
	return nil
}
