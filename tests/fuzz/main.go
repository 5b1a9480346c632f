package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// order holds the command's flags.
type order struct {
	span span
	jobs int
	only *regexp.Regexp
	list bool
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		os.Exit(2) // parse has printed the reason
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := o.carryOut(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz: "+err.Error())
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// parse reads a command line.
func parse(args []string, out io.Writer) (order, error) {
	o := order{span: span{d: 30 * time.Second}, jobs: 2, only: regexp.MustCompile("")}
	fs := flag.NewFlagSet("fuzz", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Func("time", "how `long` each target runs, such as 30s, or how often, such as 300x (default 30s)", o.span.set)
	fs.IntVar(&o.jobs, "jobs", o.jobs, "targets at once, each with one worker")
	fs.Func("only", "only targets that match this `pattern`, as package.Target", func(s string) (err error) {
		o.only, err = regexp.Compile(s)
		return err
	})
	fs.BoolVar(&o.list, "list", false, "list the targets")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 || o.jobs < 1 {
		err := errors.New("fuzz: -jobs is at least 1, and there are no arguments")
		fmt.Fprintln(out, err)
		return o, err
	}
	return o, nil
}

// span is how long a target runs: for a time, or for a number of executions.
type span struct {
	d     time.Duration
	count int
}

func (s *span) set(text string) error {
	*s = span{}
	var err error
	if n, isCount := strings.CutSuffix(text, "x"); isCount {
		s.count, err = strconv.Atoi(n)
	} else {
		s.d, err = time.ParseDuration(text)
	}
	if err != nil || s.count < 0 || s.d < 0 || s.count == 0 && s.d == 0 {
		return errors.New("write a time such as 30s, or a number of executions such as 300x")
	}
	return nil
}

// String returns the span in the format of go's fuzzer.
func (s span) String() string {
	if s.count > 0 {
		return strconv.Itoa(s.count) + "x"
	}
	return s.d.String()
}

// carryOut runs the command and reports whether nothing was found.
func (o order) carryOut(ctx context.Context, out io.Writer) (bool, error) {
	targets, err := find(ctx, o.only)
	if err != nil {
		return false, err
	}
	if len(targets) == 0 {
		return false, errors.New("no target matches: -list shows all of them")
	}
	if o.list {
		for _, t := range targets {
			fmt.Fprintf(out, "%s.%s\n", t.short(), t.name)
		}
		return true, nil
	}
	bin, err := os.MkdirTemp("", "everturn-fuzz-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(bin)
	began := time.Now()
	binaries := o.buildAll(ctx, out, bin, targets)
	compiled := time.Since(began)
	fmt.Fprintf(out, "%d targets of %d packages compiled in %s; each runs for %s, %d at once\n\n", len(targets),
		len(binaries), compiled.Round(100*time.Millisecond), o.span, o.jobs)
	results := o.runAll(ctx, out, binaries, targets)
	ok := report(out, results)
	fmt.Fprintf(out, "\ncompiled in %s, fuzzed for %s\n", compiled.Round(time.Second),
		(time.Since(began) - compiled).Round(time.Second))
	return ok && ctx.Err() == nil, context.Cause(ctx)
}
