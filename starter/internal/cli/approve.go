package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// approveFlags are the flags of approve.
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
is recorded with your name, and applied once. Each call is shown and confirmed first, unless -y is given. Without a
terminal to show it on, allowing a call takes --hash or -y.`,
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
	flags.StringVar(&f.always, "always", "", "spare the session the question from now on, for this `what`: call (with exactly these arguments) or tool")
	flags.BoolVar(&f.all, "all", false, "decide about every call of the session that waits")
	flags.StringVar(&f.hash, "hash", "", "refuse unless the call waits with the arguments of this `hash`, or of one that begins so")
	flags.BoolVarP(&f.yes, "yes", "y", false, "allow without showing the call or asking for confirmation")
	flags.BoolVar(&f.asJSON, "json", false, "list as JSON, nothing cut")
	flags.IntVarP(&f.limit, "limit", "n", 50, "waits to list")
	complete(cmd, "always", string(turn.GrantCall), string(turn.GrantTool))
	return cmd
}

// decides reports whether a session without a call means its only waiting call: if a flag gives the decision, or if the
// command can ask the user.
func (f approveFlags) decides(a *app) bool {
	return !f.asJSON && (f.deny || f.yes || f.always != "" || f.hash != "" || a.onTerminal())
}

func (f approveFlags) check(args []string) error {
	switch {
	case f.always != "" && f.always != string(turn.GrantCall) && f.always != string(turn.GrantTool):
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

// listWaits prints the open requests of all sessions, or of one.
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
	requests, err := store.PendingRequests(ctx, session, f.limit)
	if len(requests) == f.limit {
		defer a.note("there may be more: list them with --limit %d", 10*f.limit)
	}
	switch {
	case err != nil:
		return err
	case f.asJSON:
		return writeJSON(a.out, append([]journal.RequestRecord{}, requests...))
	case len(requests) == 0:
		a.note("nothing waits for a person")
		return nil
	}
	l := layoutOf(a.out)
	if l.held, err = heldBack(ctx, store); err != nil {
		return err
	}
	fmt.Fprintln(a.out, printable(l.instructions(requests)))
	return nil
}

// approve decides about the named calls, or about all waiting ones.
func (t *turnClient) approve(ctx context.Context, args []string, f approveFlags) error {
	requests, err := t.approvals(ctx, args[0], args[1:], f)
	if err != nil {
		return err
	}
	d := decision{allow: !f.deny, reason: f.reason, always: turn.GrantScope(f.always)}
	for _, w := range requests {
		if d.always != "" && !w.Grants(d.always) {
			return usage("nothing was decided: %s", w.WhyNoGrant())
		}
		if err := shownWhole(w); err != nil && d.allow {
			return fmt.Errorf("nothing was decided: %w", err)
		}
		if d.allow && !f.yes && f.hash == "" && !t.app.onTerminal() {
			return usage("nothing was decided: there is no terminal to show call %s on; look at it with `starter approve %s`, "+
				"and allow it with --hash %s, or unseen with --yes", w.ID, quoted(w.Session), shortHash(w.ArgumentsHash))
		}
	}
	held, err := heldBack(ctx, t.store)
	if err != nil {
		return err
	}
	for _, w := range requests {
		agreed, err := t.confirmed(ctx, w, f, held)
		if err != nil {
			return err
		}
		if !agreed {
			t.app.note("nothing was decided about %s", w.ID)
			continue
		}
		var r client.DecideResult
		if err := t.patiently(func() (err error) { r, err = t.decide(ctx, w, d); return err }); err != nil {
			return err
		}
		if server := held[w.Tool]; server != "" && d.allow {
			t.app.note("%s", beware(w, server))
		}
		said := "allowed"
		if !d.allow {
			said = "denied"
		}
		t.app.note("%s %s %s", said, w.ID, w.Tool)
		if r.Pending > 0 {
			t.app.note("%s of the same answer still to be decided: none runs before", plural(r.Pending, "call"))
		}
	}
	t.app.aside("follow the turn with `starter attach %s`", quoted(args[0]))
	return nil
}

// onTerminal reports whether the command can show something to a user and ask about it.
func (a *app) onTerminal() bool { return isTerminal(a.in) && isTerminal(a.err) }

// confirmed shows the whole call on a terminal and asks for confirmation. Without a terminal, --hash identifies the
// arguments that the user has seen.
func (t *turnClient) confirmed(ctx context.Context, w journal.RequestRecord, f approveFlags, held map[string]string) (bool, error) {
	a := t.app
	if f.yes || f.deny || !a.onTerminal() {
		return true, nil
	}
	forgetTyped(a.in)
	wide := layoutOf(a.err)
	wide.held = held
	seen, err := a.seen(ctx, wide.describe(w))
	if err != nil || !seen {
		return false, err
	}
	return a.agrees(ctx, "allow it?")
}
