package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/workflows/turn"
)

// maxCompletions is the maximum number of sessions or requests that shell completion offers.
const maxCompletions = 100

// completion returns a function that offers what list finds in the journal, except what the command line already has.
// Shell completion does not show errors: without a journal, it offers nothing.
func (a *app) completion(list func(ctx context.Context, store *journal.DB,
	args []string) []cobra.Completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		loaded, err := a.load()
		if err != nil || !engine.HasJournal(loaded.Config) {
			return nil, directive
		}
		store, err := openJournal(cmd.Context(), loaded.Config)
		if err != nil {
			return nil, directive
		}
		defer store.Close()
		var offers []cobra.Completion
		for _, offer := range list(cmd.Context(), store, args) {
			if !slices.Contains(offers, offer) && !slices.Contains(args, offer) {
				offers = append(offers, offer)
			}
		}
		return offers, directive
	}
}

// completeSessions offers the journal's sessions for the first n arguments.
func (a *app) completeSessions(n int) cobra.CompletionFunc {
	return a.completion(func(ctx context.Context, store *journal.DB, args []string) (offers []cobra.Completion) {
		if len(args) >= n {
			return nil
		}
		sessions, _ := store.Sessions(ctx, maxCompletions)
		for _, s := range sessions {
			offers = append(offers, cobra.CompletionWithDesc(s.ID, line(s.FirstText, 40)))
		}
		return offers
	})
}

// completeApprovals offers sessions with pending approvals, then the calls.
func (a *app) completeApprovals(cmd *cobra.Command,
	args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.completeRequests(maxCompletions, turn.RequestApproval)(cmd, args, typed)
}

// completeQuestions offers sessions with open questions and elicitations, then their IDs.
func (a *app) completeQuestions(cmd *cobra.Command,
	args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.completeRequests(2, turn.RequestQuestion, turn.RequestElicitation)(cmd, args, typed)
}

// completeRequests offers sessions with pending requests of some kinds, then their IDs, for the first n arguments.
func (a *app) completeRequests(n int, kinds ...turn.RequestKind) cobra.CompletionFunc {
	return a.completion(func(ctx context.Context, store *journal.DB, args []string) (offers []cobra.Completion) {
		session := ""
		if len(args) > 0 {
			session = args[0]
		}
		requests, _ := store.PendingRequests(ctx, session, maxCompletions)
		for _, r := range requests {
			if len(args) >= n || !slices.Contains(kinds, r.Kind) || slices.Contains(args, r.ID) {
				continue
			}
			offer := r.Session
			if len(args) > 0 {
				offer = cobra.CompletionWithDesc(r.ID, line(ui.Subject(r.Request), 40))
			}
			offers = append(offers, offer)
		}
		return offers
	})
}

// completeQuarantined offers the servers with quarantined tools, then the tools.
func (a *app) completeQuarantined(cmd *cobra.Command,
	args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.completion(func(ctx context.Context, store *journal.DB, args []string) (offers []cobra.Completion) {
		tools, _ := quarantined(ctx, store, args[:min(len(args), 1)])
		for _, q := range tools {
			offer := q.Server
			if len(args) > 0 {
				offer = q.Tool
			}
			offers = append(offers, offer)
		}
		return offers
	})(cmd, args, typed)
}
