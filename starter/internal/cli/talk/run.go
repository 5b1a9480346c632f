package talk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// runFlags are the flags of run.
type runFlags struct {
	sessionFlags
	detach, exit, alone, fork bool
	outputSchema              string
	schema                    json.RawMessage
	choices                   choices
	message                   workflows.Message // without the text: only the ID and what choices set
	attachments               []client.Attachment
	follow                    followOptions
	limits                    app.LimitFlags
}

// Run returns the command that sends a message and follows its turn.
func Run(a *app.App) *cobra.Command {
	f := runFlags{follow: followOptions{after: -1}}
	cmd := &cobra.Command{
		Use:   "run [message...]",
		Short: "Send a message and follow the turn to its answer",
		Long: `Send a message to a session and follow the turn to its answer.

The message is the arguments, followed by standard input if that is a pipe or a file. The argument
"-" puts standard input elsewhere, and also reads a terminal; < /dev/null leaves it out. --dev
starts everything on this machine: a Temporal server, its Web UI and a worker in this process.

If the session has a running turn, the message is merged into it before the next inference. If the
turn waits for a decision, the command asks on the terminal; without a terminal, it prints how to
decide and exits with 6.

Exit codes: 0 answered, 1 failed, 2 cancelled, 3 usage or configuration, 4 credentials, 5 Temporal,
journal or workers unreachable, 6 waiting for a decision, 7 a limit or a refusal, 124 a timeout.`,
		Example: `  everturn run --dev "Which files are here, and what is this project about?"
  everturn run -s research "And the tests?"
  git diff | everturn run "Review this change."`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.limits.Read(cmd.Flags())
			if err := f.choices.apply(cmd, &f.message); err != nil {
				return err
			}
			return runMessage(cmd.Context(), a, f, args)
		},
	}
	f.sessionFlags.register(a, cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.exit, "exit", false, "with --dev on a terminal: exit after the answer instead of keeping the Web "+
		"UI up")
	flags.BoolVar(&f.detach, "detach", false, "print the IDs and exit without following the turn")
	flags.BoolVar(&f.alone, "alone", false, "fail if the session has a running turn, instead of merging the message "+
		"into it")
	flags.BoolVar(&f.follow.stay, "wait", false, "without a terminal: keep following while the turn waits for a decision")
	flags.StringVar(&f.message.ID, "message-id", "", "the message's `ID`: a message sent again with the same ID is "+
		"answered once")
	flags.StringVar(&f.outputSchema, "output-schema", "", "the answer must be JSON that matches the JSON schema in this "+
		"`file`; implies --alone")
	flags.BoolVar(&f.fork, "fork", false, "send the message to a new fork of the session")
	f.follow.register(a, cmd)
	f.choices.register(cmd)
	f.limits.Register(flags)
	return cmd
}

// runMessage checks the flags, reads the message and the files that the flags name, and sends the message.
func runMessage(ctx context.Context, a *app.App, f runFlags, args []string) error {
	if err := f.check(); err != nil {
		return err
	}
	var err error
	if f.schema, err = readSchema(f.outputSchema); err != nil {
		return err
	}
	if f.attachments, err = f.choices.attachments(); err != nil {
		return err
	}
	prompt, err := f.choices.prompt(ctx, a, args)
	if err != nil {
		return err
	}
	return a.WithClient(ctx, f.needs(f.follow.quiet),
		func(t *app.TurnClient) error { return sendAndFollow(ctx, t, f, prompt) })
}

// sendAndFollow sends a message with the text prompt and, without --detach, follows its turn to the end.
func sendAndFollow(ctx context.Context, t *app.TurnClient, f runFlags, prompt string) error {
	if !f.dev {
		warnUnusedOverrides(t.App)
	}
	session, err := f.resolve(ctx, t)
	if err != nil {
		return err
	}
	if f.fork {
		forked, err := t.Fork(ctx, session, 0, "")
		if err != nil {
			return err
		}
		session = forked.ID
	}
	agent, err := t.AgentFor(ctx, session, f.agent)
	if err != nil {
		return err
	}
	t.NoteOtherSettings(ctx)
	if session == "" {
		session = client.NewSessionID()
	}
	note, err := f.begin(ctx, t, session)
	if err != nil {
		return err
	}
	if note != "" {
		t.App.Note("%s", note)
	}
	sendCtx, cancel := f.follow.bound(ctx)
	defer cancel()
	f.message.Text, f.message.Model, f.message.Limits = prompt, f.model, f.limits.Request
	s, err := t.Send(sendCtx, client.SendInput{Session: session, Message: f.message, Agent: agent,
		Attachments: f.attachments, Alone: f.alone, OutputSchema: f.schema})
	switch {
	case err != nil && sendCtx.Err() != nil && ctx.Err() == nil: // --timeout
		return &app.ExitError{Code: app.ExitTimeout,
			Cause: fmt.Errorf("the message was not accepted within %s: %w", f.follow.timeout,
				err)}
	case err != nil:
		return err
	}
	noteMerged(t, s, f.message, f.agent)
	noteUnseen(t, f.attachments, f.model)
	if f.detach {
		return printAccepted(ctx, t, s, f.follow.output, f.follow.quiet)
	}
	err = follow(ctx, t, s, f.follow)
	// On a terminal, the Web UI of --dev stays up unless the user has left the turn.
	if f.dev && !f.exit && !f.follow.quiet && app.IsTerminal(t.App.Out) && !errors.Is(err, app.ErrDetached) {
		stayUp(t.App, s.Link)
	}
	return err
}

// readSchema returns the JSON schema in a file, or nil if path is "".
func readSchema(path string) (json.RawMessage, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, app.Usage("--output-schema: %w", err)
	}
	if err := turn.CheckJSON(string(b)); err != nil {
		return nil, app.Usage("--output-schema: %s is not a JSON schema: %w", path, err)
	}
	return b, nil
}

// check returns an error for flags that exclude each other, need another flag, or have an invalid value.
func (f runFlags) check() error {
	if err := errors.Join(f.follow.check(), f.sessionFlags.check()); err != nil {
		return err
	}
	switch {
	case f.detach && f.dev:
		return app.Usage("--detach needs a worker that keeps running, but the worker of --dev stops when the command exits: " +
			"run `everturn dev` in another terminal, then `everturn run --detach`")
	case f.detach && f.follow.outputLast != "":
		return app.Usage("--detach does not wait for the answer that --output-last writes: use `everturn attach " +
			"--output-last` " +
			"later")
	case f.exit && !f.dev:
		return app.Usage("--exit needs --dev: without it, the command always exits after the answer")
	case f.follow.stay && f.follow.noWait:
		return app.Usage("--wait and --no-wait exclude each other: use one of them")
	case f.fork && !f.named():
		return app.Usage("--fork needs the session to fork: name it with --session or --continue")
	case f.message.ID != "" && !f.named():
		return app.Usage("--message-id needs a session: name it with --session or --continue")
	}
	if math.IsNaN(f.limits.MaxCost) || math.IsInf(f.limits.MaxCost, 0) {
		return app.Usage("--max-cost is not an amount in US dollars")
	}
	if _, err := f.limits.Request.Apply(turn.DefaultLimits()); err != nil {
		return app.Usage("%w (the flag of each limit has its name: --max-cost for max_cost_usd)", err)
	}
	return nil
}

// printAccepted prints the session, turn and message IDs of a message that was accepted as s. As text, unless quiet, it
// also says what happens next.
func printAccepted(ctx context.Context, t *app.TurnClient, s app.Started, output string, quiet bool) error {
	a := t.App
	switch output {
	case app.OutputJSON, app.OutputJSONL:
		return app.WriteJSON(a.Out, s)
	case app.OutputNone:
		return nil
	}
	fmt.Fprintf(a.Out, "session %s\n", s.Session)
	if !s.Queued { // the message's turn has no ID before it starts
		fmt.Fprintf(a.Out, "turn    %s\n", s.ID)
	}
	fmt.Fprintf(a.Out, "message %s\n", s.MessageID)
	if quiet {
		return nil
	}
	switch {
	case s.Queued:
		a.Aside("the message is queued: it starts a turn of its own when turn %s ends", s.ID)
	case s.Merged:
		a.Aside("the message is merged into the running turn before its next inference, or starts the session's next turn")
	}
	pending, err := t.Client.Pending(ctx, client.PendingInput{Session: s.Session, Limit: 1})
	if s.Merged && err == nil && len(pending) > 0 { // until then, the turn does not merge the message
		a.Note("the running turn waits for a decision: see `everturn approvals %s`", app.Quoted(s.Session))
	}
	a.Aside("the session continues while a worker runs; follow it with\n  everturn attach %s\n  %s", app.Quoted(s.Session),
		s.Link)
	return nil
}

// stayUp blocks until Ctrl-C, so that the server of --dev keeps running and the link to its Web UI works.
func stayUp(a *app.App, link string) {
	a.Note("\n%s\nkeeping the Web UI up so that the link works; press Ctrl-C to exit", link)
	<-a.Interrupts.Take()
}

// warnUnusedOverrides warns about --set keys that only workers read, because this command runs no worker.
func warnUnusedOverrides(a *app.App) {
	for key := range a.Overrides {
		section, _, _ := strings.Cut(key, ".")
		if section != "temporal" && section != "journal" && key != "tenant" {
			a.Note("--set %s has no effect here, because it configures workers: set it in their agent.toml, or use --dev", key)
		}
	}
}
