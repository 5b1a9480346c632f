package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// approveFlags are what approve is asked besides the calls.
type approveFlags struct {
	deny, all, yes, asJSON bool
	reason, always, hash   string
	limit                  int
}

func (a *app) approveCommand() *cobra.Command {
	var f approveFlags
	cmd := &cobra.Command{
		Use:   "approve [session] [call...]",
		Short: "List what waits for people, or decide about calls",
		Long: `List what waits for people, with the exact arguments, or decide about calls of a session.

A decision counts for the arguments that the call waits with, and --hash makes sure that these are the ones you saw. It
is recorded with your name, and applied once. On a terminal each call is shown and confirmed first, unless -y is given.`,
		Example: `  starter approve
  starter approve s-k2j3 2.0 --hash 9f86d081884c
  starter approve s-k2j3 --all --always tool
  starter approve s-k2j3 2.0 --deny --reason "not on a Friday"`,
		ValidArgsFunction: a.completeWaits,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return err
			}
			if len(args) == 0 || len(args) == 1 && !f.all && !f.decides(a) {
				return a.listWaits(cmd.Context(), args, f)
			}
			return a.withTemporal(cmd.Context(), readJournal, func(t *turnClient) error { return t.approve(cmd.Context(), args, f) })
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.deny, "deny", false, "deny instead of allowing")
	flags.StringVar(&f.reason, "reason", "", "why; the model is told where a call is denied")
	flags.StringVar(&f.always, "always", "", "spare the session the question from now on: for this `call` with these arguments, or for the tool")
	flags.BoolVar(&f.all, "all", false, "decide about every call of the session that waits")
	flags.StringVar(&f.hash, "hash", "", "refuse unless the call waits with the arguments of this `hash`, or of one that begins so")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask for confirmation on a terminal")
	flags.BoolVar(&f.asJSON, "json", false, "list as JSON, nothing cut")
	flags.IntVarP(&f.limit, "limit", "n", 50, "waits to list")
	complete(cmd, "always", string(turn.AlwaysCall), string(turn.AlwaysTool))
	return cmd
}

// decides reports whether a session alone means its one call: where a flag says what to do, or somebody can be asked.
func (f approveFlags) decides(a *app) bool {
	return !f.asJSON && (f.deny || f.yes || f.always != "" || f.hash != "" || isTerminal(a.in) && isTerminal(a.err))
}

func (f approveFlags) check(args []string) error {
	switch {
	case f.always != "" && f.always != string(turn.AlwaysCall) && f.always != string(turn.AlwaysTool):
		return usage("--always is %q: use call (this tool with exactly these arguments) or tool", f.always)
	case f.always != "" && f.deny:
		return usage("--always goes with allowing: leave out --deny; to deny a tool for good, put it into policy.deny of agent.toml")
	case f.all && len(args) > 1:
		return usage("--all decides about every call that waits: leave out %s", strings.Join(args[1:], " "))
	case f.all && f.hash != "":
		return usage("--hash names the arguments of one call, and --all decides about all: use one of them")
	case len(args) == 0 && (f.deny || f.all || f.always != "" || f.hash != "" || f.reason != ""):
		return usage("name the session to decide in; `starter approve` lists what waits")
	case len(args) > 2 && f.hash != "":
		return usage("--hash names the arguments of one call: decide about the others in commands of their own")
	case f.asJSON && len(args) > 1:
		return usage("--json lists; leave out the calls")
	}
	return nil
}

// listWaits prints what waits: everywhere, or in a session.
func (a *app) listWaits(ctx context.Context, args []string, f approveFlags) error {
	loaded, err := a.load()
	if err != nil {
		return err
	}
	store, err := readJournal(ctx, loaded.Config)
	if err != nil {
		return err
	}
	defer store.Close()
	session := ""
	if len(args) > 0 {
		if session, err = sessionArg(ctx, store, args); err != nil {
			return err
		}
	}
	waits, err := store.Waiting(ctx, session, f.limit)
	switch {
	case err != nil:
		return err
	case f.asJSON:
		return writeJSON(a.out, append([]journal.WaitRecord{}, waits...))
	case len(waits) == 0:
		a.note("nothing waits for a person")
		return nil
	}
	fmt.Fprintln(a.out, printable(instructions(waits)))
	if len(waits) == f.limit {
		a.note("there may be more: list them with --limit %d", 10*f.limit)
	}
	return nil
}

// withTemporal does something that Temporal has to be there for.
func (a *app) withTemporal(ctx context.Context, open func(context.Context, config.Config) (journal.Store, error), do func(*turnClient) error) error {
	cfg, err := a.settled(ctx)
	if err != nil {
		return err
	}
	store, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	t := a.newTurnClient(nil, store, cfg, nil)
	defer t.hangUp()
	if err := t.call(ctx); err != nil {
		return err
	}
	return do(t)
}

// approve decides about the named calls, or all that wait.
func (t *turnClient) approve(ctx context.Context, args []string, f approveFlags) error {
	waits, err := t.approvals(ctx, args[0], args[1:], f)
	if err != nil {
		return err
	}
	d := decision{allow: !f.deny, reason: f.reason, always: turn.Scope(f.always)}
	for _, w := range waits {
		agreed, err := t.confirmed(ctx, w, f)
		if err != nil {
			return err
		}
		if !agreed {
			t.app.note("nothing was decided about %s", w.ID)
			continue
		}
		r, err := t.decide(ctx, w, d)
		if err != nil {
			return err
		}
		said := "allowed"
		if !r.Allowed {
			said = "denied"
		}
		t.app.note("%s %s %s", said, w.ID, w.Tool)
		if r.Waiting > 0 {
			t.app.note("%s of the same answer still to be decided: none runs before", plural(r.Waiting, "call"))
		}
	}
	t.app.aside("follow the turn with `starter attach %s`", quoted(args[0]))
	return nil
}

// confirmed shows the call on a terminal and asks whether it is meant.
func (t *turnClient) confirmed(ctx context.Context, w journal.WaitRecord, f approveFlags) (bool, error) {
	a := t.app
	if f.yes || f.deny || !isTerminal(a.in) || !isTerminal(a.err) {
		return true, nil
	}
	forgetTyped(a.in)
	a.note("%s", describe(w))
	fmt.Fprint(a.err, "allow it? [y]es, [n]o: ")
	answer := make(chan typed, 1)
	go func() { // reading cannot be interrupted: it is left behind when the command ends
		line, err := readLine(a.in)
		answer <- typed{line, err}
	}()
	select {
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case said := <-answer:
		word := strings.ToLower(strings.TrimSpace(said.line))
		return said.err == nil && (word == "y" || word == "yes"), nil
	}
}

// approvals are the waits that the command line names.
func (t *turnClient) approvals(ctx context.Context, session string, calls []string, f approveFlags) ([]journal.WaitRecord, error) {
	open, err := t.waiting(ctx, session, turn.WaitApproval)
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
	var chosen []journal.WaitRecord
	for _, call := range calls {
		i := slices.IndexFunc(open, func(w journal.WaitRecord) bool { return w.ID == call })
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

// checkHash refuses a call that waits with other arguments than those that were seen.
func checkHash(w journal.WaitRecord, hash string) error {
	if hash == "" || len(hash) >= minHash && strings.HasPrefix(w.ArgumentsHash, hash) {
		return nil
	}
	if len(hash) < minHash {
		return usage("--hash %q is too short to name arguments: give at least %d of its digits", hash, minHash)
	}
	return &exitError{code: exitFailed, cause: fmt.Errorf("nothing was decided: call %s waits with other arguments (%s) than those of --hash %s; look at it again with `starter approve %s`",
		w.ID, shortHash(w.ArgumentsHash), line(hash, 20), quoted(w.Session))}
}

// minHash is how many digits of a hash name it.
const minHash = 8

// waiting are the open waits of a kind in a session.
func (t *turnClient) waiting(ctx context.Context, session string, kind turn.WaitKind) ([]journal.WaitRecord, error) {
	if session != "" {
		if _, err := sessionArg(ctx, t.store, []string{session}); err != nil {
			return nil, err
		}
	}
	all, err := t.store.Waiting(ctx, session, 1000)
	return slices.DeleteFunc(all, func(w journal.WaitRecord) bool { return w.Kind != kind }), err
}

// question finds the wait that an answer is for.
func (t *turnClient) question(ctx context.Context, args []string) (journal.WaitRecord, error) {
	session, id := "", ""
	if len(args) > 0 {
		session = args[0]
	}
	if len(args) > 1 {
		id = args[1]
	}
	open, err := t.waiting(ctx, session, turn.WaitQuestion)
	if err != nil {
		return journal.WaitRecord{}, err
	}
	for _, w := range open {
		if w.ID == id || id == "" && len(open) == 1 {
			return w, nil
		}
	}
	switch {
	case id != "":
		return journal.WaitRecord{}, t.notOpen(ctx, session, id, open)
	case len(open) > 1:
		return journal.WaitRecord{}, usage("%d sessions ask something: name the one that you answer; `starter approve` lists them", len(open))
	case session != "":
		return journal.WaitRecord{}, usage("session %q asks nothing; say something to it with `starter send %s \"...\"`", session, quoted(session))
	}
	return journal.WaitRecord{}, usage("nobody asks anything; `starter list` lists the sessions")
}

// notOpen says why there is nothing to decide: it was decided, or never asked for.
func (t *turnClient) notOpen(ctx context.Context, session, id string, open []journal.WaitRecord) error {
	rec, err := t.store.Session(ctx, session)
	if err != nil {
		return err
	}
	waits, err := t.store.Waits(ctx, rec.LastTurn.ID)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return err
	}
	for _, w := range waits {
		if w.ID == id && w.Ruling != nil {
			return usage("%s was %s already%s; the first decision stands. `starter attach %s` shows how the turn goes on", id, w.Ruling.Verdict, ruledBy(*w.Ruling), quoted(session))
		}
	}
	hint := "nothing of it waits"
	if len(open) > 0 {
		hint = "what waits is " + names(open)
	}
	return usage("nobody was asked about %s in session %q: %s", line(id, 40), session, hint)
}

func names(waits []journal.WaitRecord) string {
	ids := make([]string, len(waits))
	for i, w := range waits {
		ids[i] = w.ID
	}
	return strings.Join(ids, ", ")
}
