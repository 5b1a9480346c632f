package completion

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// flushEvery is how long deltas are collected before they are written: so short that the reader sees the text flow,
// and so long that the journal is not written for every token. The first delta after a pause waits only for
// firstFlush, because the reader may have seen nothing yet.
const (
	flushEvery = 40 * time.Millisecond
	firstFlush = 10 * time.Millisecond
	// flushAgain is the pause after a flush that found the journal unavailable.
	flushAgain = time.Second
)

// stream batches a completion's deltas into events of the journal. It implements turn.Sink.
type stream struct {
	journal Journal
	key     journal.StepKey
	attempt int
	// silent withholds text deltas: in JSON mode they are protocol, not text for the user.
	silent bool
	// promptTokens is an estimate of the prompt's tokens. The first flush records it, because the provider bills the
	// prompt once it streams an answer.
	promptTokens int64
	billed       bool                    // promptTokens is recorded; only the flusher uses it
	up           func()                  // the model answers
	abort        context.CancelCauseFunc // ends the request

	mu      sync.Mutex
	pending []*delta
	text    strings.Builder // all text so far: the partial result of a turn that ends early
	thought int64           // bytes of reasoning so far
	wake    chan struct{}   // wakes the flusher
	quit    chan struct{}   // closed when the stream is closed
	done    chan struct{}   // closed when the flusher has ended
}

// openStream returns a stream and starts its flusher. The caller must close the stream. If the journal is unavailable,
// the flusher tries again, because the completion is paid for. If a flush fails for another reason, for instance
// because a newer attempt runs, the flusher calls abort. The stream calls up for each delta, because the model answers.
func openStream(ctx context.Context, j Journal, inf journal.Inference, silent bool, promptTokens int64,
	up func(), abort context.CancelCauseFunc) *stream {
	s := &stream{journal: j, key: inf.Key, attempt: inf.Attempt, silent: silent, promptTokens: promptTokens, up: up, abort: abort,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	go s.run(ctx)
	return s
}

// Text implements turn.Sink.
func (s *stream) Text(delta string) {
	s.up()
	s.mu.Lock()
	s.text.WriteString(delta)
	s.mu.Unlock()
	if s.silent {
		s.signal() // the flusher still has to record promptTokens
		return
	}
	s.add(turn.EventTextDelta, delta)
}

// Reasoning implements turn.Sink.
func (s *stream) Reasoning(delta string) {
	s.up()
	s.mu.Lock()
	s.thought += int64(len(delta))
	s.mu.Unlock()
	s.add(turn.EventReasoningDelta, delta)
}

// delta is an event whose text still grows.
type delta struct {
	kind turn.EventKind
	at   time.Time // of the beginning
	text strings.Builder
}

// add adds text to the last pending event if that is of the same kind, or else as a new event.
func (s *stream) add(kind turn.EventKind, text string) {
	if text == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.pending); n == 0 || s.pending[n-1].kind != kind {
		s.pending = append(s.pending, &delta{kind: kind, at: time.Now()})
	}
	s.pending[len(s.pending)-1].text.WriteString(text)
	s.signal()
}

// run is the flusher: when a first delta wakes it, it waits a moment for more deltas and then writes all of them. It
// ends when the stream is closed, when ctx ends, or when it has called abort.
func (s *stream) run(ctx context.Context) {
	defer close(s.done)
	var lastFlush time.Time
	for wait(ctx, s.quit, s.wake) {
		delay := flushEvery
		if time.Since(lastFlush) > flushEvery {
			delay = firstFlush
		}
		timer := time.NewTimer(delay)
		due := wait(ctx, s.quit, timer.C)
		timer.Stop()
		if !due {
			return
		}
		err := s.flush(ctx)
		switch {
		case err == nil:
		case attempt.Unavailable(err):
			s.flushLater(ctx)
		default:
			s.abort(err)
			return
		}
		lastFlush = time.Now()
	}
}

// flushLater wakes the flusher again after a pause, unless the stream ends before that.
func (s *stream) flushLater(ctx context.Context) {
	timer := time.NewTimer(flushAgain)
	defer timer.Stop()
	if wait(ctx, s.quit, timer.C) {
		s.signal()
	}
}

// signal wakes the flusher. It does nothing if the flusher is about to wake already.
func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// flush writes the pending events to the journal. Without events it still records promptTokens if that is not
// recorded.
func (s *stream) flush(ctx context.Context) error {
	deltas, events := s.take()
	if len(events) == 0 && s.billed {
		return nil
	}
	err := s.journal.AppendStream(ctx, journal.StreamInput{Key: s.key, Attempt: s.attempt, PromptTokens: s.promptTokens,
		Events: events})
	s.billed = s.billed || err == nil
	if err != nil { // nothing was appended: the events stay for the next flush or the settlement
		s.mu.Lock()
		s.pending = append(deltas, s.pending...)
		s.mu.Unlock()
	}
	return err
}

// take removes and returns the pending deltas, and also as events, split by pieces.
func (s *stream) take() (deltas []*delta, events []turn.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	deltas, s.pending = s.pending, nil
	for _, d := range deltas {
		events = append(events, pieces(turn.Event{Kind: d.kind, Text: d.text.String(), At: d.at})...)
	}
	return deltas, events
}

// pieceBytes bounds the text of one event, in bytes, far below what the journal accepts.
const pieceBytes = journal.MaxEventBytes / 4

// pieces splits an event at pieceBytes of text, between characters. A fast provider can send more than that between
// two flushes.
func pieces(e turn.Event) []turn.Event {
	var out []turn.Event
	for len(e.Text) > pieceBytes {
		end := pieceBytes
		for end > pieceBytes-utf8.UTFMax && !utf8.RuneStart(e.Text[end]) {
			end--
		}
		piece := e
		piece.Text, e.Text = e.Text[:end], e.Text[end:]
		out = append(out, piece)
	}
	return append(out, e)
}

// close stops the flusher and returns the remaining events, which the caller appends with the settlement. It waits for
// a flush under way.
func (s *stream) close() []turn.Event {
	close(s.quit)
	<-s.done
	_, events := s.take()
	return events
}

// wait waits for the event and returns true, or returns false if quit is closed or ctx ends first. A nil quit is
// ignored.
func wait[T any](ctx context.Context, quit <-chan struct{}, event <-chan T) bool {
	select {
	case <-ctx.Done():
		return false
	case <-quit:
		return false
	case <-event:
		return true
	}
}

// received returns how many bytes of text and reasoning have arrived.
func (s *stream) received() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.text.Len()) + s.thought
}

// partial returns the text so far that the user has seen: none in JSON mode.
func (s *stream) partial() string {
	if s.silent {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
