package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/internal/cluster"
	"github.com/everturn/everturn/journal"
)

// app is the program: its streams, its environment and the flags that every command has.
type app struct {
	streams
	environ    []string
	interrupts *interrupts
	ran        bool // cobra has accepted the command line

	configPath string
	color      string
	overrides  map[string]string
}

// command builds the tree of commands.
func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "starter",
		Short: "Start and inspect agent turns that cannot be lost",
		Example: `  starter run --dev "Which files are here, and what is this project about?"
  starter show`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		Args:              onlySubcommands,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.understood() },
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	flags.StringVar(&a.configPath, "config", "", "configuration `file` (default agent.toml where there is one)")
	flags.StringVar(&a.color, "color", colorAuto, "auto, always or never")
	flags.Func("tenant", "act for the tenant of this `name`: see its sessions and no others (default: tenant in agent.toml)", func(name string) error { return a.set("tenant=" + name) })
	flags.Func("set", "override a configuration `key=value`, for instance llm.model=gpt-4.1; may be repeated", a.set)
	root.AddCommand(a.sendCommand(), a.answerCommand(), a.approveCommand(), a.openCommand(), a.forkCommand(), a.rewindCommand(), a.diffCommand(),
		a.eventsCommand(), a.manCommand())
	root.AddCommand(a.chatCommand(), a.scheduleCommand())
	root.AddCommand(a.journalCommand(), a.runCommand(), a.attachCommand(), a.stopCommand(), a.devCommand(), a.devServerCommand(), a.listCommand(), a.showCommand(),
		a.exportCommand(), a.importCommand(), a.toolsCommand(), a.initCommand(), a.doctorCommand(), a.configCommand(), a.versionCommand())
	return root
}

// understood checks --color. Cobra calls it after parsing the command line and before running the command.
func (a *app) understood() error {
	switch a.color {
	case colorAuto, colorAlways, colorNever:
		a.ran = true
		return nil
	}
	return usage("--color is %q: use auto, always or never", a.color)
}

// set records a --set flag, in the form key=value.
func (a *app) set(pair string) error {
	key, value, ok := strings.Cut(pair, "=")
	if !ok || key == "" {
		return errors.New("it must be key=value")
	}
	if a.overrides == nil {
		a.overrides = map[string]string{}
	}
	a.overrides[key] = value
	return nil
}

// override sets a configuration key on behalf of another flag, unless --set has set it.
func (a *app) override(key, value string) {
	if _, set := a.overrides[key]; !set {
		_ = a.set(key + "=" + value) // the pair is well formed
	}
}

// load reads the configuration: defaults, file, environment, flags.
func (a *app) load() (*config.Loaded, error) {
	return config.Load(config.LoadOptions{Path: a.configPath, Environ: a.environ, Overrides: a.overrides})
}

// checkEnviron checks the environment variables that the configured servers inherit, before the command starts the
// servers.
func (a *app) checkEnviron() error {
	loaded, err := a.load()
	if err != nil {
		return err
	}
	return loaded.CheckEnviron(a.environ)
}

// openJournal opens the configured journal as its tenant sees it: no command can see another tenant's sessions. A file
// that cannot be opened is a configuration error; a busy one is not.
func openJournal(ctx context.Context, cfg config.Config) (journal.Store, error) {
	if filepath.Dir(filepath.Clean(cfg.Journal.Path)) == stateDir {
		if err := keepState(); err != nil {
			return nil, err
		}
	}
	store, err := engine.OpenJournal(ctx, cfg)
	if err != nil {
		return nil, journalError(ctx, err)
	}
	return store.Tenant(cfg.Tenant), nil
}

// journalError turns an error of opening the journal into a configuration error, unless trying again may help.
func journalError(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, journal.ErrUnavailable) {
		return err
	}
	return asUsage(err)
}

// readJournal opens a journal that must exist. Commands that only read do not create one.
func readJournal(ctx context.Context, cfg config.Config) (journal.Store, error) {
	if !engine.HasJournal(cfg) {
		return nil, usage("there is no journal at %s yet: ask something first, for instance `starter run --dev \"hello\"`", cfg.Journal.Path)
	}
	return openJournal(ctx, cfg)
}

func (a *app) dial(ctx context.Context, cfg config.Config) (cluster.Conn, error) {
	return cluster.Dial(ctx, cluster.FromConfig(cfg.Temporal, a.environ))
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// lookup returns the value of an environment variable, or "" if it is not set.
func (a *app) lookup(name string) string {
	for _, kv := range a.environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v
		}
	}
	return ""
}

// logger returns a logger for an in-process worker. w is a file or discards the log, because the terminal belongs to
// the turn.
func logger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelInfo}))
}
