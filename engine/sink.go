package engine

import (
	"context"
	"encoding/json"
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

// Event is an event of a turn, as Client.Follow yields it, with the turn's session and trace. Server events
// (EventServerStarted, EventServerEnded) belong to no turn: they have a tenant, a time and data.
type Event struct {
	Tenant  string
	Session string
	// TraceID is the ID of the turn's OpenTelemetry trace; empty for server events.
	TraceID string
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
//
// It also gets the server events of this worker, once each.
func WithSink(send Sink) Option {
	return func(o *options) { o.sinks = append(o.sinks, send) }
}

// The kinds of server events: a process of an MCP server started or ended on this worker. Their data is a ServerEvent.
const (
	EventServerStarted turn.EventKind = "mcp_server_started"
	EventServerEnded   turn.EventKind = "mcp_server_ended"
)

// ServerEvent is the data of a server event.
type ServerEvent struct {
	Server string `json:"server"`
	PID    int    `json:"pid"`
	// Ended says how the process ended, such as "exit status 1". It is empty for a start.
	Ended string `json:"ended,omitempty"`
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
	delivered chan struct{} // closed when deliver has sent all events of the closed queue
	closing   chan struct{} // closed when the worker stops
	ctx       context.Context
	cancel    context.CancelFunc
	followers sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	following map[string]bool           // turns with a follower; true: follow was called again, so it must not end yet
	position  *lru.Cache[string, int64] // of turns without a follower: the index of the last event that was queued
	dropped   int                       // events that were dropped since logged
	logged    time.Time                 // when drops were last logged
}

// ended is the position of a turn whose last event was queued.
const ended = math.MaxInt64

// newSink returns a sink that sends events to send. The caller closes it.
func newSink(send Sink, j Journal, t *telemetry.Telemetry, log *slog.Logger) *sink {
	position, _ := lru.New[string, int64](sinkTurns) // its only error is a size below 1
	s := &sink{send: send, journal: j, telemetry: t, log: log, queue: make(chan Event, sinkQueue),
		delivered: make(chan struct{}), closing: make(chan struct{}), following: map[string]bool{}, position: position}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go s.deliver()
	return s
}

// follow starts a follower, which forwards the events of a turn until the turn ends or waits for its user. If the turn
// already has one, it makes that one read again before it ends. owned means that this worker runs the turn's workflow;
// other turns are only followed if this worker has forwarded their first events.
func (s *sink) follow(turnID string, owned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.following[turnID]; ok {
		s.following[turnID] = true
		return
	}
	after, known := s.position.Get(turnID)
	if s.closed || after == ended || !known && !owned {
		return
	}
	if !known {
		after = -1
	}
	s.following[turnID] = false
	s.followers.Go(func() { s.forward(turnID, after) })
}

// leave removes the follower of a turn and keeps its position, after, for a later one. If follow was called since,
// leave returns false and the follower must go on. If done is set or the sink is closed, leave always returns true.
func (s *sink) leave(turnID string, after int64, done bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.following[turnID] && !done && !s.closed {
		s.following[turnID] = false
		return false
	}
	delete(s.following, turnID)
	s.position.Add(turnID, after)
	return true
}

// forward queues the events of a turn with an index greater than after, as they appear. It returns when the turn has
// ended, when it waits for its user, when the worker stops, or after an error.
func (s *sink) forward(turnID string, after int64) {
	patience := sinkPatience
	reader := &follow.TurnReader{Turn: turnID, After: after}
	var cfg journal.TurnConfig
	waitsForUser := false
	for {
		ctx, unsubscribe := context.WithCancel(s.ctx)
		changed := s.journal.Changed(ctx, journal.Topic{Turn: turnID}) // before the read, so that no event is missed
		events, err := s.read(ctx, reader, &cfg)
		for _, e := range events {
			waitsForUser = e.Kind == turn.EventApprovalRequested || e.Kind == turn.EventQuestionAsked
			s.push(Event{Tenant: cfg.Tenant, Session: cfg.Session, TraceID: turn.TraceID(turnID),
				Event: withoutSensitive(e, cfg)}, &patience)
		}
		// Without new events, a follower ends if the turn waits for its user or the worker stops.
		position, stop := reader.After, err != nil || len(events) == 0 && (waitsForUser || s.stopping())
		if reader.Done {
			position, stop = ended, true
		}
		if stop && s.leave(turnID, position, reader.Done || err != nil) {
			unsubscribe()
			return
		}
		if !stop && len(events) == 0 {
			select {
			case <-changed:
			case <-s.closing:
			}
		}
		unsubscribe()
	}
}

// withoutSensitive returns an event without the sensitive arguments of a call that needs an approval or that a client
// runs. In the journal the event has them, because users approve, and clients run, exactly these arguments. cfg is the
// config of the event's turn.
func withoutSensitive(e turn.Event, cfg journal.TurnConfig) turn.Event {
	switch e.Kind {
	case turn.EventApprovalRequested, turn.EventApprovalDecided, turn.EventQuestionAsked, turn.EventQuestionAnswered:
	default:
		return e
	}
	var data turn.Request
	var own turn.Config
	if json.Unmarshal(e.Data, &data) != nil || json.Unmarshal(cfg.Config, &own) != nil || data.Arguments == "" {
		return e // both are JSON in every journal
	}
	tool, _ := own.Find(data.Tool)
	data.Arguments = turn.BlankArguments(data.Arguments, tool.Sensitive)
	if data.Beside != nil {
		for i, c := range data.Beside.Calls {
			tool, _ := own.Find(c.Tool)
			data.Beside.Calls[i].Arguments = turn.BlankArguments(c.Arguments, tool.Sensitive)
		}
	}
	if b, err := json.Marshal(data); err == nil {
		e.Data = b
	}
	return e
}

// read returns the next events of a turn. It repeats a read that fails until the worker stops, but returns
// journal.ErrNotFound at once. cfg is for the turn's config: see next.
func (s *sink) read(ctx context.Context, r *follow.TurnReader, cfg *journal.TurnConfig) ([]turn.Event, error) {
	for warned := false; ; warned = true {
		events, err := s.next(ctx, r, cfg)
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

// next returns the next events of a turn. Before the first read, it sets cfg to the turn's config and r.Journal to the
// journal of the turn's tenant, because a journal returns only the events of its own tenant.
func (s *sink) next(ctx context.Context, r *follow.TurnReader, cfg *journal.TurnConfig) (_ []turn.Event, err error) {
	if r.Journal == nil {
		if *cfg, err = s.journal.TurnConfig(ctx, r.Turn); err != nil {
			return nil, err
		}
		r.Journal = s.journal.Tenant(cfg.Tenant)
	}
	return r.Next(ctx)
}

// stopping reports whether close was called.
func (s *sink) stopping() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// push queues an event. If the queue is full, it waits for at most patience, reduces patience by the time that it has
// waited, and drops the event if there is still no room.
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

// offer queues an event that is in no journal. It never blocks: it drops the event if the queue is full.
func (s *sink) offer(e Event) {
	s.mu.Lock()
	full := false
	if !s.closed { // otherwise the queue may be closed
		select {
		case s.queue <- e:
		default:
			full = true
		}
	}
	s.mu.Unlock()
	if full {
		s.drop(errSlow)
	}
}

// drop counts an event that the sink does not get. It logs the number of dropped events, at most every sinkLogEvery.
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

// deliver sends the queued events to the sink, one at a time, until the queue is closed and empty.
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

// try sends an event, at most sinkTries times with growing pauses, and returns the last error.
func (s *sink) try(e Event) (err error) {
	for n := 1; ; n++ {
		if err = s.sendOnce(e); err == nil || n == sinkTries || s.ctx.Err() != nil { // s.ctx ends when the sink closes
			return err
		}
		select {
		case <-time.After(sinkPause << n):
		case <-s.ctx.Done():
		}
	}
}

// sendOnce sends an event once, within sinkTimeout. It returns a panic of the sink as an error.
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

// close forwards the events that are in the journal already, for at most sinkTimeout, and drops the rest. The order
// matters: followers write to the queue, so they end before it is closed.
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
	for range s.queue { // the events that were not sent in time
		s.drop(errStopped)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped > 0 {
		s.log.Error("events for a sink were dropped", "events", s.dropped)
	}
}
