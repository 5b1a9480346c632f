package activities

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// lockedJournal takes no chunks. It tells who waits for it when it has refused some.
type lockedJournal struct {
	journal.Journal
	refused chan struct{}
}

func (j *lockedJournal) AppendChunks(context.Context, journal.StepKey, int, []turn.Chunk) error {
	close(j.refused)
	return errors.New("locked")
}

// An answer may come to its end while the journal is away; what could not be appended goes in with its settlement.
func TestTextThatCouldNotBeAppendedIsHandedOutWithTheRest(t *testing.T) {
	j := &lockedJournal{refused: make(chan struct{})}
	ctx, abort := context.WithCancelCause(t.Context())
	defer abort(nil)
	s := openStream(ctx, j, journal.Inference{Attempt: 1}, func(s string) string { return s }, false, abort)
	s.Text("The answer ")
	<-j.refused
	s.Text("to it all ")
	s.Reasoning("hm")
	s.Text("is 42.")
	var shown string
	for _, c := range s.close() {
		if c.Kind == turn.ChunkTextDelta {
			shown += c.Text
		}
	}
	assert.Equal(t, "The answer to it all is 42.", shown)
	assert.ErrorContains(t, context.Cause(ctx), "locked")
}
