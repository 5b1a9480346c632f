package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// Snapshot answers the State query.
type Snapshot struct {
	Version  int            `json:"v"`
	Session  string         `json:"session"`
	Turn     string         `json:"turn"`
	Phase    turn.PhaseName `json:"phase"`
	Counters turn.Counters  `json:"counters"`
	Head     turn.Head      `json:"head"`
	Model    string         `json:"model,omitempty"`
	// Waits is what the turn waits for people to say; Inbox how many accepted messages it has not taken yet.
	Waits []turn.Wait `json:"waits,omitempty"`
	Inbox int         `json:"inbox,omitempty"`
}

// SendResult acknowledges a message: it is in the turn's inbox and will be answered.
type SendResult struct {
	Version int    `json:"v"`
	Turn    string `json:"turn"`
	// Joined: the turn ran already. The message is answered by it, or by the next one of the session where it came too
	// late or asked to be; journal.Store's Delivered tells.
	Joined bool `json:"joined,omitempty"`
}

// handlers answers the outside. The Send update hands the message to a run that was started without one, as
// update-with-start does; its ID should be the message's.
func (r *run) handlers(ctx workflow.Context) error {
	err := workflow.SetQueryHandler(ctx, StateQuery, func() (Snapshot, error) { return r.snapshot(), nil })
	if err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, SendUpdate, r.send, workflow.UpdateHandlerOptions{Validator: r.validateSend})
}

func (r *run) snapshot() Snapshot {
	return Snapshot{Version: WireVersion, Session: r.session, Turn: r.turnID, Phase: r.phase,
		Counters: r.progress.Counters, Head: r.progress.Head, Model: r.progress.Pins.Model}
}

func (r *run) send(_ workflow.Context, m Message) (SendResult, error) {
	r.inbox = &m
	return SendResult{Version: WireVersion, Turn: r.turnID}, nil
}

// validateSend rejects before anything is recorded.
func (r *run) validateSend(_ workflow.Context, m Message) error {
	if err := checkMessage(m); err != nil {
		return temporal.NewApplicationError(err.Message, string(err.Code))
	}
	if r.in.Message != nil || r.inbox != nil || r.in.Continued != nil || r.phase != turn.PhaseStart {
		return temporal.NewApplicationError("a turn of this session is running; send the message when it is done", string(turn.CodeSessionBusy))
	}
	return nil
}
