package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
)

// soakCache bounds the prompts that a worker of a soak keeps, in bytes: so few that the cache is full when the warm-up
// ends and does not contribute to later growth.
const soakCache = 1 << 20

// flags are the flags that only this worker has.
type flags struct {
	config, kill, hold, resume, armed, points, report, vitals, mutant string
}

func main() {
	before := runtime.NumGoroutine()
	var f flags
	flag.StringVar(&f.config, "config", "", "configuration `file`")
	flag.StringVar(&f.kill, "kill", "", "die at this `point`: METHOD:before|after:N or insert:TABLE:N")
	flag.StringVar(&f.hold, "hold", "", "wait at this `point`, written as for -kill, until the file -resume is there")
	flag.StringVar(&f.resume, "resume", "", "`file` that lets -hold go on")
	flag.StringVar(&f.armed, "armed", "", "points count once this `file` is there")
	flag.StringVar(&f.points, "points", "", "`file` to note the point in")
	flag.StringVar(&f.report, "report", "", "`file` to note the goroutines in that are left at the end")
	flag.StringVar(&f.vitals, "vitals", "", "`file` to keep up to date with this worker's goroutines and live heap")
	addMutants(&f)
	flag.Parse()
	// A full disk, simulated by a limit on the size of files, must be an error of write and not a signal.
	signal.Ignore(syscall.SIGXFSZ)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, f, os.Environ(), os.Stderr)
	stop()
	if err := errors.Join(err, reportGoroutines(f.report, before)); err != nil {
		fmt.Fprintln(os.Stderr, "faults worker: "+err.Error())
		os.Exit(1)
	}
}

// run runs the worker. It returns when ctx ends and everything is drained and closed.
func run(ctx context.Context, f flags, environ []string, stderr io.Writer) error {
	loaded, err := config.Load(config.LoadOptions{Path: f.config, Environ: environ})
	if err != nil {
		return err
	}
	if f.vitals != "" {
		loaded.Config.Tuning.CacheBytes = soakCache
	}
	k, err := newKiller(f)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	options := append([]engine.Option{
		engine.WithEnviron(environ), engine.WithLogger(log),
		engine.WithJournal(func(s engine.Journal) engine.Journal { return k.wrap(mutate(f.mutant, loaded.Config, s)) }),
	}, mutantOptions(f.mutant)...)
	e, err := engine.New(ctx, loaded.Config, options...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var vitals sync.WaitGroup
	if f.vitals != "" {
		vitals.Go(func() { reportVitals(ctx, f.vitals) })
	}
	err = errors.Join(e.Run(ctx), e.Close())
	cancel()
	vitals.Wait()
	return err
}

// settle bounds how long ending goroutines may take to disappear.
const settle = 2 * time.Second

// reportGoroutines records how many goroutines are left, as a line of the ledger of processes.
func reportGoroutines(file string, before int) error {
	if file == "" {
		return nil
	}
	after := runtime.NumGoroutine()
	for end := time.Now().Add(settle); after > before+1 && time.Now().Before(end); after = runtime.NumGoroutine() {
		time.Sleep(10 * time.Millisecond) // the end of a goroutine offers no event
	}
	line := map[string]any{"pid": os.Getpid(), "command": "worker", "goroutines_before": before, "goroutines_after": after}
	if after > before+1 {
		stacks := make([]byte, 64<<10)
		line["stacks"] = string(stacks[:runtime.Stack(stacks, true)])
	}
	return note(file, line)
}

// note appends a JSON line and syncs it, because the process may be killed next.
func note(file string, line any) error {
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(append(b, '\n'))
	return errors.Join(err, out.Sync(), out.Close())
}
