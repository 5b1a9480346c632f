package toolbox

// stage is how far a call had come when it ended.
type stage string

// The stages, in the order in which a call passes them. An unknown stage is treated as stageSent, about which the least
// is known.
const (
	stageChecked   stage = "checked"   // this program refused the call before asking any server
	stageOffline   stage = "offline"   // there was no connection
	stageUnsent    stage = "unsent"    // not a byte of the call was written
	stageRefused   stage = "refused"   // the server's HTTP front refused the call unread, and may accept it next time
	stageForbidden stage = "forbidden" // the server's HTTP front refused the call unread, and would refuse it again
	stageSent      stage = "sent"      // a byte of the call may have reached the server
	stageAnswered  stage = "answered"  // the server responded
)

// answerKind is the kind of response that a server gave to a call.
type answerKind string

// The kinds of responses. An unknown kind is treated as a response that cannot be read.
const (
	answerResult       answerKind = "result"
	answerToolError    answerKind = "tool error"     // a result with isError
	answerProtocol     answerKind = "protocol error" // a JSON-RPC error
	answerUnreadable   answerKind = "unreadable"
	answerElicits      answerKind = "asks"         // the server elicits something before it acts
	answerCannotElicit answerKind = "asks in vain" // the same, but the user cannot be asked for it
)

// endedBy is what ended the wait for a response.
type endedBy string

// The causes that may end it.
const (
	endedByAnswer   endedBy = ""
	endedByDeadline endedBy = "deadline"
	endedByCancel   endedBy = "cancel"
	endedByLoss     endedBy = "loss" // of the connection
)

// ending is how a call ended: everything that its outcome depends on.
type ending struct {
	stage      stage
	answer     answerKind // for stageAnswered only
	by         endedBy
	repeatable bool // running the call again does no harm
	detached   bool // the call continues in the background, and its result is reported late
}

// class is the classification of a call's ending. A class without a turn.Outcome is an error of Host.Call (not sent,
// cancelled) or a result without outcome (asks).
type class string

// The classes.
const (
	classNotSent   class = "not sent" // may always be dispatched again
	classOK        class = "ok"
	classError     class = "error"
	classUnknown   class = "unknown"
	classDenied    class = "denied"
	classCancelled class = "cancelled" // before anything was sent
	classElicits   class = "asks"      // the call is not over
)

// class decides how a call is classified, and whether its result says that it may be called again. It holds the host's
// central guarantee: a call that was sent and got no response is never reported as done or as not begun.
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

func (a answerKind) class() class {
	switch a {
	case answerResult:
		return classOK
	case answerElicits:
		return classElicits
	}
	return classError
}
