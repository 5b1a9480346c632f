package sessionmodel

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everturn/everturn/tests/fakellm"
)

// The actions that a message may ask for, one per answer of the model.
const (
	touch    = "touch"   // a call that needs approval
	touches  = "touches" // two such calls, and one that needs no approval
	same     = "same"    // a call that needs approval and has the same arguments each time, so that a grant covers it
	look     = "look"    // a call that needs no approval
	ask      = "ask"     // a question
	slow     = "slow"    // a look whose answer takes a while
	fail     = "fail"    // the provider fails, and answers with a look when it is retried
	stalling = 15 * time.Millisecond
)

var deeds = []string{touch, touch, touches, same, look, look, ask, slow, fail}

// The tools that a worker of Agent needs, each with an argument text. Touch is the one that needs approval.
const (
	TouchTool = "touch"
	LookTool  = "look"
)

// Text returns a message that makes Agent carry out the actions.
func Text(session, id string, do []string) string {
	return session + " " + id + ": " + strings.Join(append(slices.Clone(do), "end"), " ")
}

// Agent is a model that does what the user's last message says, one action per answer, and ends by naming the message.
func Agent() fakellm.Script {
	return fakellm.Func(func(r fakellm.Request) fakellm.Reply {
		head, list, _ := strings.Cut(r.Chat.Asked(), ": ")
		session, id, _ := strings.Cut(head, " ")
		do := strings.Fields(list)
		if r.Step >= len(do)-1 {
			return fakellm.Text("done " + id)
		}
		if do[r.Step] == fail && r.Attempt == 1 {
			return fakellm.Status(http.StatusInternalServerError, "server_error", "the provider has failed")
		}
		return deed(do[r.Step], session, id+"."+strconv.Itoa(r.Step))
	})
}

func deed(what, session, place string) fakellm.Reply {
	switch what {
	case touch:
		return fakellm.Calls(call(TouchTool, session, place))
	case touches:
		return fakellm.Calls(call(TouchTool, session, place+"a"), call(LookTool, session, place),
			call(TouchTool, session, place+"b"))
	case same:
		return fakellm.Calls(call(TouchTool, session, same))
	case ask:
		return fakellm.Call("ask_user", `{"question":"What about `+place+`?"}`)
	case slow:
		return fakellm.Calls(call(LookTool, session, place)).WithText("I look at " + place + ".").Delay(stalling)
	}
	return fakellm.Calls(call(LookTool, session, place))
}

// Arguments are a call's arguments, as the model gives them: a session, and a text within it.
type Arguments struct {
	Text string `json:"text"`
}

func call(tool, session, what string) fakellm.ToolCall {
	b, _ := json.Marshal(Arguments{Text: session + " " + what}) // strings always marshal
	return fakellm.ToolCall{Name: "local_" + tool, Arguments: string(b)}
}
