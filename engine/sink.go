package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/everturn/everturn/internal/telemetry"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/workflows/turn"
)

// Event is an event of a turn, as Client.Follow yields it, with the turn's session.
type Event struct {
	Tenant  string
	Session string
	turn.Event
}

// Sink receives one event at a time. Each call has up to five seconds; a call that fails is repeated twice.
type Sink func(ctx context.Context, e Event) error

// WithSink sends the events of the turns that this worker runs to a sink, those of a turn in order and each at least
// once: the worker that takes over the turn of another one sends its events from the beginning. After a wait for the
// user, another worker may continue the turn; this worker then sends the rest when the turn ends.
//
// The sink reads from the journal, at its own pace, and harms nothing else. If it fails, or is behind by more than 1000
// events for half a minute, events are dropped, counted (everturn.sink.events) and logged.
func WithSink(send Sink) Option {
	return func(o *options) { o.sinks = append(o.sinks, send) }
}

const (
	sinkQueue    = 1000             // events
	sinkTurns    = 10000            // turns whose position is remembered
	sinkTimeout  = 5 * time.Second  // of one call, and of the last deliveries when the worker stops
	sinkPatience = 30 * time.Second // that a turn's events may wait in total for room in the queue
	sinkTries    = 3
	sinkPause    = 200 * time.Millisecond // before another try, and before the journal is read again after an error
	sinkLogEvery = 10 * time.Second
)

var (
	errSlow    = errors.New("the sink is too slow")
	errStopped = errors.New("the worker stops")
)

// sink forwards events from the journal to a Sink.
type sink struct {
	send      Sink
	journal   Journal
	telemetry *telemetry.Telemetry
	log       *slog.Logger
	queue     chan Event
	delivered chan struct{} // closed when the queue is empty and closed
	closing   chan struct{}
	ctx       context.Context
	cancel    context.CancelFunc
	followers sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	running  map[string]bool           // turns that are followed; true: look again before the follower ends
	position *lru.Cache[string, int64] // the index of the last event that was queued, of turns that are not followed
	dropped  int                       // since logged
	logged   time.Time
}

// ended is the position after a turn's last event.
const ended = math.MaxInt64

func newSink(send Sink, j Journal, t *telemetry.Telemetry, log *slog.Logger) *sink {
	position, _ := lru.New[string, int64](sinkTurns) // its only error is a size below 1
	s := &sink{send: send, journal: j, telemetry: t, log: log, queue: make(chan Event, sinkQueue),
		delivered: make(chan struct{}), closing: make(chan struct{}), running: map[string]bool{}, position: position}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go s.deliver()
	return s
}

// follow forwards the events of a turn until it ends or waits for its user. If this worker does not own the turn,
// follow only continues what it began earlier.
func (s *sink) follow(turnID string, owned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.running[turnID]; ok {
		s.running[turnID] = true
		return
	}
	after, known := s.position.Get(turnID)
	if s.closed || after == ended || !known && !owned {
		return
	}
	if !known {
		after = -1
	}
	s.running[turnID] = false
	s.followers.Go(func() { s.forward(turnID, after) })
}

// leave ends the follower of a turn, unless the turn went on meanwhile.
func (s *sink) leave(turnID string, after int64, done bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[turnID] && !done && !s.closed {
		s.running[turnID] = false
		return false
	}
	delete(s.running, turnID)
	s.position.Add(turnID, after)
	return true
}

func (s *sink) forward(turnID string, after int64) {
	patience := sinkPatience
	reader := &follow.TurnReader{Turn: turnID, After: after}
	var of journal.TurnConfig
	waits := false
	for {
		ctx, forget := context.WithCancel(s.ctx)
		changed := s.journal.Changed(ctx, journal.Topic{Turn: turnID})
		events, err := s.read(ctx, reader, &of)
		for _, e := range events {
			waits = e.Kind == turn.EventApprovalRequested || e.Kind == turn.EventQuestionAsked
			s.push(Event{Tenant: of.Tenant, Session: of.Session, Event: e}, &patience)
		}
		at, stop := reader.After, err != nil || len(events) == 0 && (waits || s.stopping())
		if reader.Done {
			at, stop = ended, true
		}
		if stop && s.leave(turnID, at, reader.Done || err != nil) {
			forget()
			return
		}
		if !stop && len(events) == 0 {
			select {
			case <-changed:
			case <-s.closing:
			}
		}
		forget()
	}
}

// read returns the next events. It repeats a read that failed until the worker stops.
func (s *sink) read(ctx context.Context, r *follow.TurnReader, of *journal.TurnConfig) ([]turn.Event, error) {
	for warned := false; ; warned = true {
		events, err := s.next(ctx, r, of)
		if err == nil || errors.Is(err, journal.ErrNotFound) {
			return events, err
		}
		if !warned {
			s.log.Warn("reading events for a sink; it is repeated", "turn", r.Turn, "error", err)
		}
		select {
		case <-time.After(sinkPause):
		case <-s.closing:
			return nil, err
		}
	}
}

// next returns the next events. Before the first ones it looks up the turn's tenant, who alone can read them.
func (s *sink) next(ctx context.Context, r *follow.TurnReader, of *journal.TurnConfig) (_ []turn.Event, err error) {
	if r.Journal == nil {
		if *of, err = s.journal.TurnConfig(ctx, r.Turn); err != nil {
			return nil, err
		}
		r.Journal = s.journal.Tenant(of.Tenant)
	}
	return r.Next(ctx)
}

func (s *sink) stopping() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// push queues an event. If there is no room, it waits for at most what is left of patience, and then drops the event.
func (s *sink) push(e Event, patience *time.Duration) {
	select {
	case s.queue <- e:
		return
	default:
	}
	began := time.Now()
	timer := time.NewTimer(*patience)
	defer timer.Stop()
	select {
	case s.queue <- e:
	case <-timer.C:
		s.drop(errSlow)
	case <-s.ctx.Done():
		s.drop(errStopped)
	}
	*patience = max(*patience-time.Since(began), 0)
}

func (s *sink) drop(why error) {
	s.telemetry.Delivered(context.Background(), false)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped++
	if time.Since(s.logged) > sinkLogEvery {
		s.log.Error("events for a sink were dropped", "events", s.dropped, "error", why)
		s.dropped, s.logged = 0, time.Now()
	}
}

// deliver sends what is queued.
func (s *sink) deliver() {
	defer close(s.delivered)
	for e := range s.queue {
		if err := s.try(e); err != nil {
			s.drop(err)
		} else {
			s.telemetry.Delivered(context.Background(), true)
		}
	}
}

// try sends an event, at most sinkTries times.
func (s *sink) try(e Event) (err error) {
	for n := 1; ; n++ {
		if err = s.sendOnce(e); err == nil || n == sinkTries || s.ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(sinkPause << n):
		case <-s.ctx.Done():
		}
	}
}

func (s *sink) sendOnce(e Event) (err error) {
	ctx, cancel := context.WithTimeout(s.ctx, sinkTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the sink panicked: %v", p)
		}
	}()
	return s.send(ctx, e)
}

// close delivers what the journal has, for at most sinkTimeout.
func (s *sink) close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if !first {
		return
	}
	close(s.closing)
	timer := time.AfterFunc(sinkTimeout, s.cancel)
	defer timer.Stop()
	s.followers.Wait()
	close(s.queue)
	select {
	case <-s.delivered:
	case <-s.ctx.Done():
	}
	s.cancel()
	for range s.queue {
		s.drop(errStopped)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped > 0 {
		s.log.Error("events for a sink were dropped", "events", s.dropped)
	}
}
