package app

import (
	"context"
	"time"
)

// checkWriteWithin bounds the check whether the journal can be written.
const checkWriteWithin = time.Second

// NoteSilence prints why no worker has answered. If the journal cannot be written, that is the reason, because a worker
// writes to the journal before it answers. If it can be written, NoteSilence prints the text otherwise.
func (t *TurnClient) NoteSilence(ctx context.Context, otherwise string) {
	if t.quiet {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkWriteWithin)
	defer cancel()
	if t.Journal != nil {
		if err := t.Journal.CheckWrite(ctx); err != nil {
			t.App.Note("the journal cannot be written, so no worker can answer; the message waits until it can: %v", err)
			return
		}
	}
	t.App.Note("%s", otherwise)
}
