// Command run brings up a fleet on this machine until Ctrl-C: `make fleet`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/everturn/everturn/tests/fleet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "fleet: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	o := fleet.Options{Progress: os.Stderr}
	var settings string
	flag.StringVar(&o.Dir, "dir", ".fleet", "`folder` of everything that the fleet writes")
	flag.IntVar(&o.Workers, "workers", 2, "number of workers")
	flag.IntVar(&o.Ports.Temporal, "port", 0, "Temporal's `port` (default: that of the last start, else a free one)")
	flag.IntVar(&o.Ports.UI, "ui-port", 0, "the Web UI's `port`")
	flag.IntVar(&o.Ports.Postgres, "postgres-port", 0, "Postgres's `port`")
	flag.StringVar(&settings, "settings", "", "`file` with more tables of agent.toml, without [temporal] and [journal]")
	flag.Parse()
	if flag.NArg() > 0 || o.Workers < 0 {
		flag.Usage()
		return errors.New("there are no arguments but flags, and -workers is not negative")
	}
	if settings != "" {
		text, err := os.ReadFile(settings)
		if err != nil {
			return fmt.Errorf("reading the settings: %w", err)
		}
		o.Settings = string(text)
	}
	f, err := fleet.Start(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "\nTemporal  %s\nWeb UI    %s\nworkers   %d\nlogs      %s/*.log\n\n"+
		"  %s --config %s run \"hello\"\n\npress Ctrl-C to stop\n", f.Address(), f.UIURL(), o.Workers, o.Dir, f.Starter(),
		f.Config())
	return errors.Join(f.Watch(ctx), f.Close())
}
