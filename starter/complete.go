package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// offered is how many sessions a shell is offered.
const offered = 100

// complete offers the values of a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

// completeSessions offers the journal's sessions for the first n arguments.
func (a *app) completeSessions(n int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var found []cobra.Completion
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		a.glance(cmd, func(store journal.Store) {
			sessions, _ := store.Sessions(cmd.Context(), offered) // a shell is told nothing of errors
			for _, s := range sessions {
				found = append(found, cobra.CompletionWithDesc(s.ID, line(s.FirstText, 40)))
			}
		})
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeWaits offers sessions with calls that wait, then the calls.
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

// glance looks into a journal that is there; otherwise it does nothing.
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
