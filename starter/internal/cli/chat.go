package cli

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/starter/internal/ui/chat"
	"github.com/everturn/everturn/workflows"
)

// chatHistory is the file that keeps the lines typed into chats.
var chatHistory = filepath.Join(stateDir, "chat_history")

func (a *app) chatCommand() *cobra.Command {
	var session string
	var dev, last, slow bool
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
			switch {
			case last && session != "":
				return usage("--continue and --session exclude each other: use one of them")
			case slow && !dev:
				return usage("--slow needs --dev; start another worker with `go run ./worker -slow` instead")
			case session != "" && workflows.CheckSession(session) != nil:
				return usage("--session: %w", workflows.CheckSession(session))
			}
			if slow {
				a.override("llm.demo_slow", "true")
			}
			return a.chat(cmd.Context(), session, last, dev)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&dev, "dev", false, "start Temporal, its Web UI and a worker on this machine")
	flags.BoolVar(&slow, "slow", false, "with --dev and the demo model: answer slowly")
	flags.StringVarP(&session, "session", "s", "", "the `ID` of the session to continue or start")
	flags.BoolVarP(&last, "continue", "c", false, "continue the last session")
	_ = cmd.RegisterFlagCompletionFunc("session", a.completeSessions(1)) // the flag exists
	return cmd
}

// chat starts what a chat needs and shows the chat. It rejects an unsuitable terminal before it starts anything.
func (a *app) chat(ctx context.Context, session string, last, dev bool) error {
	out, ok := a.out.(*os.File)
	switch {
	case !ok || !isTerminal(a.in) || !isTerminal(a.out):
		return usage("chat needs a terminal for input and output; in a pipe or a script use `starter run \"...\"`")
	case a.lookup("TERM") == "dumb" || a.lookup("TERM") == "":
		return usage("chat needs a terminal that can move its cursor (TERM=%s cannot); use `starter run \"...\"` and "+
			"`starter run -c \"...\"`", a.lookup("TERM"))
	}
	loaded, err := a.load()
	if err != nil {
		return err
	}
	stack, cfg, err := a.bringUp(ctx, loaded.Config, needs{server: dev, worker: dev})
	if err != nil {
		return err
	}
	defer stack.close()
	if err := keepState(); err != nil {
		return err
	}
	return a.withClient(ctx, cfg, stack, func(t *turnClient) error { return t.chat(ctx, session, last, out) })
}

// chat runs a chat with a session until the user leaves it.
func (t *turnClient) chat(ctx context.Context, session string, last bool, out *os.File) error {
	if last {
		var err error
		if session, err = lastSession(ctx, t.store); err != nil {
			return err
		}
	}
	if err := t.checkSessionID(ctx, session); err != nil {
		return err
	}
	if session == "" {
		session = client.NewSessionID()
	}
	a := t.app
	left, err := chat.Run(ctx, chat.Options{
		Store: t.store, Client: t.client, Session: session, Person: userName(), Model: modelName(t.cfg.LLM), History: chatHistory,
		Link:  t.chatLink,
		Color: a.colored(out), In: a.in, Out: out, Environ: a.environ, Signals: a.interrupts.take(), Failed: t.failed,
	})
	if err != nil {
		return err
	}
	t.sayGoodbye(left)
	return nil
}

// modelName returns the display name of the model that turns use.
func modelName(c config.LLM) string {
	if c.Model == "" {
		return "the default model of " + string(c.Provider)
	}
	return c.Model
}

// chatLink returns the link to a turn, or to all turns of the session if turn is empty.
func (t *turnClient) chatLink(session, turn string) string {
	if turn == "" {
		return sessionLink(t.cfg.Temporal, t.client.WorkflowID(session))
	}
	return t.link(started{Turn: client.Turn{Session: session, ID: turn}})
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
