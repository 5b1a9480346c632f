package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
)

// runFlags are what run is asked besides its prompt.
type runFlags struct {
	dev, detach, exit, quiet, last, slow bool
	session, messageID, output           string
	outputLast                           string
	limits                               limitFlags
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [prompt...]",
		Short: "Ask something and follow the turn to its answer",
		Long: `Ask something and follow the turn to its answer.

The prompt is taken from the arguments; from standard input where it is "-", or where there is no prompt and standard
input is a pipe or a file. Without a worker elsewhere, --dev brings everything up: a Temporal server, its Web UI and a
worker in this process.`,
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
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing but the answer")
	flags.StringVarP(&f.session, "session", "s", "", "the session `ID` to continue or begin")
	flags.BoolVarP(&f.last, "continue", "c", false, "continue the last session")
	flags.StringVar(&f.messageID, "message-id", "", "the message's `ID`: sent twice, it is answered once")
	flags.StringVarP(&f.output, "output", "o", "text", "text, json (the result), jsonl (every chunk) or none")
	flags.StringVar(&f.outputLast, "output-last", "", "also write the answer to this `file`")
	f.limits.register(flags)
	return cmd
}

func (a *app) run(ctx context.Context, f runFlags, args []string) error {
	if err := f.check(); err != nil {
		return err
	}
	prompt, err := a.prompt(args)
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
	stack, cfg, err := a.bringUp(ctx, loaded.Config, f.dev, !f.detach)
	if err != nil {
		return err
	}
	defer stack.close()
	store, err := openJournal(ctx, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	c, err := a.dial(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	if f.last {
		if f.session, err = lastSession(ctx, store); err != nil {
			return err
		}
	}
	t := &turnClient{app: a, client: c, store: store, cfg: cfg}
	started, err := t.start(ctx, f, prompt)
	if err != nil {
		return err
	}
	if f.detach {
		return a.detached(started, f)
	}
	err = t.follow(ctx, started, followOptions{output: f.output, quiet: f.quiet, outputLast: f.outputLast, after: -1})
	if f.dev && !f.exit && !f.quiet && isTerminal(a.out) && !errors.Is(err, errDetached) {
		a.stayUp(t.link(started))
	}
	return err
}

func (f runFlags) check() error {
	switch {
	case f.output != "text" && f.output != "json" && f.output != "jsonl" && f.output != "none":
		return usage("--output is %q: use text, json, jsonl or none", f.output)
	case f.last && f.session != "":
		return usage("--continue and --session name two sessions: use one of them")
	case f.detach && f.dev:
		return usage("--detach leaves the turn to a worker that keeps running, and --dev ends its own with the command: run `starter dev` in another terminal, then `starter run --detach`")
	}
	if f.session != "" {
		if err := workflows.CheckSession(f.session); err != nil {
			return usage("--session: %w", err)
		}
	}
	return nil
}

// maxPrompt bounds what is read from standard input, in bytes.
const maxPrompt = 64 << 20

// prompt reads what is asked. Standard input is read only where it is asked for, or where it is a pipe or a file and
// nothing else says what to ask: an inherited one would be waited for for ever.
func (a *app) prompt(args []string) (string, error) {
	text := strings.Join(args, " ")
	if text == "-" || text == "" && readable(a.in) {
		b, err := io.ReadAll(io.LimitReader(a.in, maxPrompt+1))
		if err != nil {
			return "", usage("reading the prompt from standard input: %w", err)
		}
		if len(b) > maxPrompt {
			return "", usage("the prompt on standard input is over %d MiB", maxPrompt>>20)
		}
		text = string(b)
	}
	if strings.TrimSpace(text) == "" {
		return "", usage("there is nothing to ask: give a prompt, for instance `starter run \"Which files are here?\"`, or pipe one in")
	}
	return text, nil
}

// readable reports whether f is a pipe or a file: something that ends.
func readable(f *os.File) bool {
	if f == nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&os.ModeNamedPipe != 0)
}

func lastSession(ctx context.Context, store journal.Store) (string, error) {
	sessions, err := store.Sessions(ctx, 1)
	if err != nil {
		return "", err
	}
	if len(sessions) == 0 {
		return "", usage("there is no session to continue yet")
	}
	return sessions[0].ID, nil
}

func (a *app) detached(s started, f runFlags) error {
	if f.output == "json" || f.output == "jsonl" {
		return writeJSON(a.out, s)
	}
	fmt.Fprintf(a.out, "session %s\nturn    %s\n", s.Session, s.Turn)
	a.note("the turn is carried by a worker; see it with\n  starter attach %s\n  %s", s.Session, s.Link)
	return nil
}

// override sets a configuration key as a flag does, unless a flag has set it.
func (a *app) override(key, value string) {
	if a.overrides == nil {
		a.overrides = map[string]string{}
	}
	if _, set := a.overrides[key]; !set {
		a.overrides[key] = value
	}
}

// stayUp keeps the dev stack, so that the link works, until the person has seen enough.
func (a *app) stayUp(link string) {
	a.note("\n%s\nstaying up so that the link works; Ctrl-C ends", link)
	<-a.signals
}
