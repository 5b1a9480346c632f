package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// offered is the maximum number of sessions or requests that shell completion offers.
const offered = 100

// complete offers the values of a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// completeSessions offers the journal's sessions for the first n arguments.
func (a *app) completeSessions(n int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var found []cobra.Completion
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		a.glance(cmd, func(store journal.Store) {
			sessions, _ := store.Sessions(cmd.Context(), offered) // shell completion does not show errors
			for _, s := range sessions {
				found = append(found, cobra.CompletionWithDesc(s.ID, line(s.FirstText, 40)))
			}
		})
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeWaits offers sessions with open approvals, then the calls.
func (a *app) completeWaits(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var found []cobra.Completion
	a.glance(cmd, func(store journal.Store) {
		session := ""
		if len(args) > 0 {
			session = args[0]
		}
		requests, _ := store.PendingRequests(cmd.Context(), session, offered)
		for _, w := range requests {
			offer := cobra.CompletionWithDesc(w.ID, line(w.Tool, 40))
			if len(args) == 0 {
				offer = w.Session
			}
			if w.Kind == turn.RequestApproval && !slices.Contains(found, offer) && !slices.Contains(args, w.ID) {
				found = append(found, offer)
			}
		}
	})
	return found, cobra.ShellCompDirectiveNoFileComp
}

// glance calls do with the journal if it exists. Otherwise, or if opening it fails, it does nothing.
func (a *app) glance(cmd *cobra.Command, do func(journal.Store)) {
	loaded, err := a.load()
	if err != nil {
		return
	}
	if !engine.HasJournal(loaded.Config) {
		return
	}
	store, err := openJournal(cmd.Context(), loaded.Config)
	if err != nil {
		return
	}
	do(store)
	store.Close()
}
