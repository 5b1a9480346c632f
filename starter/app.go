package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"golang.org/x/term"

	"github.com/everturn/everturn/cluster"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
)

// app is the program: its streams, its environment and the flags that every command has.
type app struct {
	streams
	environ []string
	signals <-chan os.Signal

	configPath string
	color      string
	overrides  map[string]string
}

// command builds the tree of commands.
func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "starter",
		Short:         "Start and inspect agent turns that cannot be lost",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%w; see `%s --help`", err, cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.configPath, "config", "", "configuration `file` (default agent.toml where there is one)")
	flags.StringVar(&a.color, "color", "auto", "auto, always or never")
	flags.StringToStringVar(&a.overrides, "set", nil, "override a configuration `key=value`, for instance llm.model=gpt-4.1")
	root.AddCommand(a.runCommand(), a.attachCommand(), a.stopCommand(), a.devCommand(), a.devServerCommand(), a.listCommand(), a.showCommand(),
		a.exportCommand(), a.importCommand(), a.toolsCommand(), a.initCommand(), a.doctorCommand(), a.configCommand(), a.versionCommand())
	return root
}

// load reads the configuration: defaults, file, environment, flags.
func (a *app) load() (*config.Loaded, error) {
	return config.Load(config.LoadOptions{Path: a.configPath, Environ: a.environ, Overrides: a.overrides})
}

// openJournal opens the journal that the configuration names.
func openJournal(ctx context.Context, cfg config.Config) (journal.Store, error) {
	return sqlite.Open(ctx, cfg.Journal.Path, sqlite.Options{Synchronous: string(cfg.Journal.Synchronous)})
}

// readJournal opens a journal that must be there already: commands that only look make none.
func readJournal(ctx context.Context, cfg config.Config) (journal.Store, error) {
	if _, err := os.Stat(cfg.Journal.Path); os.IsNotExist(err) {
		return nil, usage("there is no journal at %s yet: ask something first, for instance `go run ./starter run --dev \"hello\"`", cfg.Journal.Path)
	}
	return openJournal(ctx, cfg)
}

func (a *app) dial(ctx context.Context, cfg config.Config) (client.Client, error) {
	return cluster.Dial(ctx, cluster.FromConfig(cfg.Temporal, a.environ))
}

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// lookup finds a variable of the environment.
func (a *app) lookup(name string) string {
	for _, kv := range a.environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v
		}
	}
	return ""
}

// logger logs warnings of an in-process worker to a file or nowhere: the terminal belongs to the turn.
func logger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// note says something to a person who watches; programs that read stderr get it too, but nothing moves.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.err, printable(fmt.Sprintf(format, args...)))
}
