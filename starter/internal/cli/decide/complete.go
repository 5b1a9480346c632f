package decide

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/workflows/turn"
)

// completeRequests returns a function for shell completion: it offers the sessions with pending requests of these kinds
// for the first argument, and the IDs of the session's requests for the others, up to n arguments.
func completeRequests(a *app.App, n int, kinds ...turn.RequestKind) cobra.CompletionFunc {
	return a.Completion(func(ctx context.Context, j client.Journal, args []string) (offers []cobra.Completion) {
		session := ""
		if len(args) > 0 {
			session = args[0]
		}
		requests, _ := j.PendingRequests(ctx, session, app.MaxCompletions)
		for _, r := range requests {
			// Completion does not find an ID among the arguments, because the offer has a description.
			if len(args) >= n || !slices.Contains(kinds, r.Kind) || slices.Contains(args, r.ID) {
				continue
			}
			offer := r.Session
			if len(args) > 0 {
				offer = cobra.CompletionWithDesc(r.ID, app.Line(ui.Subject(r), 40))
			}
			offers = append(offers, offer)
		}
		return offers
	})
}
