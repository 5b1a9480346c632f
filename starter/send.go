package main

import (
	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/turn"
)

func (a *app) sendCommand() *cobra.Command {
	var m turn.UserMessage
	var output string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "send <session> [text...]",
		Short: "Hand a message to a session and return; it joins the turn that runs, or begins the next one",
		Long: `Hand a message to a session and return as soon as it is accepted. It is answered once, whatever happens then.

It joins the session's running turn and is taken before the next inference; with --after, or where no turn runs, it
begins a turn of its own. The text is taken from the arguments, or from standard input as run does.`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if err := turn.CheckSession(args[0]); err != nil {
				return usage("%w", err)
			}
			text, err := a.prompt(cmd.Context(), args[1:])
			if err != nil {
				return err
			}
			m.Text = text
			return a.withTemporal(cmd.Context(), openJournal, func(t *turnClient) error {
				s, err := t.send(cmd.Context(), client.SendInput{Session: args[0], Message: m})
				if err != nil {
					return err
				}
				return a.accepted(s, output, quiet)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&m.Queue, "after", false, "for a turn of its own, when the one that runs is done")
	flags.StringVar(&m.ID, "message-id", "", "the message's `ID`: sent twice, it is answered once")
	flags.StringVarP(&output, "output", "o", "text", "text, json or none")
	flags.BoolVarP(&quiet, "quiet", "q", false, "print the IDs alone")
	complete(cmd, "output", "text", "json", "none")
	return cmd
}
