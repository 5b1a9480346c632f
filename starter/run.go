package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// runFlags are the flags of run.
type runFlags struct {
	dev, detach, exit, last, slow bool
	alone, fork                   bool
	session, messageID            string
	follow                        followOptions
	limits                        limitFlags
}

func (a *app) runCommand() *cobra.Command {
	f := runFlags{follow: followOptions{after: -1}}
	cmd := &cobra.Command{
		Use:   "run [prompt...]",
		Short: "Ask something and follow the turn to its answer",
		Long: `Ask something and follow the turn to its answer.

The prompt is taken from the arguments; from standard input where it is "-", or where there is no prompt and standard
input is a pipe or a file. Without a worker elsewhere, --dev brings everything up: a Temporal server, its Web UI and a
worker in this process.

Where the session has a turn that runs, the prompt joins it and is taken before the next inference. Where the turn waits
for a person, it is asked for on a terminal; without one the command says how to answer and exits with 6.

Exit codes: 0 answered, 1 failed, 2 cancelled, 3 usage or configuration, 4 credentials, 5 Temporal or a worker not
reached, 6 waiting for a person, 7 a guard or budget, 124 a timeout.`,
		Example: `  starter run --dev "Which files are here, and what is this project about?"
  starter run -s research "And the tests?"
  git diff | starter run - --max-steps 5`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.limits.read(cmd.Flags())
			return a.run(cmd.Context(), f, args)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.dev, "dev", false, "bring up Temporal, its Web UI and a worker on this machine")
	flags.BoolVar(&f.exit, "exit", false, "with --dev: end after the answer, on a terminal too")
	flags.BoolVar(&f.slow, "slow", false, "with --dev and the demo model: answer slowly, to be watched")
	flags.BoolVar(&f.detach, "detach", false, "print the IDs and return; a worker carries the turn")
	flags.BoolVar(&f.alone, "alone", false, "refuse to join a turn that runs: a busy session is an error")
	flags.BoolVar(&f.follow.stay, "wait", false, "without a terminal: go on where a person elsewhere is waited for")
	flags.StringVarP(&f.session, "session", "s", "", "the session `ID` to continue or begin")
	flags.BoolVarP(&f.last, "continue", "c", false, "continue the last session")
	flags.StringVar(&f.messageID, "message-id", "", "the message's `ID`: sent twice, it is answered once")
	flags.BoolVar(&f.fork, "fork", false, "leave the session alone and ask in a fork of it")
	f.follow.register(a, cmd)
	f.limits.register(flags)
	_ = cmd.RegisterFlagCompletionFunc("session", a.completeSessions(1)) // the flag exists
	return cmd
}

func (a *app) run(ctx context.Context, f runFlags, args []string) error {
	if err := f.check(); err != nil {
		return err
	}
	prompt, err := a.prompt(ctx, args)
	if err != nil {
		return err
	}
	if f.slow {
		a.override("llm.demo_slow", "true")
	}
	loaded, err := a.load()
	if err != nil {
		return err
	}
	if !f.dev {
		a.warnOfIdleSettings()
	}
	stack, cfg, err := a.bringUp(ctx, loaded.Config, needs{server: f.dev, worker: f.dev, quiet: f.follow.quiet})
	if err != nil {
		return err
	}
	defer stack.close()
	return a.withClient(ctx, cfg, stack, func(t *turnClient) error { return t.ask(ctx, f, prompt) })
}

// ask starts a turn and follows it as the flags say.
func (t *turnClient) ask(ctx context.Context, f runFlags, prompt string) error {
	if f.last {
		var err error
		if f.session, err = lastSession(ctx, t.store); err != nil {
			return err
		}
	}
	if f.fork {
		forked, err := t.fork(ctx, f.session, 0, "")
		if err != nil {
			return err
		}
		f.session = forked.ID
	}
	s, err := t.send(ctx, client.SendInput{Session: f.session, Message: workflows.Message{ID: f.messageID, Text: prompt}, Limits: f.limits.request, Alone: f.alone})
	if err != nil {
		return err
	}
	if f.detach {
		return t.app.accepted(s, f.follow.output, f.follow.quiet)
	}
	err = t.follow(ctx, s, f.follow)
	if f.dev && !f.exit && !f.follow.quiet && isTerminal(t.app.out) && !errors.Is(err, errDetached) {
		t.app.stayUp(s.Link)
	}
	return err
}

// check refuses flags that exclude each other.
func (f runFlags) check() error {
	if err := f.follow.check(); err != nil {
		return err
	}
	switch {
	case f.last && f.session != "":
		return usage("--continue and --session name two sessions: use one of them")
	case f.detach && f.dev:
		return usage("--detach leaves the turn to a worker that keeps running, and --dev ends its own with the command: run `starter dev` in another terminal, then `starter run --detach`")
	case f.detach && f.follow.outputLast != "":
		return usage("--detach does not wait for the answer that --output-last would write: use `starter attach` later")
	case f.slow && !f.dev:
		return usage("--slow is for the worker of --dev; a worker elsewhere takes it itself: `go run ./worker -slow`")
	case f.exit && !f.dev:
		return usage("--exit is for --dev: without it the command ends after the answer anyway")
	case f.follow.stay && f.follow.noWait:
		return usage("--wait and --no-wait contradict each other: use one of them")
	case f.fork && f.session == "" && !f.last:
		return usage("--fork needs the session to fork: name it with --session or --continue")
	case f.messageID != "" && f.session == "" && !f.last:
		return usage("--message-id counts within a session: name it with --session or --continue")
	}
	if math.IsNaN(f.limits.maxCost) || math.IsInf(f.limits.maxCost, 0) {
		return usage("--max-cost is no number of US dollars")
	}
	if _, err := f.limits.request.Apply(turn.DefaultLimits()); err != nil {
		return usage("%w", err)
	}
	if f.session == "" {
		return nil
	}
	if err := turn.CheckSession(f.session); err != nil {
		return usage("--session: %w", err)
	}
	return nil
}

func lastSession(ctx context.Context, store journal.Store) (string, error) {
	sessions, err := store.Sessions(ctx, 1)
	if err != nil {
		return "", err
	}
	if len(sessions) == 0 {
		return "", usage("the journal holds no session yet: ask something first")
	}
	return sessions[0].ID, nil
}

// accepted prints which session and turn a message went to.
func (a *app) accepted(s started, output string, quiet bool) error {
	switch output {
	case "json", "jsonl":
		return writeJSON(a.out, s)
	case "none":
		return nil
	}
	fmt.Fprintf(a.out, "session %s\nturn    %s\nmessage %s\n", s.Session, s.ID, s.MessageID)
	if quiet {
		return nil
	}
	if s.Merged {
		a.aside("the turn was running: it takes the message before its next inference, or leaves it to the session's next turn")
	}
	a.aside("a worker carries it on; see it with\n  starter attach %s\n  %s", quoted(s.Session), s.Link)
	return nil
}

// stayUp keeps the dev stack running until Ctrl-C, so that the link works.
func (a *app) stayUp(link string) {
	a.note("\n%s\nstaying up so that the link works; Ctrl-C ends", link)
	<-a.interrupts.take()
}

// warnOfIdleSettings warns about --set keys that only workers read, because this command runs no worker.
func (a *app) warnOfIdleSettings() {
	for key := range a.overrides {
		room, _, _ := strings.Cut(key, ".")
		if room != "temporal" && room != "journal" && key != "runtime.agent" && key != "tenant" {
			a.note("--set %s is for workers, and this command runs none: what carries the turn has its own configuration. Put it into the agent.toml that the workers read, or use --dev", key)
		}
	}
}
