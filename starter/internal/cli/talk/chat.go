package talk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/modelconfig"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui/chat"
	"github.com/everturn/everturn/workflows/turn"
)

// chatHistory is the file that keeps the lines typed into chats.
var chatHistory = filepath.Join(app.StateDir, "chat_history")

// Chat returns the command that shows a chat.
func Chat(a *app.App) *cobra.Command {
	var f sessionFlags
	var c choices
	var chosen turn.UserMessage
	cmd := &cobra.Command{
		Use:   "chat [session]",
		Short: "Talk to a session on this terminal",
		Long: `Talk to a session on this terminal. Answers and tool calls appear as they happen, and keys decide
approvals.

A message that you send while a turn runs is merged into it. The same session may be open on several
terminals. When you leave the chat, its turn continues. --tools, --effort and --temperature apply to all turns
that begin with a message of this chat. In a message, @path attaches a file; a line that begins with !
runs a command in your shell. /help lists the commands and keys.`,
		Example: `  everturn chat --dev
  everturn chat -c`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.take(args); err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			if err := c.apply(cmd, &chosen); err != nil {
				return err
			}
			return startChat(cmd.Context(), a, f, chosen)
		},
	}
	f.register(a, cmd)
	c.register(cmd)
	return cmd
}

// startChat checks that the terminal can show a chat, starts what the flags require, and runs the chat. chosen has the
// choices of tools, effort, temperature and plan for the chat's messages.
func startChat(ctx context.Context, a *app.App, f sessionFlags, chosen turn.UserMessage) error {
	out, ok := a.Out.(*os.File)
	switch {
	case !ok || !app.IsTerminal(a.In) || !app.IsTerminal(a.Out):
		return app.Usage("chat needs a terminal for input and output; in a pipe or a script use `everturn run \"...\"`")
	case a.Lookup("TERM") == "dumb" || a.Lookup("TERM") == "":
		return app.Usage("chat needs a terminal that can move its cursor (TERM=%s cannot); use `everturn run \"...\"` and "+
			"`everturn run -c \"...\"`", a.Lookup("TERM"))
	}
	connected := false
	err := a.WithClient(ctx, f.needs(false), func(t *app.TurnClient) error {
		connected = true
		return talkTo(ctx, t, f, chosen, out)
	})
	if !connected && errors.Is(err, client.ErrUnreachable) {
		return fmt.Errorf("%w; `everturn chat --dev` brings its own, with a worker", err)
	}
	return err
}

// talkTo runs a chat with the session of the flags, or with a new one, until the user leaves it.
func talkTo(ctx context.Context, t *app.TurnClient, f sessionFlags, chosen turn.UserMessage, out *os.File) error {
	file := chatHistory // "": the chat keeps no history of its input
	if err := app.KeepState(); err != nil {
		t.App.Note("this chat keeps no history of its input: %v", err)
		file = ""
	}
	session, err := f.resolve(ctx, t)
	if err != nil {
		return err
	}
	if session == "" {
		session = client.NewSessionID()
	}
	if f.agent, err = t.AgentFor(ctx, session, f.agent); err != nil {
		return err
	}
	t.NoteOtherSettings(ctx)
	note, err := f.begin(ctx, t, session)
	if err != nil {
		return err
	}
	a := t.App
	options := chat.Options{
		Journal: t.Journal, Client: t.Client, Session: session, Person: app.UserName(), Model: t.DefaultModel(),
		Requested: f.model, CheckModel: t.CheckModel,
		Models:     func() []chat.ModelChoice { return modelChoices(t.Cfg) },
		SeesImages: func(requested string) bool { return modelconfig.SeesImages(t.Cfg, requested) },
		Note:       note, History: file, Chosen: chosen, Agent: f.agent,
		Link:  func(session, id string) string { return t.RunLink(t.Client.WorkflowID(session), id) },
		Color: a.Colored(out), In: a.In, Out: out, Environ: a.Environ, Signals: a.Interrupts.Take(), Failed: t.Failed,
	}
	options.Waits = t.Waits
	options.Workspace = a.Folders(ctx, t.Cfg)
	if t.HasCanvases() {
		if options.Canvases, err = t.Canvases(ctx); err != nil {
			return err
		}
	}
	left, err := chat.Run(ctx, options)
	if err != nil {
		return err
	}
	sayGoodbye(t, left)
	return nil
}

// modelChoices returns the models of the configured providers, each with its context window and its price; none for the
// demo, which has only one.
func modelChoices(cfg config.Config) (out []chat.ModelChoice) {
	if cfg.EffectiveLLM().Provider == config.ProviderDemo {
		return nil
	}
	all, _ := modelconfig.Models(cfg) // the built-in list is good enough to choose from
	for _, r := range all.Candidates() {
		var notes []string
		if r.ContextTokens > 0 {
			notes = append(notes, fmt.Sprintf("%dk tokens", r.ContextTokens/1000))
		}
		if r.Price != nil {
			notes = append(notes, fmt.Sprintf("$%g in, $%g out per million", r.Price.Input, r.Price.Output))
		}
		out = append(out, chat.ModelChoice{Name: r.ID(), Note: strings.Join(notes, " · ")})
	}
	return out
}

// sayGoodbye prints the messages that were not sent, the command that returns to the session, and whether its turn
// continues.
func sayGoodbye(t *app.TurnClient, left chat.Left) {
	a, resume := t.App, "everturn chat -s "+app.Quoted(left.Session)
	if t.Failed != nil { // the chat's worker ends with this command
		resume = "everturn chat --dev -s " + app.Quoted(left.Session)
	}
	for _, text := range left.Unsent {
		a.Note("not sent: %s", app.Line(text, 200))
	}
	switch {
	case left.Waiting:
		a.Note("the turn waits for your decision; resume with `%s`", resume)
	case left.Running && t.Failed != nil:
		a.Note("the turn continues when a worker runs; resume with `%s`", resume)
	case left.Running:
		a.Note("the turn continues; resume with `%s`", resume)
	case left.Begun:
		a.Aside("resume with `%s`", resume)
	}
}
