package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/starter/chat"
	"github.com/everturn/everturn/workflows/turn"
)

// chatHistory is the file that keeps the lines typed into chats.
var chatHistory = filepath.Join(stateDir, "chat_history")

func (a *app) chatCommand() *cobra.Command {
	var session string
	var dev, last, slow bool
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk with a session on this terminal",
		Long: `Talk with a session on this terminal: answers as they come, tool calls, approvals and questions by key.

What is typed while a turn runs joins it. The same session may be open on several terminals. Leaving a chat leaves its
turn running. /help shows what else can be done.`,
		Example: `  starter chat --dev
  starter chat -c`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case last && session != "":
				return usage("--continue and --session name two sessions: use one of them")
			case slow && !dev:
				return usage("--slow is for the worker of --dev; a worker elsewhere takes it itself: `go run ./worker -slow`")
			case session != "" && turn.CheckSession(session) != nil:
				return usage("--session: %w", turn.CheckSession(session))
			}
			if slow {
				a.override("llm.demo_slow", "true")
			}
			return a.chat(cmd.Context(), session, last, dev)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&dev, "dev", false, "bring up Temporal, its Web UI and a worker on this machine")
	flags.BoolVar(&slow, "slow", false, "with --dev and the demo model: answer slowly, to be watched")
	flags.StringVarP(&session, "session", "s", "", "the session `ID` to continue or begin")
	flags.BoolVarP(&last, "continue", "c", false, "continue the last session")
	_ = cmd.RegisterFlagCompletionFunc("session", a.completeSessions(1)) // the flag exists
	return cmd
}

// chat starts what a chat needs and shows the chat. It rejects an unsuitable terminal before it starts anything.
func (a *app) chat(ctx context.Context, session string, last, dev bool) error {
	out, ok := a.out.(*os.File)
	switch {
	case !ok || !isTerminal(a.in) || !isTerminal(a.out):
		return usage("chat needs a terminal for its input and its output; in a pipe or a script use `starter run \"...\"`")
	case a.lookup("TERM") == "dumb" || a.lookup("TERM") == "":
		return usage("this terminal (TERM=%s) cannot move its cursor, which chat needs; use `starter run \"...\"` and `starter run -c \"...\"`", a.lookup("TERM"))
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
	if session == "" {
		session = client.NewSessionID()
	}
	a := t.app
	left, err := chat.Run(ctx, chat.Options{
		Store: t.store, Client: t.client, Session: session, Person: whoami(), Model: modelName(t.cfg.LLM), History: chatHistory,
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
		return "the model of " + string(c.Provider)
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
	a, again := t.app, "starter chat -s "+quoted(left.Session)
	if t.failed != nil { // the chat's worker ends with this command
		again = "starter chat --dev -s " + quoted(left.Session)
	}
	for _, text := range left.Unsent {
		a.note("not sent: %s", line(text, 200))
	}
	switch {
	case left.Waiting:
		a.note("the turn waits for a person; come back with `%s`", again)
	case left.Running && t.failed != nil:
		a.note("the turn goes on when a worker runs; come back with `%s`", again)
	case left.Running:
		a.note("the turn goes on; come back with `%s`", again)
	case left.Begun:
		a.aside("come back with `%s`", again)
	}
}
