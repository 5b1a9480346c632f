package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/internal/workspace"
)

// Undo takes back the last change of a session's files, records it for the session's model, and returns a line for the
// user.
func Undo(ctx context.Context, store *workspace.Store, j client.Journal, tenant, session string) (string, error) {
	c, err := store.Undo(ctx, tenant, session)
	if err != nil {
		return "", err
	}
	done := fmt.Sprintf("took back %q, which was commit %.10s", c.Subject, c.ID)
	files, err := store.ChangedBy(ctx, c.ID)
	if err == nil {
		err = j.TakeBack(ctx, session, client.TakenBack{Commit: c.ID, Subject: c.Subject, Call: c.Call, Files: files})
	}
	if err != nil && !errors.Is(err, client.ErrNotFound) { // a session without messages has no model to tell
		return "", fmt.Errorf("%s, but the model is not told: %w", done, err)
	}
	return done, nil
}
