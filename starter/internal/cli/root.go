package cli

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
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/internal/version"
	"github.com/everturn/everturn/journal"
)

// app is the program: its streams, its environment and the flags that every command has.
type app struct {
	streams
	environ    []string
	interrupts *interrupts
	program    string // how the user started the program; see programName
	parsed     bool   // cobra has accepted the command line

	configPath string
	color      string
	overrides  map[string]string
}

// command builds the tree of commands.
func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:     "starter",
		Version: version.String(),
		Short:   "Run, follow and inspect durable agent turns",
		Example: `  starter run --dev "Which files are here, and what is this project about?"
  starter show`,
		SilenceUsage:     true,
		SilenceErrors:    true,
		Args:             onlySubcommands,
		RunE:             showHelp,
		PersistentPreRun: func(*cobra.Command, []string) { a.parsed = true },
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	flags.StringVar(&a.configPath, "config", "", "configuration `file` (default: agent.toml, if it exists)")
	a.color = colorAuto
	choose(root, flags, &a.color, "color", "", "color the output: auto, always or never", colorAuto, colorAlways,
		colorNever)
	flags.Func("tenant", "the tenant's `name`: use its sessions only (default: tenant in agent.toml)",
		func(name string) error { return a.set("tenant=" + name) })
	flags.Func("set", "set a configuration `key=value`, for example llm.model=gpt-4.1; may be repeated", a.set)
	for _, g := range a.groups() {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID(groupDevelop)
	root.SetCompletionCommandGroupID(groupDevelop)
	root.AddCommand(a.manCommand(), a.devServerCommand())
	return root
}

// group is a group of commands in the help.
type group struct {
	title    string
	commands []*cobra.Command
}

const groupDevelop = "Develop"

// groups returns the commands in the order of the help. Cobra sorts the commands of a group.
func (a *app) groups() []group {
	return []group{
		{"Talk", []*cobra.Command{a.runCommand(), a.chatCommand(), a.sendCommand(), a.attachCommand(), a.stopCommand(),
			a.scheduleCommand()}},
		{"Decide", []*cobra.Command{a.approvalsCommand(), a.approveCommand(), a.denyCommand(), a.answerCommand()}},
		{"Look", []*cobra.Command{a.listCommand(), a.showCommand(), a.diffCommand(), a.openCommand()}},
		{"Branch and move", []*cobra.Command{a.forkCommand(), a.rewindCommand(), a.exportCommand(), a.importCommand()}},
		{"Set up", []*cobra.Command{a.initCommand(), a.configCommand(), a.doctorCommand(), a.toolsCommand(),
			a.journalCommand()}},
		{groupDevelop, []*cobra.Command{a.devCommand(), a.eventsCommand(), a.versionCommand()}},
	}
}

func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// parent returns a command that only has subcommands.
func parent(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: onlySubcommands, RunE: showHelp}
	cmd.AddCommand(children...)
	return cmd
}

// set records a --set flag, in the form key=value.
func (a *app) set(pair string) error {
	key, value, ok := strings.Cut(pair, "=")
	if !ok || key == "" {
		return errors.New("use key=value")
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
func openJournal(ctx context.Context, cfg config.Config) (*journal.DB, error) {
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

func checkJournalExists(cfg config.Config) error {
	if engine.HasJournal(cfg) {
		return nil
	}
	return usage("there is no journal at %s yet: start a session first, for example `starter run --dev \"hello\"`",
		cfg.Journal.Path)
}

// readJournal opens a journal that must exist. Commands that only read do not create one.
func readJournal(ctx context.Context, cfg config.Config) (*journal.DB, error) {
	if err := checkJournalExists(cfg); err != nil {
		return nil, err
	}
	return openJournal(ctx, cfg)
}

// withJournal calls do with the journal, which must exist.
func (a *app) withJournal(ctx context.Context, do func(*journal.DB) error) error {
	loaded, err := a.load()
	if err != nil {
		return err
	}
	store, err := readJournal(ctx, loaded.Config)
	if err != nil {
		return err
	}
	defer store.Close()
	return do(store)
}

func (a *app) dial(ctx context.Context, cfg config.Config) (temporalconn.Conn, error) {
	return temporalconn.Dial(ctx, temporalconn.FromConfig(cfg.Temporal, a.environ))
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// lookup returns the value of an environment variable, or "" if it is not set.
func (a *app) lookup(name string) string {
	value, _ := temporalconn.Environ(a.environ).LookupEnv(name)
	return value
}

// logger returns a logger for an in-process worker. w is a file or discards the log, because the terminal belongs to
// the turn.
func logger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelInfo}))
}
