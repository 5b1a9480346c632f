package chat

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/turn"
)

// item is an event of the session, with related data from the journal.
type item struct {
	event turn.Event
	// message is, for turn_started, the message that the turn answers.
	message *turn.Message
	// arguments are, for approval_requested, the complete arguments if the event holds only a part of them.
	arguments string
	// call is, for tool_call_completed, the call with its complete arguments and result; nil if it cannot be read.
	call *client.Call
	// usage is what the turn has used so far, and model the model of its last inference. They are set for events of calls
	// and requests and for the end of an inference, and model also for its start; nil and empty otherwise.
	usage *turn.Usage
	model string
}

// itemsMsg has the items that the feed has read. Without items, it has the error of a read, which the feed repeats, or
// nil if the journal can be read again.
type itemsMsg struct {
	feed  *feed
	items []item
	err   error
}

// feed reads a session's events from the journal, turn after turn, as they appear.
type feed struct {
	journal client.Journal
	session string
	items   chan item
	errs    chan error // has an error of the journal, or nil when the journal can be read again
	cancel  context.CancelFunc
	done    chan struct{} // closed when run has returned
}

// feedAhead is how many items the feed reads ahead of the chat. feedBatch is how many items the chat handles before it
// draws the screen again.
const (
	feedAhead = 1024
	feedBatch = 512
)

// retryFeed is the pause after an error of the journal.
const retryFeed = time.Second

// newFeed starts to read a session's events after the cursor from. The caller closes the feed.
func newFeed(ctx context.Context, j client.Journal, session string, from client.Cursor) *feed {
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{journal: j, session: session, items: make(chan item, feedAhead), errs: make(chan error),
		cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		f.run(ctx, from)
	}()
	return f
}

func (f *feed) close() {
	f.cancel()
	<-f.done
}

// next waits until the feed has read an item, and returns an itemsMsg with all items that it has read by then, at most
// feedBatch. It returns an itemsMsg without items if a read has failed or the journal can be read again, and nil if the
// feed is closed.
func (f *feed) next() tea.Msg {
	msg := itemsMsg{feed: f}
	select {
	case i := <-f.items:
		msg.items = append(msg.items, i)
	case msg.err = <-f.errs:
		return msg
	case <-f.done:
		return nil
	}
	for len(msg.items) < feedBatch {
		select {
		case i := <-f.items:
			msg.items = append(msg.items, i)
		default:
			return msg
		}
	}
	return msg
}

// run reads the session's events after the cursor at, until ctx ends. After an error it waits until the journal can be
// read and reads again.
func (f *feed) run(ctx context.Context, at client.Cursor) {
	for ctx.Err() == nil {
		for e, err := range client.FollowSession(ctx, f.journal, f.session, at) {
			if err != nil {
				f.awaitJournal(ctx, err)
				break
			}
			at = client.After(e)
			select {
			case f.items <- f.withDetails(ctx, e):
			case <-ctx.Done():
				return
			}
		}
	}
}

// awaitJournal reports the error of a read, and that of each further read, until a read succeeds or ctx ends. It also
// reports the success, as nil.
func (f *feed) awaitJournal(ctx context.Context, err error) {
	for {
		select {
		case f.errs <- err:
		case <-ctx.Done():
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		timer := time.NewTimer(retryFeed)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		if _, err = f.journal.Session(ctx, f.session); errors.Is(err, client.ErrNotFound) {
			err = nil // a new session
		}
	}
}

// withDetails returns an event as an item, with related data from the journal. If the journal cannot be read, the data
// is missing: the event is shown without it.
func (f *feed) withDetails(ctx context.Context, e turn.Event) item {
	i := item{event: e}
	switch e.Kind {
	case turn.EventTurnStarted:
		i.message = f.startMessage(ctx, e.Turn)
	case turn.EventApprovalRequested:
		i.arguments = f.arguments(ctx, e)
	case turn.EventToolCallCompleted:
		i.call = callRecord(ctx, f.journal, e)
	}
	switch e.Kind {
	case turn.EventToolCallStarted, turn.EventApprovalRequested, turn.EventQuestionAsked, turn.EventInferenceCompleted:
		i.usage, i.model = usageOf(ctx, f.journal, e.Turn)
	case turn.EventPhase:
		var p turn.PhaseEvent
		_ = json.Unmarshal(e.Data, &p) // without it, the model is shown later
		i.model = p.Model
	}
	return i
}

// startMessage returns the message that started a turn; nil if it cannot be read.
func (f *feed) startMessage(ctx context.Context, turnID string) *turn.Message {
	t, err := f.journal.Turn(ctx, turnID)
	if err != nil || t.MessageSeq == 0 {
		return nil
	}
	list, err := f.journal.Messages(ctx, f.session, t.MessageSeq, t.MessageSeq)
	if err != nil || len(list) != 1 {
		return nil
	}
	return &list[0]
}

// arguments returns the complete arguments of the call in an approval request if the event has only a part of them, and
// otherwise "".
func (f *feed) arguments(ctx context.Context, e turn.Event) string {
	requested, ok := requestOf(e)
	if !ok || int64(len(requested.Arguments)) >= requested.ArgumentsBytes {
		return ""
	}
	requests, err := f.journal.Requests(ctx, e.Turn)
	if err != nil {
		return ""
	}
	for _, r := range requests {
		if r.ID == requested.ID {
			return r.Arguments
		}
	}
	return ""
}

// callRecord returns the journal's record of a completed call; nil if it cannot be read. The event has only the
// beginning of the arguments and of the result, and does not list the parts of the result that are not text.
func callRecord(ctx context.Context, j client.Journal, e turn.Event) *client.Call {
	var done turn.CallEvent
	if json.Unmarshal(e.Data, &done) != nil {
		return nil
	}
	call, err := j.Call(ctx, e.Turn, done.CallID)
	if err != nil {
		return nil
	}
	return &call
}

// MediaOf returns the parts of a completed call's result that are not text.
func MediaOf(ctx context.Context, j client.Journal, e turn.Event) []turn.Media {
	if call := callRecord(ctx, j, e); call != nil {
		return call.Media
	}
	return nil
}

// usageOf returns what all attempts of a turn have used, and the model of its last inference; nil and "" if there is no
// inference or the journal cannot be read.
func usageOf(ctx context.Context, j client.Journal, turnID string) (*turn.Usage, string) {
	list, err := j.Inferences(ctx, turnID)
	if err != nil || len(list) == 0 {
		return nil, ""
	}
	used, err := j.TurnUsage(ctx, turnID)
	if err != nil {
		return nil, ""
	}
	return &used, list[len(list)-1].Model
}
