package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/everturn/everturn/tests/bench/report"
)

func main() {
	if len(os.Args) > 1 {
		if role, ok := roles[os.Args[1]]; ok {
			os.Exit(play(role, os.Args[2:]))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	f := flag.NewFlagSet("bench", flag.ExitOnError)
	only := f.String("only", "", "run the scenarios whose name contains this `text`")
	profile := f.String("profile", "", "`folder` for CPU and allocation profiles of Everturn's workers, which then run inside this program")
	_ = f.Parse(args) // ExitOnError
	r, err := newRig(ctx, ".", os.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = join(err, r.close()) }()
	if *profile != "" {
		if r.profile, err = filepath.Abs(*profile); err != nil {
			return err
		}
	}
	var all []report.Measure
	for _, sc := range scenarios() {
		if !strings.Contains(sc.name, *only) {
			continue
		}
		measures, err := r.run(ctx, sc)
		if err != nil {
			return err
		}
		all = append(all, measures...)
	}
	return report.Table(os.Stdout, all)
}
