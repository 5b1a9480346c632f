package decide

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// decideFlags are the flags of approve and deny. deny is true for the command deny, which has only some of the flags.
type decideFlags struct {
	deny, all, yes, edit       bool
	reason, always, hash, plan string
}

// register adds the flags that both commands have.
func (f *decideFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.all, "all", false, "decide every pending approval of the session")
	flags.StringVar(&f.hash, "hash", "", "refuse unless the call has the arguments with this `hash`, of which the first "+
		"digits suffice")
	flags.StringVar(&f.reason, "reason", "", "the reason, which the journal keeps; the model gets it if the call is "+
		"denied")
}

// Approve returns the command that allows tool calls.
func Approve(a *app.App) *cobra.Command {
	var f decideFlags
	cmd := &cobra.Command{
		Use:   "approve <session> [call...]",
		Short: "Allow tool calls that wait for approval",
		Long: `Allow tool calls of a session that wait for approval; without a call, the only one. everturn
approvals lists them.

A decision is valid for the arguments with which the call waits. --hash makes sure that these are
the ones you have seen. The decision is recorded with your name and applied once. On a terminal,
each call is shown and you confirm it; without a terminal, --hash or -y is required.`,
		Example: `  everturn approve s-k2j3 2.0 --hash 9f86d081884c
  everturn approve s-k2j3 --all --always tool`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeRequests(a, app.MaxCompletions, turn.RequestApproval),
		RunE:              func(cmd *cobra.Command, args []string) error { return decideCalls(cmd.Context(), a, args, f) },
	}
	f.register(cmd)
	flags := cmd.Flags()
	app.Choose(cmd, flags, &f.always, "always", "",
		"also allow calls that wait or come later: call (with the same arguments), host (to the same host), command (the "+
			"same commands with any further words) or tool (every call of it)",
		string(turn.GrantCall), string(turn.GrantHost), string(turn.GrantCommand), string(turn.GrantTool))
	flags.BoolVar(&f.edit, "edit", false, "change the plan in $EDITOR, and allow the changed plan")
	flags.StringVar(&f.plan, "plan", "",
		"allow the plan of this JSON `file` instead of the model's; - reads standard input")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not show the calls or ask for confirmation")
	return cmd
}

// decideCalls runs approve or deny. args are a session and the IDs of its calls, or only the session.
func decideCalls(ctx context.Context, a *app.App, args []string, f decideFlags) error {
	if err := f.check(args[1:]); err != nil {
		return err
	}
	return a.WithClient(ctx, app.Needs{Journal: true},
		func(t *app.TurnClient) error { return decideNamed(ctx, t, args[0], args[1:], f) })
}

// check returns an error for flags that exclude each other, or that do not fit the named calls.
func (f decideFlags) check(calls []string) error {
	switch {
	case f.all && len(calls) > 0:
		return app.Usage("--all decides every pending approval: remove %s", strings.Join(calls, " "))
	case f.all && f.hash != "":
		return app.Usage("--hash identifies the arguments of one call, but --all decides all calls: use one of them")
	case (f.edit || f.plan != "") && (f.all || len(calls) > 1 || f.always != "" || f.edit && f.plan != ""):
		return app.Usage("--edit and --plan change one plan: name one call, and use neither the other one, nor --all " +
			"or --always")
	case len(calls) > 1 && f.hash != "":
		return app.Usage("--hash identifies the arguments of one call: use one command for each call")
	}
	return nil
}

// decideNamed decides the named calls of a session or, without calls, its only pending call, or all of them with --all.
// It checks all of them before it decides the first one.
func decideNamed(ctx context.Context, t *app.TurnClient, session string, calls []string, f decideFlags) error {
	requests, err := approvals(ctx, t, session, calls, f)
	if err != nil {
		return err
	}
	for _, r := range requests {
		if err := f.permits(t.App, r); err != nil {
			return err
		}
	}
	quarantined, err := quarantinedTools(ctx, t.Journal)
	if err != nil {
		return err
	}
	var decided []string // calls that this command has decided, or that the grant of an earlier decision has allowed
	for _, r := range requests {
		if slices.Contains(decided, r.ID) {
			continue
		}
		agreed, err := confirmed(ctx, t, r, f, quarantined)
		if err != nil {
			return err
		}
		if !agreed {
			t.App.Note("%s is not decided", r.ID)
			continue
		}
		now, err := decideOne(ctx, t, r, f, quarantined)
		if err != nil {
			return err
		}
		decided = append(decided, now...)
		if err := notePending(ctx, t, r, decided); err != nil {
			return err
		}
	}
	t.App.Aside("follow the turn with `everturn attach %s`", app.Quoted(session))
	return nil
}

// permits returns an error if the request does not permit the decision of the flags, or if an approval would need a
// terminal and there is none.
func (f decideFlags) permits(a *app.App, r client.Request) error {
	if f.deny {
		return nil
	}
	if f.always != "" && !r.Grants(turn.GrantScope(f.always)) {
		return app.Usage("nothing was decided: %s", r.WhyNoGrant())
	}
	if err := ui.Exact(r); err != nil {
		return fmt.Errorf("nothing was decided: %w", err)
	}
	switch changes := f.edit || f.plan != ""; {
	case changes && r.Tool != plan.Tool:
		return app.Usage("nothing was decided: call %s is not a plan, and only plans can be changed: remove --edit and "+
			"--plan", r.ID)
	case f.edit && !a.OnTerminal():
		return app.Usage("nothing was decided: there is no terminal for an editor: give the changed plan with --plan FILE")
	case changes:
		return nil
	}
	if !f.yes && f.hash == "" && !a.OnTerminal() {
		return app.Usage("nothing was decided: there is no terminal to show call %s; look at it with `everturn approvals "+
			"%s`, "+
			"then allow it with "+
			"--hash %s, or without looking with --yes", r.ID, app.Quoted(r.Session), ui.ShortHash(r.ArgumentsHash))
	}
	return nil
}

// decideOne sends the decision about one call and prints it. It returns the IDs of the call and of those that the grant
// of this decision has allowed, too. quarantined maps the IDs of quarantined tools to their servers.
func decideOne(ctx context.Context, t *app.TurnClient, r client.Request, f decideFlags,
	quarantined map[string]string) (decided []string, err error) {
	in := client.DecideInput{Allow: !f.deny, Reason: f.reason, Grant: turn.GrantScope(f.always), Covered: true}
	if in.ChangedPlan, err = f.changedPlan(t.App, r); err != nil {
		return nil, err
	}
	err = t.AwaitWorker(ctx, func() (err error) { decided, err = decide(ctx, t, r, in); return err })
	if err != nil {
		return nil, err
	}
	if server := quarantined[r.Tool]; server != "" && in.Allow {
		t.App.Note("%s", quarantineWarning(r, server))
	}
	status := turn.StatusAllowed
	if f.deny {
		status = turn.StatusDenied
	}
	t.App.Note("%s %s %s", status, r.ID, r.Tool)
	if len(decided) > 1 {
		t.App.Note("allowed %s, too, which waited for the same tool", strings.Join(decided[1:], ", "))
	}
	return decided, nil
}

// notePending prints how many calls of the request's step are still to be decided. decided are those that this command
// has decided, which the journal may not have yet.
func notePending(ctx context.Context, t *app.TurnClient, r client.Request, decided []string) error {
	pending, err := t.Client.Pending(ctx, client.PendingInput{Turn: r.Turn})
	if err != nil {
		return err
	}
	n := 0
	for _, other := range pending {
		if other.Turn == r.Turn && other.Step == r.Step && other.Kind == turn.RequestApproval &&
			!slices.Contains(decided, other.ID) {
			n++
		}
	}
	if n > 0 {
		t.App.Note("%s of this step still to be decided; none runs until then", ui.Count(n, "call"))
	}
	return nil
}

// changedPlan returns the plan that the user gives with --edit or --plan, to replace the model's plan. It returns nil
// without these flags.
func (f decideFlags) changedPlan(a *app.App, r client.Request) (changed json.RawMessage, err error) {
	switch {
	case f.edit:
		if changed, err = edit(a, r); err == nil && changed == nil {
			err = app.Usage("nothing was decided: you have not changed the plan; allow it as it is without --edit")
		}
	case f.plan != "":
		in := a.In
		if f.plan != "-" {
			file, err := os.Open(f.plan)
			if err != nil {
				return nil, app.Usage("nothing was decided: --plan: %w", err)
			}
			defer file.Close()
			in = file
		}
		raw, err := io.ReadAll(io.LimitReader(in, plan.MaxBytes+1))
		if err != nil {
			return nil, fmt.Errorf("reading the plan: %w", err)
		}
		if changed, err = ui.ChangedPlan(raw); err != nil {
			return nil, app.Usage("nothing was decided: --plan: %w", err)
		}
	}
	return changed, err
}

// confirmed shows the whole call on the terminal and reports whether the user confirms to allow it. It returns true
// without asking if the flags already confirm the decision, or if there is no terminal: permits then requires --hash or
// --yes.
func confirmed(ctx context.Context, t *app.TurnClient, r client.Request, f decideFlags,
	quarantined map[string]string) (bool, error) {
	a := t.App
	if f.yes || f.deny || f.edit || f.plan != "" || !a.OnTerminal() {
		return true, nil
	}
	app.DiscardInput(a.In)
	l := LayoutOf(ctx, a, t.Cfg, a.Err)
	l.quarantined = quarantined
	seen, err := a.Seen(ctx, l.describe(r))
	if err != nil || !seen {
		return false, err
	}
	return a.Agrees(ctx, "allow it?")
}
