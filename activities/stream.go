package activities

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// flushEvery is how long deltas are batched: tens of milliseconds, so that a reader sees text flow but the journal is
// not written for every token. After a silence the first delta waits only for firstFlush, because the reader's screen
// may be empty.
const (
	flushEvery = 40 * time.Millisecond
	firstFlush = 10 * time.Millisecond
	// flushAgain is the pause after a flush that has found the journal unavailable.
	flushAgain = time.Second
)

// stream batches a completion's deltas into events of the journal. It implements turn.Sink.
type stream struct {
	journal Journal
	key     journal.StepKey
	attempt int
	// silent withholds text deltas: in JSON mode they are protocol, not text for the user.
	silent bool
	// promptTokens estimates the prompt, which the journal records with the first flush: the provider bills it from then
	// on.
	promptTokens int64
	billed       bool // of the flusher
	abort        context.CancelCauseFunc

	mu      sync.Mutex
	pending []turn.Event
	tail    strings.Builder // text that belongs to the end of the last pending event
	text    strings.Builder // all text so far: the partial result of a turn that ends early
	thought int64           // bytes of reasoning so far
	wake    chan struct{}
	quit    chan struct{}
	done    chan struct{}
}

// openStream starts the flusher. The caller must close the stream. The flusher calls abort if a flush fails because a
// newer attempt is running, for instance. If the journal is unavailable, it tries again: the completion is paid for.
func openStream(ctx context.Context, j Journal, inf journal.Inference, silent bool, promptTokens int64,
	abort context.CancelCauseFunc) *stream {
	s := &stream{journal: j, key: inf.Key, attempt: inf.Attempt, silent: silent, promptTokens: promptTokens, abort: abort,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	go s.run(ctx)
	return s
}

// Text implements turn.Sink.
func (s *stream) Text(delta string) {
	s.mu.Lock()
	s.text.WriteString(delta)
	s.mu.Unlock()
	if s.silent {
		s.signal()
		return
	}
	s.add(turn.EventTextDelta, delta)
}

// Reasoning implements turn.Sink.
func (s *stream) Reasoning(delta string) {
	s.mu.Lock()
	s.thought += int64(len(delta))
	s.mu.Unlock()
	s.add(turn.EventReasoningDelta, delta)
}

func (s *stream) add(kind turn.EventKind, delta string) {
	if delta == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.pending); n > 0 && s.pending[n-1].Kind == kind {
		s.tail.WriteString(delta)
	} else {
		s.seal()
		s.pending = append(s.pending, turn.Event{Kind: kind, Text: delta, At: time.Now()})
	}
	s.signal()
}

// seal appends the tail to the last pending event. Concatenating each delta at once would copy the text every time.
func (s *stream) seal() {
	if s.tail.Len() > 0 {
		s.pending[len(s.pending)-1].Text += s.tail.String()
		s.tail.Reset()
	}
}

// run flushes pending events a moment after the first delta of a batch, so that the batch collects the next deltas.
func (s *stream) run(ctx context.Context) {
	defer close(s.done)
	var last time.Time
	for wait(ctx, s.quit, s.wake) {
		after := flushEvery
		if time.Since(last) > flushEvery {
			after = firstFlush
		}
		timer := time.NewTimer(after)
		due := wait(ctx, s.quit, timer.C)
		timer.Stop()
		if !due {
			return
		}
		err := s.flush(ctx)
		switch {
		case err == nil:
		case unavailable(err):
			s.flushLater(ctx)
		default:
			s.abort(err)
			return
		}
		last = time.Now()
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

// signal wakes the flusher.
func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *stream) flush(ctx context.Context) error {
	events := s.take()
	if len(events) == 0 && s.billed {
		return nil
	}
	err := s.journal.AppendStream(ctx, journal.StreamInput{Key: s.key, Attempt: s.attempt, PromptTokens: s.promptTokens,
		Events: events})
	s.billed = s.billed || err == nil
	if err != nil { // nothing was appended; the events stay, in case the completion still arrives whole
		s.mu.Lock()
		s.pending = append(events, s.pending...)
		s.mu.Unlock()
	}
	return err
}

// take returns the events that were not flushed yet.
func (s *stream) take() []turn.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seal()
	var events []turn.Event
	for _, e := range s.pending {
		events = append(events, pieces(e)...)
	}
	s.pending = nil
	return events
}

// pieceBytes bounds the text of one event, in bytes, far below what the journal accepts. A fast provider can produce
// more than that between two flushes.
const pieceBytes = record.MaxEventBytes / 4

// pieces splits an event whose text is too long for one, between characters.
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

// close stops the flusher and returns the remaining events, which the caller appends with the settlement.
func (s *stream) close() []turn.Event {
	close(s.quit)
	<-s.done
	return s.take()
}

// wait reports whether the event came before quit or the end of ctx.
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

// partial returns the text so far that the user has seen.
func (s *stream) partial() string {
	if s.silent {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
