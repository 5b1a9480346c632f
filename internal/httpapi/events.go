package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/turn"
)

type eventsInput struct {
	sessionInput
	After  string `query:"after" json:"-" jsonschema:"the id of the last event that was read; from the session's first event if it is not set"`
	Last   string `header:"Last-Event-ID" json:"-" jsonschema:"the same as after, as browsers send it; it counts if both are set"`
	Turn   string `query:"turn" json:"-" jsonschema:"only the events of this turn: the stream ends with them"`
	Follow *bool  `query:"follow" json:"-" jsonschema:"false: end after the events that there are"`
}

// streamEvents sends the events of a session. The id of an event is TURN/INDEX.
func (c *call) streamEvents(ctx context.Context, in eventsInput) error {
	from, err := c.startOf(ctx, in)
	if err != nil {
		return err
	}
	done, err := c.openStream()
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.server.stopping, cancel)()
	s := c.stream(ctx)
	defer s.close()
	var events iter.Seq2[turn.Event, error]
	switch {
	case in.Follow != nil && !*in.Follow:
		events = present(ctx, c.Journal(), in, from)
	case in.Turn != "":
		events = c.Follow(ctx, client.Turn{Session: in.Session, ID: in.Turn}, from.Index)
	default:
		events = client.FollowSession(ctx, c.Journal(), in.Session, from)
	}
	for e, err := range events {
		if err == nil {
			err = s.event(e.Turn+"/"+strconv.FormatInt(e.Index, 10), e)
		}
		if err != nil {
			return s.fail(err)
		}
	}
	return nil
}

// startOf returns where the stream begins.
func (c *call) startOf(ctx context.Context, in eventsInput) (from client.Cursor, err error) {
	after := in.After
	if in.Last != "" {
		after = in.Last
	}
	if after != "" {
		id, index, ok := strings.Cut(after, "/")
		n, err := strconv.ParseInt(index, 10, 64)
		if !ok || err != nil || n < -1 || id == "" {
			return from, invalid("after", "%.100q is not the id of an event", after)
		}
		if in.Turn != "" && id != in.Turn {
			return from, invalid("after", "the event is of another turn than %.100q", in.Turn)
		}
		return client.Cursor{Turn: id, Index: n}, c.checkCursor(ctx, in.Session, id)
	}
	if in.Turn != "" {
		t, err := c.Find(ctx, in.Session, in.Turn)
		return client.Cursor{Turn: t.ID, Index: -1}, err
	}
	first, err := c.Journal().TurnsAfter(ctx, in.Session, "", 1)
	if err == nil && len(first) == 1 {
		return client.Cursor{Turn: first[0].ID, Index: -1}, nil
	}
	// The journal has a turn when a worker has begun it; Temporal knows it before.
	t, err := c.Find(ctx, in.Session, "")
	return client.Cursor{Turn: t.ID, Index: -1}, err
}

// checkCursor returns an error if a turn is one of another session. A turn that has not begun may be the session's.
func (c *call) checkCursor(ctx context.Context, session, turnID string) error {
	_, err := c.Journal().TurnsAfter(ctx, session, turnID, 0) // ErrNotFound unless the session has the turn
	if !errors.Is(err, client.ErrNotFound) {
		return err
	}
	t, err := c.Journal().Turn(ctx, turnID)
	if errors.Is(err, client.ErrNotFound) || err == nil && t.Session == session { // it may have begun a moment ago
		return nil
	}
	return cmp.Or(err, error(invalid("after", "the event is of another session than %.100q", session)))
}

// presentBatch is how many events present reads at once.
const presentBatch = 500

// present yields the events that the journal has, from a cursor on.
func present(ctx context.Context, j client.Journal, in eventsInput, from client.Cursor) iter.Seq2[turn.Event, error] {
	return func(yield func(turn.Event, error) bool) {
		for {
			for {
				events, err := j.Events(ctx, from.Turn, from.Index, presentBatch)
				if err != nil {
					yield(turn.Event{}, err)
					return
				}
				for _, e := range events {
					if !yield(e, nil) {
						return
					}
					from.Index = e.Index
				}
				if len(events) < presentBatch {
					break
				}
			}
			if in.Turn != "" {
				return
			}
			next, err := j.TurnsAfter(ctx, in.Session, from.Turn, 1)
			if err != nil && !errors.Is(err, client.ErrNotFound) {
				yield(turn.Event{}, err)
				return
			}
			if len(next) == 0 {
				return
			}
			from = client.Cursor{Turn: next[0].ID, Index: -1}
		}
	}
}

// The times of a stream.
const (
	// pingEvery is how long a stream is silent at most; proxies end connections that are silent for longer.
	pingEvery = 15 * time.Second
	// writeWithin is how long a reader may take for one write. Then the stream ends, and the reader may resume.
	writeWithin = 30 * time.Second
)

// long prepares a response that may take long, and returns its writer.
func (c *call) long(media string) io.Writer {
	h := c.w.Header()
	h.Set("Content-Type", media)
	h.Set("X-Accel-Buffering", "no")
	return &patient{c.w, http.NewResponseController(c.w)}
}

// patient is a writer with a deadline for each write, instead of one for the response.
type patient struct {
	w  io.Writer
	rc *http.ResponseController
}

// Write implements io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	if err := p.rc.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil {
		return 0, err
	}
	return p.w.Write(b)
}

// stream is a response of server-sent events.
type stream struct {
	rc   *http.ResponseController
	ping *time.Timer

	mu     sync.Mutex // of w and closed
	w      io.Writer
	closed bool
}

// stream begins a response of server-sent events. It sends a comment while there are no events.
func (c *call) stream(ctx context.Context) *stream {
	s := &stream{rc: http.NewResponseController(c.w), w: c.long("text/event-stream")}
	c.w.WriteHeader(http.StatusOK)
	s.ping = time.AfterFunc(pingEvery, func() {
		if ctx.Err() == nil && s.send(": ping\n\n") == nil {
			s.ping.Reset(pingEvery)
		}
	})
	_ = s.rc.Flush() // the reader learns that the stream is open
	return s
}

// event sends an event with its ID.
func (s *stream) event(id string, data any) error {
	b, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	s.ping.Reset(pingEvery)
	return s.send("id: " + id + "\ndata: " + string(b) + "\n\n")
}

// send writes a text of the stream.
func (s *stream) send(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	return s.rc.Flush()
}

// fail ends a stream that cannot go on. The reader resumes after the last event that it has got, so it needs no other
// word than the end.
func (s *stream) fail(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// close ends the stream: nothing is written after it has returned.
func (s *stream) close() {
	s.ping.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}
