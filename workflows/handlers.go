package workflows

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// Snapshot answers the State query.
type Snapshot struct {
	Session  string         `json:"session"`
	Turn     string         `json:"turn"`
	Phase    turn.PhaseName `json:"phase"`
	Counters turn.Counters  `json:"counters"`
	Head     turn.Head      `json:"head"`
	Model    string         `json:"model,omitempty"`
	// Requests are the open requests. Inbox has the accepted messages that are not merged yet.
	Requests []turn.Request `json:"requests,omitempty"`
	Inbox    []Message      `json:"inbox,omitempty"`
}

// SendResult acknowledges a message: it is in the turn's inbox and will be answered.
type SendResult struct {
	Turn string `json:"turn"`
	// Merged means that the turn was already running. This turn answers the message, or the session's next one does if
	// the message arrived too late or was queued; *journal.DB's Delivered tells which.
	Merged bool `json:"merged,omitempty"`
}

// registerHandlers registers the query and update handlers. A handler never blocks: it records the update in the run's
// state and returns.
func (r *run) registerHandlers(ctx workflow.Context) error {
	if err := workflow.SetQueryHandler(ctx, StateQuery,
		func() (Snapshot, error) { return r.snapshot(), nil }); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, SendUpdate, r.send,
		workflow.UpdateHandlerOptions{Validator: r.validateSend}); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, DecideUpdate, r.decide,
		workflow.UpdateHandlerOptions{Validator: r.validateDecide}); err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, ElicitUpdate, r.holdElicitation,
		workflow.UpdateHandlerOptions{Validator: r.validateElicit})
}

func (r *run) snapshot() Snapshot {
	return Snapshot{Session: r.session, Turn: r.turnID, Phase: r.phase, Counters: r.progress.Counters,
		Head: r.progress.Head, Model: r.progress.Config.Model, Requests: r.requests.open(), Inbox: r.progress.Inbox}
}

// The bounds of the inbox, in bytes of JSON. Its messages become part of the input of an inference or of the next run,
// which Temporal bounds at 2 MiB. Over that, the workflow task fails and is retried without end. The bounds leave room
// for one answer to a question in a full inbox, and for the previous step's results.
const (
	maxInbox       = 100
	maxInboxBytes  = 1 << 20
	maxAnswerBytes = 512 << 10
)

// send handles the update Send: it adds a message to the inbox, to begin the turn or to be merged into it. It ignores a
// message that began the turn or still waits in it. The journal recognizes one that an inference has appended.
func (r *run) send(ctx workflow.Context, m Message) (SendResult, error) {
	m = withID(ctx, m)
	merged := r.opened || r.in.Message != nil || len(r.progress.Inbox) > 0 // the turn has its first message
	switch {
	case m.ID != "" && m.ID == r.opening: // the first message was sent twice
		merged = false
	case !r.hasMessage(m.ID):
		if ctx.Err() != nil && !m.Queue { // a stopped turn merges no more messages, but the next turn may
			m.Queue, r.queuedByStop = true, append(r.queuedByStop, m.ID)
		}
		r.progress.Inbox = append(r.progress.Inbox, m)
	}
	return SendResult{Turn: r.turnID, Merged: merged}, nil
}

// withID gives a message without an ID the ID of its update. Without an ID, the session could not recognize a message
// that is sent twice.
func withID(ctx workflow.Context, m Message) Message {
	if m.ID == "" {
		m.ID = workflow.GetCurrentUpdateInfo(ctx).ID
	}
	return m
}

// hasMessage reports whether a message with this ID waits in the inbox or to be merged.
func (r *run) hasMessage(id string) bool {
	same := func(m Message) bool { return m.ID == id }
	return id != "" && (slices.ContainsFunc(r.progress.Inbox, same) || slices.ContainsFunc(r.progress.Merging, same))
}

// validateSend rejects a message before the workflow records it: it is invalid, the turn is ending, or the inbox is
// full.
func (r *run) validateSend(ctx workflow.Context, m Message) error {
	m = withID(ctx, m)
	if err := r.checkSend(m); err != nil {
		return rejected(err.Code, err.Message)
	}
	size := encodedSize(m) // with all messages that wait: they may all become part of one input
	for _, waiting := range r.unanswered() {
		size += encodedSize(waiting)
	}
	switch {
	case r.stopping:
		return rejected(turn.CodeSessionEnding, "the turn is ending; send the message again in a moment")
	case r.hasMessage(m.ID) || m.ID != "" && m.ID == r.opening: // a duplicate, which send ignores
		return nil
	case len(r.progress.Inbox) >= maxInbox || size > maxInboxBytes:
		return rejected(turn.CodeSessionBusy, fmt.Sprintf("%d messages are already waiting for this turn; send more later",
			len(r.progress.Inbox)))
	}
	return nil
}

// checkSend rejects an invalid message. If the run's input is invalid, it rejects every message, because the turn fails
// without an answer.
func (r *run) checkSend(m Message) *turn.Error {
	if !r.opened {
		if err := r.in.check(r.id); err != nil {
			return err
		}
	}
	return checkSent(m)
}

// checkSent rejects a message that no turn accepts from a client: it is invalid, too large, or has a reserved ID.
func checkSent(m Message) *turn.Error {
	if err := checkMessage(m); err != nil {
		return err
	}
	// A delivery sends late messages again under the IDs that they have, which may be reserved ones.
	if !m.Late && (strings.HasPrefix(m.ID, answerPrefix) || strings.HasPrefix(m.ID, "turn:")) {
		return invalid("message IDs that begin with answer: or turn: are reserved; use another ID")
	}
	return checkEncodedSize(m, maxInboxBytes)
}

// checkEncodedSize rejects a message that is larger than maxBytes as JSON.
func checkEncodedSize(m Message, maxBytes int) *turn.Error {
	if n := encodedSize(m); n > maxBytes {
		return invalid("the message is %d bytes as JSON; the maximum is %d: store its text in the journal, as everturn "+
			"does, or send less", n, maxBytes)
	}
	return nil
}

// encodedSize returns a message's size in bytes as JSON, which is how Temporal's history keeps it.
func encodedSize(m Message) int {
	encoded, err := json.Marshal(m)
	if err != nil {
		return math.MaxInt // no message has a value that JSON cannot express
	}
	return len(encoded)
}

func rejected(code turn.Code, message string, details ...any) error {
	return temporal.NewApplicationError(message, string(code), details...)
}
