package app

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
)

// MaxCompletions is the maximum number of sessions or requests that shell completion offers.
const MaxCompletions = 100

// plain matches what a shell takes as it is. Completion of bash does not quote the common beginning of several offers,
// and an imported session may have any name.
var plain = regexp.MustCompile(`^[A-Za-z0-9._/@:+=][A-Za-z0-9._/@:+=-]*$`)

// Completion returns a function for shell completion. It offers what list finds in the journal, without duplicates and
// without arguments that the command line already has. list gets the arguments so far. Shell completion does not show
// errors: without a journal, the function offers nothing.
func (a *App) Completion(list func(ctx context.Context, j client.Journal,
	args []string) []cobra.Completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		loaded, err := a.LoadSilently()
		if err != nil || !client.HasJournal(loaded.Config) {
			return nil, directive
		}
		j, err := OpenJournal(cmd.Context(), loaded.Config)
		if err != nil {
			return nil, directive
		}
		defer j.Close()
		var offers []cobra.Completion
		for _, offer := range list(cmd.Context(), j, args) {
			id, _, _ := strings.Cut(offer, "\t")
			if plain.MatchString(id) && !slices.Contains(offers, offer) && !slices.Contains(args, offer) {
				offers = append(offers, offer)
			}
		}
		return offers, directive
	}
}

// CompleteSessions returns a function that offers the journal's sessions to shell completion, for the first n
// arguments.
func (a *App) CompleteSessions(n int) cobra.CompletionFunc {
	return a.Completion(func(ctx context.Context, j client.Journal, args []string) (offers []cobra.Completion) {
		if len(args) >= n {
			return nil
		}
		sessions, _ := j.Sessions(ctx, MaxCompletions)
		for _, s := range sessions {
			offers = append(offers, cobra.CompletionWithDesc(s.ID, Line(s.FirstText, 40)))
		}
		return offers
	})
}

// SessionFlags gives root and each of its subcommands whose first argument is a session the flag --session, with which
// that argument can be given instead.
func (a *App) SessionFlags(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		a.SessionFlags(cmd)
	}
	words := strings.Fields(root.Use)
	if len(words) < 2 || strings.Trim(words[1], "[]<>") != "session" || root.Flags().Lookup("session") != nil {
		return
	}
	session := root.Flags().StringP("session", "s", "", "the `ID` of the session, instead of the first argument")
	_ = root.RegisterFlagCompletionFunc("session", a.CompleteSessions(1)) // the flag exists
	given := func() bool { return root.Flags().Changed("session") }
	with := func(args []string) []string {
		if !given() {
			return args
		}
		return append([]string{*session}, args...)
	}
	check, run, complete := root.Args, root.RunE, root.ValidArgsFunction
	if complete == nil {
		complete = a.CompleteSessions(1)
	}
	root.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, with(args))
		if given() && len(args) > 0 && (args[0] == *session || err != nil && check(cmd, args) == nil) {
			return SessionTwice(args[0], *session)
		}
		return err
	}
	root.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd, with(args)) }
	root.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return complete(cmd, with(args), word)
	}
}

// SessionTwice returns the error for a command line with a session as an argument and another one, or the same, as a
// flag.
func SessionTwice(argument, flag string) error {
	return Usage("the session is given twice, as the argument %q and with --session %s: use one of them",
		Line(argument, 60), Quoted(flag))
}
