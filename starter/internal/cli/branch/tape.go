package branch

import (
	"github.com/spf13/cobra"

	"github.com/everturn/everturn/internal/tape"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/workflows/turn"
)

// Tape returns the command that makes a tape from a session.
func Tape(a *app.App) *cobra.Command {
	cmd := app.Parent("tape", "Make a tape: models' answers that a worker replays", tapeFrom(a))
	cmd.Long = `Make a tape: models' answers that a worker replays with llm.tape = "replay:FOLDER", without a network
and a key. A worker also records tapes itself, with llm.tape = "record:FOLDER".`
	return cmd
}

// tapeFrom returns the command that writes the settled completions of a session's inferences to a tape.
func tapeFrom(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "from <session> <folder>",
		Short: "Make a tape of the answers in a session",
		Long: `Make a tape of the answers in a session. They are replayed by their order: the same messages, sent to a
new session, get the same answers, whatever the system prompt, the tools and their results are now.
The session's prompts must not have been cut or compacted. Content of the session is in the tape.`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			loaded, err := a.Load()
			if err != nil {
				return err
			}
			j, err := app.ReadJournal(ctx, loaded.Config)
			if err != nil {
				return err
			}
			defer j.Close()
			session, err := app.SessionArg(ctx, j, args[:1])
			if err != nil {
				return err
			}
			turns, err := j.Turns(ctx, session)
			if err != nil {
				return err
			}
			var answers []turn.Completion
			for _, t := range turns {
				inferences, err := j.Inferences(ctx, t.ID)
				if err != nil {
					return err
				}
				for _, inf := range inferences {
					if inf.Settled && !inf.Completion.Plan {
						answers = append(answers, inf.Completion)
					}
				}
			}
			if len(answers) == 0 {
				return app.Usage("session %s has no answers yet", app.Line(session, 100))
			}
			if err := tape.Write(args[1], answers); err != nil {
				return app.Usage("%v", err)
			}
			a.Note("%s: replay them with --set llm.tape=replay:%s", ui.Count(len(answers), "answer"), app.Line(args[1], 200))
			return nil
		},
	}
}
