package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

const (
	readSessions = 4  // sessions that stream concurrently
	readTurns    = 3  // turns of each session
	detaches     = 50 // minimum number of detaches by the readers of each kind
	processReads = 12 // by readers that are processes, which cost more
	// streamDelay is the delay between two words. The worker writes text every few tens of milliseconds.
	streamDelay = 8 * time.Millisecond
)

// streaming is a model that emits text for a while, with a call in the middle.
func streaming() fakellm.Script {
	words := strings.Repeat("one two three four five six seven eight nine ten ", 6)
	return fakellm.Steps(
		fakellm.Call("local_echo", `{"text":"a"}`).WithText(words).Delay(streamDelay),
		fakellm.Text(words+"done").Delay(streamDelay),
	)
}

// seen holds the chunks that the readers of a session have received, in that order.
type seen struct {
	chunks []turn.Chunk
	left   int // number of times that readers have detached
}

// cursor returns the position at which the next reader continues.
func (s *seen) cursor() journal.SessionCursor {
	if len(s.chunks) == 0 {
		return journal.SessionCursor{Index: -1}
	}
	return journal.CursorAfter(s.chunks[len(s.chunks)-1])
}

// all reports whether every turn was followed to its end.
func (s *seen) all() bool {
	n := 0
	for _, c := range s.chunks {
		if c.Kind == turn.ChunkTurnCompleted {
			n++
		}
	}
	return n == readTurns
}

// TestReadersDetachAndAttach makes readers detach and attach at random points while many turns stream: in this process
// and through a second connection to the journal, as another process would use, turn by turn and through whole
// sessions.
func TestReadersDetachAndAttach(t *testing.T) {
	t.Parallel()
	r := newEnv(t, streaming())
	r.work(withEcho()...)
	other, err := sqlite.Open(t.Context(), r.cfg.Journal.Path, sqlite.Options{Synchronous: "normal"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), 3*within) // many turns
	defer cancel()

	var reading sync.WaitGroup
	readers := map[string]*seen{}
	for i := range readSessions {
		name := fmt.Sprintf("%s %d", session(t), i)
		for kind, read := range map[string]func(*seen, *rand.Rand){
			"here":                 func(s *seen, random *rand.Rand) { readSession(ctx, t, r.store, name, s, random) },
			"from another process": func(s *seen, random *rand.Rand) { readSession(ctx, t, other, name, s, random) },
			"turn by turn":         func(s *seen, random *rand.Rand) { readTurn(ctx, t, other, r, name, s, random) },
		} {
			s := &seen{}
			readers[name+": "+kind] = s
			reading.Go(func() { read(s, rand.New(rand.NewPCG(uint64(i), uint64(len(kind))))) })
		}
		for n := range readTurns {
			r.say(name, workflows.Message{ID: fmt.Sprintf("m%d", n), Text: "Talk.", Queue: true})
		}
	}
	reading.Wait()
	left := map[string]int{}
	for name, s := range readers {
		session, kind, _ := strings.Cut(name, ": ")
		assert.Equal(t, written(t, r, session), s.chunks, "%s: every chunk once, in order", name)
		left[kind] += s.left
	}
	t.Logf("readers left so often: %v", left)
	for kind, n := range left {
		assert.GreaterOrEqual(t, n, detaches, kind)
	}
}

// written returns all chunks of a session's turns.
func written(t *testing.T, r *env, session string) (all []turn.Chunk) {
	t.Helper()
	turns, err := r.store.Turns(t.Context(), session)
	require.NoError(t, err)
	require.Len(t, turns, readTurns)
	for _, record := range turns {
		chunks, err := r.store.Chunks(t.Context(), record.ID, -1, 10_000)
		require.NoError(t, err)
		all = append(all, chunks...)
	}
	return all
}

// readSession follows a session and detaches after a few chunks, repeatedly.
func readSession(ctx context.Context, t *testing.T, store *journal.DB, session string, s *seen, random *rand.Rand) {
	for !s.all() {
		stay := random.IntN(5)
		for c, err := range journal.FollowSession(ctx, store, session, s.cursor()) {
			if !assert.NoError(t, err) {
				return
			}
			s.chunks = append(s.chunks, c)
			if stay--; stay < 0 || s.all() {
				break
			}
		}
		s.left++
	}
}

// readTurn follows the session's turns one by one, each with readers that detach and attach.
func readTurn(ctx context.Context, t *testing.T, store *journal.DB, r *env, session string, s *seen,
	random *rand.Rand) {
	for n := range readTurns {
		turnID, after := r.taker(ctx, session, fmt.Sprintf("m%d", n)), int64(-1)
		for over := false; !over; s.left++ {
			stay := random.IntN(5)
			for c, err := range journal.Follow(ctx, store, turnID, after) {
				if !assert.NoError(t, err) {
					return
				}
				s.chunks, after, over = append(s.chunks, c), c.Index, c.Kind == turn.ChunkTurnCompleted
				if stay--; stay < 0 {
					break
				}
			}
		}
	}
}

// taker waits for the turn that takes a message, and returns its ID.
func (r *env) taker(ctx context.Context, session, messageID string) string {
	for {
		changed := r.store.Changed(ctx)
		if rec, err := r.store.Delivered(ctx, session, messageID); err == nil {
			return rec.ID
		}
		select {
		case <-changed:
		case <-ctx.Done():
			assert.NoError(r.t, ctx.Err(), "message %s was taken by no turn", messageID)
			return ""
		}
	}
}
