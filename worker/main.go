package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/internal/version"
	"github.com/everturn/everturn/internal/workerprocess"
	"github.com/everturn/everturn/journal"
)

// sameSignalWithin is how soon after a signal another one counts as the same signal: GNU timeout sends it twice.
const sameSignalWithin = 50 * time.Millisecond

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After stop, a signal has its default effect again: the second one kills the process.
	context.AfterFunc(ctx, func() { time.AfterFunc(sameSignalWithin, stop) })
	if err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "everturn worker: "+err.Error())
		os.Exit(exitCode(err))
	}
}

// exitCode returns the exit code for an error, by everturn's numbers: 3 for usage, configuration or a journal that
// needs a newer program, 4 for credentials, 5 if Temporal or the journal is unreachable or the journal cannot be
// written, and 1 for all others.
func exitCode(err error) int {
	switch {
	case errors.Is(err, config.ErrInvalid), errors.Is(err, journal.ErrNewer):
		return 3
	case errors.Is(err, config.ErrCredentials):
		return 4
	case errors.Is(err, temporalconn.ErrUnreachable), errors.Is(err, journal.ErrUnavailable),
		errors.Is(err, journal.ErrReadOnly):
		return 5
	}
	return 1
}

// usage returns a usage error of the command line.
func usage(err error) error { return temporalconn.WithKind(config.ErrInvalid, err) }

// run parses the flags in args and runs the worker until ctx ends and the worker is drained. With -version,
// -healthcheck or -h it does only that. environ has the form of os.Environ. An error in args is a config.ErrInvalid.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.SetOutput(stderr)
	path := flags.String("config", "", "configuration `file` (default agent.toml, if it exists)")
	slow := flags.Bool("slow", false, "make the demo model answer slowly enough to watch")
	check := flags.Bool("healthcheck", false, "ask the worker at worker.health_address whether it is ready, and exit")
	printVersion := flags.Bool("version", false, "print the version")
	overrides := map[string]string{}
	flags.Func("set", "override a configuration `key=value`; may be repeated", func(s string) error {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("%q is not key=value", s)
		}
		overrides[key] = value
		return nil
	})
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return usage(err)
	}
	if flags.NArg() > 0 {
		return usage(fmt.Errorf("%q is not a flag: a worker reads its configuration from agent.toml (see -h)", flags.Arg(0)))
	}
	if *printVersion {
		_, err := fmt.Fprintln(stdout, "everturn worker "+version.String())
		return err
	}
	return workerprocess.Run(ctx, workerprocess.Options{ConfigPath: *path, Overrides: overrides, Environ: environ, Slow: *slow,
		Healthcheck: *check, Log: stderr})
}
