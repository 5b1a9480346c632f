package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// approvals returns the approvals that the command line names.
func (t *turnClient) approvals(ctx context.Context, session string, calls []string, f approveFlags) ([]journal.RequestRecord, error) {
	open, err := t.waiting(ctx, session, turn.RequestApproval)
	if err != nil {
		return nil, err
	}
	switch {
	case len(open) == 0 && len(calls) == 0:
		return nil, usage("no call of session %q waits for a person; `starter approve` lists what waits", session)
	case len(calls) == 0 && len(open) > 1 && !f.all:
		return nil, usage("%d calls of session %q wait: name those that you mean (%s), or use --all", len(open), session, names(open))
	case len(calls) == 0:
		return open, checkHash(open[0], f.hash)
	}
	var chosen []journal.RequestRecord
	for _, call := range calls {
		i := slices.IndexFunc(open, func(w journal.RequestRecord) bool { return w.ID == call })
		if i < 0 {
			return nil, t.notOpen(ctx, session, call, open)
		}
		if err := checkHash(open[i], f.hash); err != nil {
			return nil, err
		}
		chosen = append(chosen, open[i])
	}
	return chosen, nil
}

// checkHash refuses a call whose arguments are not the ones that the user has seen.
func checkHash(w journal.RequestRecord, hash string) error {
	if hash == "" || len(hash) >= minHash && strings.HasPrefix(w.ArgumentsHash, hash) {
		return nil
	}
	if len(hash) < minHash {
		return usage("--hash %q is too short to name arguments: give at least %d of its digits", hash, minHash)
	}
	return &exitError{code: exitFailed, cause: fmt.Errorf("nothing was decided: call %s waits with other arguments (%s) than those of --hash %s; look at it again with `starter approve %s`",
		w.ID, shortHash(w.ArgumentsHash), line(hash, 20), quoted(w.Session))}
}

// minHash is the minimum number of digits that identify a hash.
const minHash = 8

// waiting returns the open requests of some kinds in a session.
func (t *turnClient) waiting(ctx context.Context, session string, kinds ...turn.RequestKind) ([]journal.RequestRecord, error) {
	if session != "" {
		if _, err := sessionArg(ctx, t.store, []string{session}); err != nil {
			return nil, err
		}
	}
	all, err := t.client.Pending(ctx, client.PendingInput{Session: session, Limit: 1000})
	return slices.DeleteFunc(all, func(w journal.RequestRecord) bool { return !slices.Contains(kinds, w.Kind) }), err
}

// question returns the request that an answer is for.
func (t *turnClient) question(ctx context.Context, args []string) (journal.RequestRecord, error) {
	session, id := "", ""
	if len(args) > 0 {
		session = args[0]
	}
	if len(args) > 1 {
		id = args[1]
	}
	open, err := t.waiting(ctx, session, turn.RequestQuestion, turn.RequestElicitation)
	if err != nil {
		return journal.RequestRecord{}, err
	}
	for _, w := range open {
		if w.ID == id || id == "" && len(open) == 1 {
			return w, nil
		}
	}
	switch {
	case id != "":
		return journal.RequestRecord{}, t.notOpen(ctx, session, id, open)
	case len(open) > 1 && session != "":
		return journal.RequestRecord{}, usage("session %q asks %d questions: name the one that you answer (%s); `starter approve %s` shows them", session, len(open), names(open), quoted(session))
	case len(open) > 1:
		return journal.RequestRecord{}, usage("%d sessions ask something: name the one that you answer; `starter approve` lists them", len(open))
	case session != "":
		return journal.RequestRecord{}, usage("session %q asks nothing; say something to it with `starter send %s \"...\"`", session, quoted(session))
	}
	return journal.RequestRecord{}, usage("nobody asks anything; `starter list` lists the sessions")
}

// notOpen says why a request cannot be decided: it was decided before, or never made.
func (t *turnClient) notOpen(ctx context.Context, session, id string, open []journal.RequestRecord) error {
	rec, err := t.store.Session(ctx, session)
	if err != nil {
		return err
	}
	requests, err := t.store.Requests(ctx, rec.LastTurn.ID)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return err
	}
	for _, w := range requests {
		if w.ID == id && w.Decision != nil && w.Decision.Reason == journal.HeldEnded {
			return usage("nothing can be said to %s any more: %s; `starter show %s` shows how", id, journal.HeldEnded, quoted(session))
		}
		if w.ID == id && w.Decision != nil {
			return usage("%s was %s already%s; the first decision stands. `starter attach %s` shows how the turn goes on", id, w.Decision.Status, ruledBy(*w.Decision), quoted(session))
		}
	}
	hint := "nothing of it waits"
	if len(open) > 0 {
		hint = "what waits is " + names(open)
	}
	return usage("nobody was asked about %s in session %q: %s", line(id, 40), session, hint)
}

func names(requests []journal.RequestRecord) string {
	ids := make([]string, len(requests))
	for i, w := range requests {
		ids[i] = w.ID
	}
	return strings.Join(ids, ", ")
}
