package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/everturn/everturn/codec"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
)

// App is the program: its streams, its environment and the flags that every command has.
type App struct {
	Streams
	Environ    []string
	Interrupts *interrupts
	Program    string // how the user started the program; see ProgramName
	Parsed     bool   // cobra has accepted the command line

	Context    context.Context // the command's context, for Load's question to the user; nil: context.Background
	ConfigPath string
	TrustOnce  bool // the working folder is trusted for this command
	Color      string
	Overrides  map[string]string

	keys *codec.Keys // the encryption keys, read by the first Dial; nil without encryption
}

// Streams are a command's standard input and outputs.
type Streams struct {
	In  *os.File
	Out io.Writer
	Err io.Writer
}

// ShowHelp prints the help of cmd. It is the RunE function of commands that only have subcommands.
func ShowHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// Parent returns a command that only has subcommands.
func Parent(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: OnlySubcommands, RunE: ShowHelp}
	cmd.AddCommand(children...)
	return cmd
}

// Set records a --set flag, in the form key=value.
func (a *App) Set(pair string) error {
	key, value, ok := strings.Cut(pair, "=")
	if !ok || key == "" {
		return errors.New("use key=value")
	}
	if a.Overrides == nil {
		a.Overrides = map[string]string{}
	}
	a.Overrides[key] = value
	return nil
}

// CheckEnviron checks the environment variables that the configured servers inherit, before the command starts the
// servers.
func (a *App) CheckEnviron() error {
	loaded, err := a.Load()
	if err != nil {
		return err
	}
	return loaded.CheckEnviron(a.Environ)
}

// Dial connects to the Temporal server of the configuration, with the configured encryption of payloads.
func (a *App) Dial(ctx context.Context, cfg config.Config) (_ temporalconn.Conn, err error) {
	o := temporalconn.FromConfig(cfg.Temporal, a.Environ)
	if a.keys == nil { // the first connection
		if a.keys, err = codec.Open(cfg.Encryption); err != nil {
			return nil, err
		}
	}
	o.Keys = a.keys
	return temporalconn.Dial(ctx, o)
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// OnTerminal reports whether the command can show something to the user and ask about it.
func (a *App) OnTerminal() bool { return IsTerminal(a.In) && IsTerminal(a.Err) }

// Lookup returns the value of an environment variable, or "" if it is not set.
func (a *App) Lookup(name string) string {
	value, _ := temporalconn.Environ(a.Environ).LookupEnv(name)
	return value
}

// UserName returns the name under which the user's decisions are recorded: user@host. A part that the operating system
// does not report is "unknown".
func UserName() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil && h != "" {
		host = h
	}
	return name + "@" + host
}

// logger returns a logger for an in-process worker. w is a file or discards the log, because the terminal belongs to
// the turn.
func logger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelInfo}))
}
