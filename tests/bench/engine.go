package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/pprof"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
)

// engineRole runs the worker command with a profiler. Its arguments are the configuration and the profiles' path
// without its suffix.
func engineRole(ctx context.Context, args []string) (err error) {
	loaded, err := config.Load(config.LoadOptions{Path: args[0], Environ: os.Environ()})
	if err != nil {
		return err
	}
	e, err := engine.New(ctx, loaded.Config, engine.WithEnviron(os.Environ()),
		engine.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	if err != nil {
		return err
	}
	cpu, err := os.Create(args[1] + ".cpu.prof")
	if err != nil {
		return errors.Join(err, e.Close())
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return errors.Join(err, cpu.Close(), e.Close())
	}
	err = e.Run(ctx)
	pprof.StopCPUProfile()
	return errors.Join(err, cpu.Close(), allocations(args[1]), e.Close())
}

func allocations(path string) error {
	f, err := os.Create(path + ".alloc.prof")
	if err != nil {
		return err
	}
	if err := pprof.Lookup("allocs").WriteTo(f, 0); err != nil {
		return errors.Join(fmt.Errorf("writing the profile: %w", err), f.Close())
	}
	return f.Close()
}
