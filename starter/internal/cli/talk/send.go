package talk

import (
	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// Send returns the command that sends a message.
func Send(a *app.App) *cobra.Command {
	var m turn.UserMessage
	var c choices
	var output, agent string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "send <session> [message...]",
		Short: "Send a message to a session without following the turn",
		Long: `Send a message to a session and exit when it is accepted. An accepted message is answered once,
whatever happens next.

The message is merged into the session's running turn before the next inference. With --queue, or if
no turn is running, it starts a turn of its own. The text is the arguments and standard input, as
for run.`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := turn.CheckSession(args[0]); err != nil {
				return app.Usage("%w", err)
			}
			if err := c.apply(cmd, &m); err != nil {
				return err
			}
			attachments, err := c.attachments()
			if err != nil {
				return err
			}
			text, err := c.prompt(cmd.Context(), a, args[1:])
			if err != nil {
				return err
			}
			m.Text = text
			return a.WithClient(cmd.Context(), app.Needs{Quiet: quiet, Model: m.Model}, func(t *app.TurnClient) error {
				chosen, err := t.AgentFor(cmd.Context(), args[0], agent)
				if err != nil {
					return err
				}
				t.NoteOtherSettings(cmd.Context())
				s, err := t.Send(cmd.Context(), client.SendInput{Session: args[0], Message: m, Agent: chosen,
					Attachments: attachments})
				if err != nil {
					return err
				}
				noteMerged(t, s, m, agent)
				noteUnseen(t, attachments, m.Model)
				return printAccepted(cmd.Context(), t, s, output, quiet)
			})
		},
	}
	c.register(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&m.Queue, "queue", false, "queue the message for the next turn instead of merging it into the running "+
		"one")
	flags.StringVar(&m.ID, "message-id", "", "the message's `ID`: a message sent again with the same ID is answered once")
	modelFlag(cmd, &m.Model)
	agentFlag(a, cmd, &agent)
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputNone)
	flags.BoolVarP(&quiet, "quiet", "q", false, "print only the IDs")
	return cmd
}
