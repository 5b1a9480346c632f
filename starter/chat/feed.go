package chat

import (
	"context"
	"encoding/json"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// item is a chunk of the session with what the journal has beside it.
type item struct {
	chunk turn.Chunk
	// said, with turn_started: the message that the turn answers.
	said *turn.Message
	// arguments, with approval_requested: all of them, where the chunk holds a part.
	arguments string
	// media, with tool_call_completed: what its result has that is not text.
	media []turn.Media
	// usage, with the first chunk of a step: what the turn has used so far.
	usage *turn.Usage
}

// itemsMsg is what the feed has read. err says why it pauses.
type itemsMsg struct {
	feed  *feed
	items []item
	err   error
}

// feed reads a session from the journal, turn after turn, as it goes on.
type feed struct {
	store   journal.Store
	session string
	items   chan item
	errs    chan error
	cancel  context.CancelFunc
	done    chan struct{}
}

// feedAhead is how many items may wait for a terminal that is slower than the journal; feedBatch how many are shown at once.
const (
	feedAhead = 1024
	feedBatch = 512
)

// retryFeed is how long the journal is left alone after an error.
const retryFeed = time.Second

// newFeed reads a session from a cursor on.
func newFeed(ctx context.Context, store journal.Store, session string, from journal.SessionCursor) *feed {
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{store: store, session: session, items: make(chan item, feedAhead), errs: make(chan error, 1), cancel: cancel, done: make(chan struct{})}
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

// next waits for what the feed has read and takes all of it that is there.
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

// run reads until ctx ends. What stands in its way is reported, and tried again.
func (f *feed) run(ctx context.Context, at journal.SessionCursor) {
	step := 0
	for ctx.Err() == nil {
		for c, err := range journal.FollowSession(ctx, f.store, f.session, at) {
			if err != nil {
				f.pause(ctx, err)
				break
			}
			at = journal.CursorAfter(c)
			i := f.furnish(ctx, c, c.Step != step)
			step = c.Step
			select {
			case f.items <- i:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (f *feed) pause(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	select {
	case f.errs <- err:
	default: // the last one was not seen yet
	}
	timer := time.NewTimer(retryFeed)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// furnish adds to a chunk what the journal has beside it. What cannot be read is left out: the chunk itself matters more.
func (f *feed) furnish(ctx context.Context, c turn.Chunk, newStep bool) item {
	i := item{chunk: c}
	switch c.Kind {
	case turn.ChunkTurnStarted:
		i.said = f.asked(ctx, c.Turn)
	case turn.ChunkApprovalRequested:
		i.arguments = f.arguments(ctx, c)
	case turn.ChunkToolCallCompleted:
		i.media = MediaOf(ctx, f.store, c)
	}
	if newStep && c.Step > 1 {
		i.usage = f.used(ctx, c.Turn)
	}
	return i
}

// asked is the message that began a turn.
func (f *feed) asked(ctx context.Context, turnID string) *turn.Message {
	t, err := f.store.Turn(ctx, turnID)
	if err != nil || t.MessageSeq == 0 {
		return nil
	}
	list, err := f.store.Messages(ctx, f.session, t.MessageSeq, t.MessageSeq)
	if err != nil || len(list) != 1 {
		return nil
	}
	return &list[0]
}

// arguments are what would run, whole, where the chunk holds a part only.
func (f *feed) arguments(ctx context.Context, c turn.Chunk) string {
	asked, ok := people(c)
	if !ok || int64(len(asked.Arguments)) >= asked.ArgumentsBytes {
		return ""
	}
	m, err := f.store.StepMessage(ctx, journal.StepKey{Turn: c.Turn, Step: asked.Step})
	if err != nil {
		return ""
	}
	for _, call := range m.ToolCalls {
		if call.ID == asked.ID {
			return call.Arguments
		}
	}
	return ""
}

// MediaOf is what the result of a call that has completed has that is not text. The chunk does not say; the ledger does.
func MediaOf(ctx context.Context, store journal.Store, c turn.Chunk) []turn.Media {
	var done turn.CallChunk
	if json.Unmarshal(c.Data, &done) != nil {
		return nil
	}
	calls, err := store.Calls(ctx, c.Turn)
	if err != nil {
		return nil
	}
	for _, call := range calls {
		if call.Call.ID == done.CallID {
			return call.Media
		}
	}
	return nil
}

// used is what the turn's settled inferences have used.
func (f *feed) used(ctx context.Context, turnID string) *turn.Usage {
	list, err := f.store.Inferences(ctx, turnID)
	if err != nil {
		return nil
	}
	var sum turn.Usage
	for _, i := range list {
		sum = sum.Add(i.Answer.Usage)
	}
	return &sum
}
