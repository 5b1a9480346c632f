package toolbox

// stage is how far a call had come when it ended.
type stage string

// The stages, in the order in which a call passes them. A stage that nobody knows is taken for stageSent, about which
// the least is known.
const (
	stageChecked   stage = "checked"   // this program refused it, before anybody was asked
	stageOffline   stage = "offline"   // there was no connection
	stageUnsent    stage = "unsent"    // not a byte of it left
	stageRefused   stage = "refused"   // the server's front refused it unread, and may take it the next time
	stageForbidden stage = "forbidden" // the server's front refused it unread, and would do so again
	stageSent      stage = "sent"      // a byte of it may have reached the server
	stageAnswered  stage = "answered"  // the server answered
)

// answer is what a server said to a call.
type answer string

// The answers. None is one that cannot be read.
const (
	answerResult     answer = "result"
	answerToolError  answer = "tool error"     // a result that says that it is an error
	answerProtocol   answer = "protocol error" // a JSON-RPC error
	answerUnreadable answer = "unreadable"
	answerAsks       answer = "asks"         // it needs to know something before it acts
	answerCannotAsk  answer = "asks in vain" // the same, but nobody can be asked that
)

// endedBy is what ended the wait for an answer.
type endedBy string

// What may end it.
const (
	endedByAnswer   endedBy = ""
	endedByDeadline endedBy = "deadline"
	endedByCancel   endedBy = "cancel"
	endedByLoss     endedBy = "loss" // of the connection
)

// ending is where and how a call ended: all that its outcome depends on.
type ending struct {
	stage      stage
	answer     answer // of stageAnswered
	by         endedBy
	repeatable bool // running the call again does no harm
	detached   bool // it goes on by itself, and its end will be told later
}

// class is what a call comes to. What turn.Outcome does not know is an error of Host.Call (not sent, cancelled) or a
// result without outcome (asks).
type class string

// The classes.
const (
	classNotSent   class = "not sent" // and may always be dispatched again
	classOK        class = "ok"
	classError     class = "error"
	classUnknown   class = "unknown"
	classDenied    class = "denied"
	classCancelled class = "cancelled" // before anything was sent
	classAsks      class = "asks"      // it is not over
)

// class decides what a call comes to, and whether its result says that it may be called again. The whole of the host's
// promise is in here: what was sent and not answered is never taken for done or for not begun.
func (e ending) class() (c class, again bool) {
	switch e.stage {
	case stageChecked:
		return classDenied, false
	case stageOffline, stageUnsent:
		if e.by == endedByCancel {
			return classCancelled, false
		}
		return classNotSent, true
	case stageRefused:
		return classNotSent, true
	case stageForbidden:
		return classError, false
	case stageAnswered:
		return e.answer.class(), e.repeatable && e.answer == answerUnreadable
	}
	return classUnknown, e.repeatable && !e.detached
}

func (a answer) class() class {
	switch a {
	case answerResult:
		return classOK
	case answerAsks:
		return classAsks
	}
	return classError
}
