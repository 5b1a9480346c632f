package cli

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/ui/chat"
)

// chatHistory is the file that keeps the lines typed into chats.
var chatHistory = filepath.Join(stateDir, "chat_history")

func (a *app) chatCommand() *cobra.Command {
	var f sessionFlags
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk to a session on this terminal",
		Long: `Talk to a session on this terminal. Answers and tool calls appear as they happen, and keys decide
approvals.

A message that you send while a turn runs is merged into it. The same session may be open on several
terminals. When you leave the chat, its turn continues. /help lists the commands and keys.`,
		Example: `  starter chat --dev
  starter chat -c`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return a.chat(cmd.Context(), f)
		},
	}
	f.register(a, cmd)
	return cmd
}

// chat starts what a chat needs and shows the chat. It rejects an unsuitable terminal before it starts anything.
func (a *app) chat(ctx context.Context, f sessionFlags) error {
	out, ok := a.out.(*os.File)
	switch {
	case !ok || !isTerminal(a.in) || !isTerminal(a.out):
		return usage("chat needs a terminal for input and output; in a pipe or a script use `starter run \"...\"`")
	case a.lookup("TERM") == "dumb" || a.lookup("TERM") == "":
		return usage("chat needs a terminal that can move its cursor (TERM=%s cannot); use `starter run \"...\"` and "+
			"`starter run -c \"...\"`", a.lookup("TERM"))
	}
	return a.withClient(ctx, f.needs(a, false), func(t *turnClient) error { return t.chat(ctx, f, out) })
}

// chat runs a chat with a session until the user leaves it.
func (t *turnClient) chat(ctx context.Context, f sessionFlags, out *os.File) error {
	if err := keepState(); err != nil { // for the history
		return err
	}
	session, err := f.resolve(ctx, t)
	if err != nil {
		return err
	}
	if session == "" {
		session = client.NewSessionID()
	}
	a := t.app
	left, err := chat.Run(ctx, chat.Options{
		Store: t.store, Client: t.client, Session: session, Person: userName(), Model: t.cfg.LLM.Effective().Model,
		History: chatHistory,
		Link:    func(session, id string) string { return t.runLink(t.client.WorkflowID(session), id) },
		Color:   a.colored(out), In: a.in, Out: out, Environ: a.environ, Signals: a.interrupts.take(), Failed: t.failed,
	})
	if err != nil {
		return err
	}
	t.sayGoodbye(left)
	return nil
}

// sayGoodbye prints how to return to the session, and what continues in the meantime.
func (t *turnClient) sayGoodbye(left chat.Left) {
	a, resume := t.app, "starter chat -s "+quoted(left.Session)
	if t.failed != nil { // the chat's worker ends with this command
		resume = "starter chat --dev -s " + quoted(left.Session)
	}
	for _, text := range left.Unsent {
		a.note("not sent: %s", line(text, 200))
	}
	switch {
	case left.Waiting:
		a.note("the turn waits for your decision; resume with `%s`", resume)
	case left.Running && t.failed != nil:
		a.note("the turn continues when a worker runs; resume with `%s`", resume)
	case left.Running:
		a.note("the turn continues; resume with `%s`", resume)
	case left.Begun:
		a.aside("resume with `%s`", resume)
	}
}
