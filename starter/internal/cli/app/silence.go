package app

import (
	"context"
	"time"
)

// lookWithin is how long a command looks for the reason of a silence.
const lookWithin = time.Second

// NoteSilence tells the user why no worker has answered: the journal, to which a worker writes first, cannot be written.
// If it can, the reason is otherwise.
func (t *TurnClient) NoteSilence(ctx context.Context, otherwise string) {
	if t.quiet {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	if t.Journal != nil {
		if err := t.Journal.CheckWrite(ctx); err != nil {
			t.App.Note("the journal cannot be written, so no worker can answer; the message waits until it can: %v", err)
			return
		}
	}
	t.App.Note("%s", otherwise)
}
