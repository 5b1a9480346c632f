package sessionmodel

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everturn/everturn/tests/check"
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

// The tools that a worker of Agent needs, each with an argument text. TouchTool is the one that needs approval; package
// check counts the effects of a tool with its name.
const (
	TouchTool = "append"
	LookTool  = "look"
)

// withApprovals is the prefix of the texts of TouchTool.
const withApprovals = "touch "

// Text returns a message that makes Agent carry out the actions.
func Text(session, id string, do []string) string {
	return session + " " + id + ": " + strings.Join(append(slices.Clone(do), "end"), " ")
}

// Agent is a model that does what the user's last message says, one action per answer, and ends by naming the message.
func Agent() fakellm.Script {
	return fakellm.Func(func(r fakellm.Request) fakellm.Reply {
		d := deedOf(r)
		switch {
		case d.fails:
			return fakellm.Status(http.StatusInternalServerError, "server_error", "the provider has failed")
		case len(d.calls) == 0:
			return fakellm.Text(d.text)
		case d.slow:
			return fakellm.Calls(d.calls...).WithText(d.text).Delay(stalling)
		}
		return fakellm.Calls(d.calls...).WithText(d.text)
	})
}

// Requests returns what a provider with Agent knows, each request under the session that has sent it.
func Requests(list []fakellm.Request) map[string][]check.Request {
	out := map[string][]check.Request{}
	for _, r := range list {
		asked, d := r.Chat.Asked(), deedOf(r)
		line := check.Request{At: r.At, Asked: asked, Step: r.Step + 1, Body: r.Body, Outcome: string(r.Outcome),
			Answer: d.text}
		if r.Finished != (r.Outcome == fakellm.Sent) { // an answer is whole once its finish reason is out
			line.Outcome = map[bool]string{true: string(fakellm.Sent), false: string(fakellm.Cut)}[r.Finished]
		}
		for _, c := range d.calls {
			line.Calls = append(line.Calls, check.RequestCall{Name: c.Name, Arguments: c.Arguments})
			if c.Name == askTool {
				line.Answer, line.Calls = d.question, nil // the transcript has a question as text
			}
		}
		session, _, _ := strings.Cut(asked, " ")
		out[session] = append(out[session], line)
	}
	return out
}

const askTool = "ask_user"

// done is what Agent answers to a request.
type done struct {
	text, question string
	calls          []fakellm.ToolCall
	slow, fails    bool
}

func deedOf(r fakellm.Request) done {
	head, list, _ := strings.Cut(r.Chat.Asked(), ": ")
	session, id, _ := strings.Cut(head, " ")
	do := strings.Fields(list)
	if r.Step >= len(do)-1 {
		return done{text: "done " + id}
	}
	place := id + "." + strconv.Itoa(r.Step)
	switch do[r.Step] {
	case fail:
		if r.Attempt == 1 {
			return done{fails: true}
		}
	case touch:
		return done{calls: []fakellm.ToolCall{call(TouchTool, session, place)}}
	case touches:
		return done{calls: []fakellm.ToolCall{call(TouchTool, session, place+"a"), call(LookTool, session, place),
			call(TouchTool, session, place+"b")}}
	case same:
		return done{calls: []fakellm.ToolCall{call(TouchTool, session, same)}}
	case ask:
		question := "What about " + place + "?"
		return done{question: question, calls: []fakellm.ToolCall{{Name: askTool,
			Arguments: `{"question":"` + question + `"}`}}}
	case slow:
		return done{text: "I look at " + place + ".", slow: true, calls: []fakellm.ToolCall{call(LookTool, session, place)}}
	}
	return done{calls: []fakellm.ToolCall{call(LookTool, session, place)}}
}

// Arguments are a call's arguments, as the model gives them: a session, and a text within it.
type Arguments struct {
	Text string `json:"text"`
}

// Session returns the session that a call of TouchTool belongs to.
func (a Arguments) Session() string {
	session, _, _ := strings.Cut(strings.TrimPrefix(a.Text, withApprovals), " ")
	return session
}

func call(tool, session, what string) fakellm.ToolCall {
	text := session + " " + what
	if tool == TouchTool {
		text = withApprovals + text
	}
	b, _ := json.Marshal(Arguments{Text: text}) // strings always marshal
	return fakellm.ToolCall{Name: "local_" + tool, Arguments: string(b)}
}
