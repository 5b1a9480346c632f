package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/ui/terminal"
)

// approveToolsFlags are the flags of tools approve.
type approveToolsFlags struct {
	all, yes bool
	hash     string
}

func (a *app) toolsApproveCommand() *cobra.Command {
	var f approveToolsFlags
	cmd := &cobra.Command{
		Use:   "approve <server> [tool...]",
		Short: "Approve tools as they are now, so that turns may call them again",
		Long: `Accept tools that are held back as they are now, so that turns may call them again. On a terminal what has changed is
shown first, and confirmed; elsewhere look at it with starter tools diff and say --yes. What is accepted is exactly what
was shown: where it has changed again meanwhile, nothing is.

It counts for turns that begin from now on. Your name is recorded with it.

The exit code is 0 where tools were accepted and where none is held back, 1 where a tool is not what was shown, or is not the one
of --hash, and 3 where the command line does not fit what is held back.`,
		Example: `  starter tools approve github mcp/github/create_issue
  starter tools approve github create_issue --hash 9f86d081884c --yes
  starter tools approve github --all --yes`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeHeld,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return err
			}
			store, err := a.lookAt(cmd)
			if err != nil {
				return err
			}
			defer store.Close()
			return a.accept(cmd.Context(), store, args[0], args[1:], f)
		},
	}
	cmd.Flags().BoolVar(&f.all, "all", false, "approve every quarantined tool of the server")
	cmd.Flags().StringVar(&f.hash, "hash", "", "refuse unless the tool is the one of this `hash`, or of one that begins so")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

func (f approveToolsFlags) check(args []string) error {
	switch {
	case f.all && len(args) > 1:
		return usage("--all accepts every tool of %s that is held back: leave out %s", args[0], strings.Join(args[1:], " "))
	case f.hash != "" && (f.all || len(args) > 2):
		return usage("--hash names what one tool is now: accept the others in commands of their own")
	case f.hash != "" && len(f.hash) < minHash:
		return usage("--hash %q is too short to name a tool: give at least %d of its digits", f.hash, minHash)
	}
	return nil
}

// accept approves quarantined tools on behalf of the operator.
func (a *app) accept(ctx context.Context, store journal.Store, server string, tools []string, f approveToolsFlags) error {
	held, err := heldTools(ctx, store, []string{server})
	if err != nil {
		return err
	}
	chosen, err := choose(held, server, tools, f.all, a.unasked())
	if err != nil || len(chosen) == 0 {
		if err == nil {
			a.note("no tool of %s is held back", line(server, 60))
		}
		return err
	}
	if f.hash != "" && !strings.HasPrefix(chosen[0].Now.Hash, f.hash) {
		return otherHash(chosen[0], f.hash, a.unasked())
	}
	agreed, err := a.agreesTo(ctx, chosen, f)
	if err != nil {
		return err
	}
	if !agreed {
		a.note("nothing was accepted")
		return nil
	}
	in := journal.ApproveToolsInput{Server: server, Hashes: map[string]string{}, By: whoami(), At: time.Now()}
	for _, h := range chosen {
		in.Tools = append(in.Tools, h.Tool)
		in.Hashes[h.Tool] = h.Now.Hash
	}
	accepted, err := store.ApproveTools(ctx, in)
	if err != nil {
		return acceptError(server, err)
	}
	for _, d := range accepted {
		a.note("accepted %s (%s)", d.Now.ID, shortHash(d.Now.Hash))
	}
	a.aside("it counts for turns that begin from now on; those that run keep the tools that they have begun with")
	return nil
}

// choose returns the quarantined tools that the command line names, by their IDs or by the server's own names.
func choose(held []heldTool, server string, tools []string, all bool, more string) ([]heldTool, error) {
	if len(tools) == 0 {
		if len(held) > 1 && !all {
			return nil, usage("%d tools of %s are held back: name those that you accept, or use --all\n%s", len(held), line(server, 60), acceptCommands(held, more))
		}
		return held, nil
	}
	var chosen []heldTool
	for _, name := range tools {
		i := slices.IndexFunc(held, func(h heldTool) bool { return h.Tool == name || h.Tool == "mcp/"+server+"/"+name })
		if i < 0 {
			return nil, usage("%s is not held back; `starter tools diff %s` shows what is", line(name, 80), quoted(server))
		}
		if !slices.ContainsFunc(chosen, func(h heldTool) bool { return h.Tool == held[i].Tool }) {
			chosen = append(chosen, held[i])
		}
	}
	return chosen, nil
}

// agreesTo shows the tools and asks for a yes, unless --yes was given.
func (a *app) agreesTo(ctx context.Context, chosen []heldTool, f approveToolsFlags) (bool, error) {
	terminal := isTerminal(a.in) && isTerminal(a.err)
	switch {
	case f.yes:
		return true, nil
	case !terminal:
		return false, usage("nothing was accepted: nobody can be asked here. Look at `starter tools diff`, and say --yes where you agree")
	}
	var b strings.Builder
	for _, h := range chosen {
		b.WriteString(h.show(false) + "\n")
	}
	forgetTyped(a.in)
	seen, err := a.seen(ctx, strings.TrimRight(b.String(), "\n"))
	if err != nil || !seen {
		return false, err
	}
	return a.agrees(ctx, fmt.Sprintf("accept %s as shown?", plural(len(chosen), "tool")))
}

// otherHash refuses a tool that is not the version that the operator has seen.
func otherHash(h heldTool, hash, more string) error {
	return &exitError{code: exitFailed, cause: fmt.Errorf("nothing was accepted: --hash %s is not the hash of %s as it is offered now; look at it with `starter tools diff %s`, and where you agree:\n%s",
		line(hash, 20), line(terminal.Visible(h.Tool), 120), quoted(h.Server), acceptCommands([]heldTool{h}, more))}
}

// acceptError says what to do if nothing was accepted.
func acceptError(server string, err error) error {
	again := fmt.Sprintf("look again with `starter tools diff %s`", quoted(server))
	switch {
	case errors.Is(err, journal.ErrConflict):
		return &exitError{code: exitFailed, cause: fmt.Errorf("nothing was accepted: it has changed again; %s: %w", again, err)}
	case errors.Is(err, journal.ErrNotFound):
		return usage("nothing was accepted: it is held back no more; %s: %w", again, err)
	}
	return fmt.Errorf("accepting tools: %w", err)
}
