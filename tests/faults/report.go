package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// freshEvery is after how many runs of each point a new Temporal server replaces the shared one: a server with tens of
// thousands of turns in one file would affect the measurements.
const freshEvery = 5

// playAll plays every point as often as requested, some at once, and reports. It returns whether nothing failed.
func (o order) playAll(ctx context.Context, ps programs, bin, dir string, points []point) (bool, error) {
	fmt.Printf("seed %d, %d points, %d runs each, %d at once\n", o.seed, len(points), o.runs, o.parallel)
	began := time.Now()
	var all []outcome
	for from := 0; from < o.runs && ctx.Err() == nil; from += freshEvery {
		shared, err := newServer(ctx, ps.temporal, filepath.Join(bin, fmt.Sprintf("server-%d", from)))
		if err != nil {
			return false, err
		}
		for r := range o.play(ctx, ps, shared, dir, points, from, min(from+freshEvery, o.runs)) {
			all = append(all, r)
			printOutcome(r)
		}
		shared.close()
		os.RemoveAll(shared.dir)
	}
	took := time.Since(began)
	good := summarise(points, all, took)
	if ctx.Err() != nil {
		return false, ctx.Err() // an incomplete run is not documented
	}
	return good, o.figures("points-"+o.journal, func(b *bytes.Buffer) {
		provenance(b, os.Args[1:])
		pointFigures(b, all, took)
	})
}

// play plays runs from up to and without to of each point and yields the outcome of each, until all are over.
func (o order) play(ctx context.Context, ps programs, shared *server, dir string, points []point, from,
	to int) <-chan outcome {
	type job struct {
		p    point
		seed uint64
	}
	jobs := make(chan job)
	results := make(chan outcome)
	var players sync.WaitGroup
	for range max(1, o.parallel) {
		players.Go(func() {
			for j := range jobs {
				name := filepath.Join(dir, fmt.Sprintf("%s-%d", j.p.name, j.seed))
				p := pointNamed(j.p.name) // made for this run: some points keep what they chose
				results <- play(ctx, ps, shared, p, j.seed, name, o.keep)
			}
		})
	}
	go func() {
		defer close(results)
		defer players.Wait()
		defer close(jobs)
		for i := from; i < to; i++ {
			for _, p := range points {
				if ctx.Err() != nil {
					return
				}
				jobs <- job{p, o.seed + uint64(i)}
			}
		}
	}()
	return results
}

func printOutcome(o outcome) {
	if o.figures != "" {
		defer fmt.Println("      " + o.figures)
	}
	if !o.failed() {
		fmt.Printf("ok    %-20s seed %-11d %5.1fs  went on after %4.1fs\n", o.point, o.seed, o.took.Seconds(),
			o.recovery.Seconds())
		return
	}
	fmt.Printf("FAIL  %-20s seed %-11d %5.1fs  ledgers in %s\n", o.point, o.seed, o.took.Seconds(), o.dir)
	for _, v := range o.violations {
		fmt.Println("      " + v.String())
	}
	if o.err != nil {
		fmt.Println("      " + strings.ReplaceAll(o.err.Error(), "\n", "\n      "))
	}
	fmt.Printf("      again: go run -C tests/faults . -seed %d -point '^%s$'\n", o.seed, o.point)
}

// summarise prints a table of the points and returns whether every run was good.
func summarise(points []point, all []outcome, took time.Duration) bool {
	fmt.Printf("\n%-20s %5s %6s %12s %12s  %s\n", "point", "runs", "failed", "median", "longest", "what is broken there")
	failed := 0
	for _, p := range points {
		if s := statsOf(all, func(o outcome) bool { return o.point == p.name }); s.runs > 0 {
			fmt.Printf("%-20s %5d %6d %12s %12s  %s\n", p.name, s.runs, s.failed, s.seconds(s.median), s.seconds(s.longest),
				p.about)
			failed += s.failed
		}
	}
	fmt.Printf("\n%d runs in %s, %d failed\n", len(all), took.Round(time.Second), failed)
	return failed == 0
}
