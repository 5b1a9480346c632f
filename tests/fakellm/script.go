package fakellm

import (
	"fmt"
	"net/http"
	"strings"
)

// Script picks the reply to a request. Its method may be called from several goroutines at once.
type Script interface {
	Reply(Request) Reply
}

// Func is a script written as a Go function.
type Func func(Request) Reply

// Reply implements Script.
func (f Func) Reply(r Request) Reply { return f(r) }

// Steps answers step n with the n-th script. It refuses a request past the end with status 400, which fails a test
// visibly: the status is never retried.
func Steps(steps ...Script) Script {
	return Func(func(r Request) Reply {
		if r.Step >= len(steps) {
			return Status(http.StatusBadRequest, "script_ended",
				fmt.Sprintf("the script has %d steps and was asked for number %d", len(steps), r.Step))
		}
		return steps[r.Step].Reply(r)
	})
}

// Attempts answers the n-th attempt of the same request with the n-th script, and later ones with the last.
func Attempts(attempts ...Script) Script {
	return Func(func(r Request) Reply { return attempts[min(r.Attempt, len(attempts))-1].Reply(r) })
}

// Case is a script for the user messages that contain a text. An empty text matches all messages.
type Case struct {
	Contains string
	Script   Script
}

// When makes a Case.
func When(contains string, s Script) Case { return Case{contains, s} }

// Cases answers with the first case that matches the user's last message, ignoring notes and results.
func Cases(cases ...Case) Script {
	return Func(func(r Request) Reply {
		for _, c := range cases {
			if strings.Contains(r.Chat.Asked(), c.Contains) {
				return c.Script.Reply(r)
			}
		}
		return Status(http.StatusBadRequest, "script_ended", "no case of the script fits the user's message")
	})
}

// Always answers everything with the same reply.
func Always(r Reply) Script { return r }
