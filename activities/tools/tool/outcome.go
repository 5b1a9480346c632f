package tool

// Stage is how far a call had progressed when it ended.
type Stage string

// The stages, in the order in which a call passes them. An unknown stage is treated as StageSent, about which the least
// is known.
const (
	StageChecked   Stage = "checked"   // this program refused the call before asking any server
	StageOffline   Stage = "offline"   // there was no connection
	StageUnsent    Stage = "unsent"    // not a byte of the call was written
	StageRefused   Stage = "refused"   // the server's HTTP front refused the call unread, and may accept it next time
	StageForbidden Stage = "forbidden" // the server's HTTP front refused the call unread, and would refuse it again
	StageSent      Stage = "sent"      // a byte of the call may have reached the server
	StageAnswered  Stage = "answered"  // the server responded
)

// AnswerKind is the kind of response that a server gave to a call.
type AnswerKind string

// The kinds of responses. An unknown kind is treated as a response that cannot be read.
const (
	AnswerResult       AnswerKind = "result"
	AnswerToolError    AnswerKind = "tool error"     // a result with isError
	AnswerProtocol     AnswerKind = "protocol error" // a JSON-RPC error
	AnswerUnreadable   AnswerKind = "unreadable"
	AnswerElicits      AnswerKind = "asks"         // the server needs a response of the user before it acts
	AnswerCannotElicit AnswerKind = "asks in vain" // the same, but the user cannot be asked
)

// EndedBy is what ended the wait for a response.
type EndedBy string

// The causes that may end the wait.
const (
	EndedByAnswer   EndedBy = ""
	EndedByDeadline EndedBy = "deadline"
	EndedByCancel   EndedBy = "cancel"
	EndedByLoss     EndedBy = "loss" // of the connection
)

// Ending is how a call ended: everything that its outcome depends on.
type Ending struct {
	Stage      Stage
	Answer     AnswerKind // for StageAnswered only
	By         EndedBy
	Repeatable bool // running the call again does no harm
	Detached   bool // the call continues in the background, and its result is reported late
}

// Class is the classification of a call's ending. The classes that are no turn.Outcome are reported as an error of the
// call (not sent, cancelled) or as a result without outcome (asks).
type Class string

// The classes.
const (
	ClassNotSent   Class = "not sent" // may always be attempted again
	ClassOK        Class = "ok"
	ClassError     Class = "error"
	ClassUnknown   Class = "unknown"
	ClassDenied    Class = "denied"
	ClassCancelled Class = "cancelled" // before anything was sent
	ClassElicits   Class = "asks"      // the call is not over
)

// Class returns the classification of a call, and whether its result tells the model that the call may be made again.
// It upholds the central guarantee: a call that was sent and got no response is never reported as done or as not
// begun.
func (e Ending) Class() (c Class, again bool) {
	switch e.Stage {
	case StageChecked:
		return ClassDenied, false
	case StageOffline, StageUnsent:
		if e.By == EndedByCancel { // the caller no longer wants the call
			return ClassCancelled, false
		}
		return ClassNotSent, true
	case StageRefused:
		return ClassNotSent, true
	case StageForbidden:
		return ClassError, false
	case StageAnswered:
		return e.Answer.class(), e.Repeatable && e.Answer == AnswerUnreadable
	}
	return ClassUnknown, e.Repeatable && !e.Detached // StageSent, and stages that are not known
}

// class returns the classification of a call whose server gave this kind of response.
func (a AnswerKind) class() Class {
	switch a {
	case AnswerResult:
		return ClassOK
	case AnswerElicits:
		return ClassElicits
	}
	return ClassError
}
