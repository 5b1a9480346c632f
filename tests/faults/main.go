package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/everturn/everturn/tests/check"
)

// order holds the command's flags.
type order struct {
	seed     uint64
	runs     int
	parallel int
	only     string
	mutants  bool
	list     bool
	check    string
	dir      string
	keep     bool
	soak     time.Duration
	sessions int
	think    time.Duration
	docs     bool
	share    share
	journal  string
}

func main() {
	var o order
	flag.Uint64Var(&o.seed, "seed", 0, "`seed` of the first run of each point; 0 picks one")
	flag.IntVar(&o.runs, "runs", 1, "runs of each point")
	flag.IntVar(&o.parallel, "parallel", 8*runtime.NumCPU(), "schedules at once: most of their time is waiting")
	flag.StringVar(&o.only, "point", "", "only points, or mutants, whose name matches this `pattern`")
	flag.Var(&o.share, "share", "only a `number/n` of the points or mutants: one in n; n numbers in a row are all of them")
	flag.StringVar(&o.journal, "journal", "sqlite", "the journals' `database`: sqlite or postgres")
	flag.BoolVar(&o.mutants, "mutants", false, "break promises on purpose and show that the checker notices")
	flag.BoolVar(&o.list, "list", false, "list the points")
	flag.StringVar(&o.check, "check", "", "judge the ledgers in this `folder` and do nothing else")
	flag.StringVar(&o.dir, "dir", "", "`folder` for what failed runs leave (default: a temporary one)")
	flag.BoolVar(&o.keep, "keep", false, "keep what good runs leave, too")
	flag.DurationVar(&o.soak, "soak", 0,
		"instead of points, many sessions for this `time`, with one fault after the other")
	flag.IntVar(&o.sessions, "sessions", 100, "sessions of a soak")
	flag.DurationVar(&o.think, "think", 30*time.Second, "mean `time` between two messages of a soak's session")
	flag.DurationVar(&outageTime, "outage", outageTime, "how long the outages of the points long_* last")
	flag.IntVar(&outageTurns, "turns", outageTurns, "how many turns these outages hit; at least 2")
	flag.BoolVar(&o.docs, "docs", false, "write the figures of this run into docs/faults.md")
	flag.Parse()
	if err := o.sane(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "faults: "+err.Error())
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := o.carryOut(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults: "+err.Error())
	}
	if err != nil || !ok {
		stop()
		os.Exit(1)
	}
}

// sane refuses contradictory flags before the run spends minutes on them.
func (o order) sane(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q is no flag: -point takes a pattern, -h lists the flags", rest[0])
	case o.runs < 1 || o.parallel < 1:
		return errors.New("-runs and -parallel are at least 1")
	case o.soak > 0 && (o.mutants || o.only != ""):
		return errors.New("a soak has neither points nor mutants: leave -mutants and -point out")
	case o.docs && (o.only != "" || o.share.of != 0):
		return errors.New("-docs with -point or -share would blank the figures of everything else: leave one of them out")
	case outageTurns < 2 || outageTime < time.Second:
		return errors.New("-turns is at least 2, and -outage at least 1s")
	case o.journal != "sqlite" && o.journal != "postgres":
		return fmt.Errorf("-journal %s: use sqlite or postgres", o.journal)
	}
	if _, err := regexp.Compile(o.only); err != nil {
		return fmt.Errorf("-point: %w", err)
	}
	if o.mutants && !o.wantsMutants() && !slices.ContainsFunc(treeMutants, func(m treeMutant) bool { return o.wanted(m.name) }) {
		return fmt.Errorf("no mutant matches %q", o.only)
	}
	return nil
}

// carryOut runs the command and reports whether every promise was kept.
func (o order) carryOut(ctx context.Context) (bool, error) {
	points, err := o.points()
	if err != nil {
		return false, err
	}
	switch {
	case o.check != "":
		return judge(o.check)
	case o.list:
		o.print(points)
		return true, nil
	}
	if o.seed == 0 {
		o.seed = uint64(rand.Uint32())
	}
	if o.mutants {
		if all, err := o.huntTrees(ctx); err != nil || !all || !o.wantsMutants() {
			return all, err
		}
	}
	dir, err := o.folder()
	if err != nil {
		return false, err
	}
	defer os.Remove(dir) // it is empty only if nothing has failed
	bin, err := os.MkdirTemp("", "everturn-faults-bin-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(bin)
	ps, err := build(ctx, bin)
	if err != nil {
		return false, err
	}
	if o.journal == "postgres" {
		if ps.postgres, err = newPostgresServer(ctx); err != nil {
			return false, err
		}
		defer ps.postgres.Close()
	}
	if o.soak > 0 {
		return o.endure(ctx, ps, dir)
	}
	if o.mutants {
		return o.hunt(ctx, ps, bin, dir)
	}
	return o.playAll(ctx, ps, bin, dir, points)
}

// print lists the points and, if a seed is given, what it makes of them.
func (o order) print(points []point) {
	for _, p := range points {
		fmt.Printf("%-20s %s\n", p.name, p.about)
		if o.seed != 0 {
			fmt.Println(planned(p, o.seed))
		}
	}
}

func (o order) folder() (string, error) {
	if o.dir != "" {
		return o.dir, os.MkdirAll(o.dir, 0o700)
	}
	return os.MkdirTemp("", "everturn-faults-")
}

// wanted reports whether a name matches the pattern.
func (o order) wanted(name string) bool {
	ok, err := regexp.MatchString(o.only, name)
	return ok && err == nil
}

// wantsMutants reports whether the pattern matches a mutant that a worker plays.
func (o order) wantsMutants() bool {
	return slices.ContainsFunc(mutants, func(m mutant) bool { return o.wanted(m.name) })
}

// points returns the points whose names match.
func (o order) points() ([]point, error) {
	all := slices.DeleteFunc(allPoints(), func(p point) bool {
		elsewhere := p.onlyPostgres && o.journal != "postgres" && !o.list
		return !o.wanted(p.name) || elsewhere || p.long && o.runs == 1 && o.only == "" && !o.list
	})
	all = some(o.share, all)
	if len(all) == 0 && !o.mutants {
		return nil, fmt.Errorf("no point matches %q: -list shows them", o.only)
	}
	return all, nil
}

// build builds the commands that the schedules run.
func build(ctx context.Context, dir string) (programs, error) {
	in := func(name string) string { return filepath.Join(dir, name) }
	ps := programs{worker: in("worker"), weak: in("weak"), mutant: in("mutant"), mcpserver: in("mcpserver"),
		hostile: in("hostile")}
	err := errors.Join(
		goBuild(ctx, ps.worker, "worker"), goBuild(ctx, ps.mcpserver, "tests/mcpserver"),
		goBuild(ctx, ps.hostile, "tests/faults/hostile"),
		goBuild(ctx, ps.weak, "tests/faults/worker"), goBuild(ctx, ps.mutant, "tests/faults/worker", "-tags", "mutants"))
	if err != nil {
		return ps, err
	}
	ps.temporal, err = findServer(ctx, os.Stderr)
	return ps, err
}

// sources is the folder of this command's source, which is a module of its own.
func sources() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

func goBuild(ctx context.Context, out, pkg string, flags ...string) error {
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build", "-o", out}, flags...),
		"github.com/everturn/everturn/"+pkg)...)
	cmd.Dir = sources()
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, output)
	}
	return nil
}

// judge checks kept ledgers.
func judge(dir string) (bool, error) {
	if _, err := os.Stat(filepath.Join(dir, "ledgers")); err == nil {
		dir = filepath.Join(dir, "ledgers")
	} else if !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	if _, err := os.Stat(dir); err != nil {
		return false, fmt.Errorf("there are no ledgers to judge: %w", err)
	}
	l, err := check.Read(os.DirFS(dir))
	if err != nil {
		return false, err
	}
	if l.Run.Point == "" {
		return false, fmt.Errorf("%s holds no ledgers of a run", dir)
	}
	found := check.Check(l)
	fmt.Printf("%s, seed %d: %d requests, %d effects, %d sessions, %d histories\n", l.Run.Point, l.Run.Seed,
		len(l.Requests), len(l.Effects), len(l.Sessions), len(l.Histories))
	for _, v := range found {
		fmt.Println("  " + v.String())
	}
	return len(found) == 0, nil
}
