package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// target is a fuzz target of a package.
type target struct{ pkg, dir, name string }

func main() {
	span := flag.String("time", "30s", "how `long` each target runs, such as 30s, or how often, such as 300x")
	jobs := flag.Int("jobs", 2, "targets at once, each with one worker")
	only := flag.String("only", "", "only targets that match this `pattern`, as package.Target")
	list := flag.Bool("list", false, "list the targets")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	targets, err := find(ctx, *only)
	switch {
	case err == nil && *list:
		for _, t := range targets {
			fmt.Printf("%s.%s\n", t.pkg, t.name)
		}
	case err == nil:
		err = runAll(ctx, targets, *span, *jobs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

// declared matches the declaration of a fuzz target.
var declared = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(\w+ \*testing\.F\) \{`)

// find returns the module's fuzz targets that match.
func find(ctx context.Context, only string) ([]target, error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	const form = "{{range .TestGoFiles}}{{$.ImportPath}} {{$.Dir}}/{{.}}\n{{end}}" +
		"{{range .XTestGoFiles}}{{$.ImportPath}} {{$.Dir}}/{{.}}\n{{end}}"
	out, err := exec.CommandContext(ctx, "go", "list", "-f", form, "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages: %w", err)
	}
	var all []target
	for line := range strings.Lines(string(out)) {
		pkg, file, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
			if pattern.MatchString(pkg + "." + m[1]) {
				all = append(all, target{pkg, filepath.Dir(file), m[1]})
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no target matches: -list shows all of them")
	}
	return all, nil
}

// runAll runs the targets, that many at once.
func runAll(ctx context.Context, targets []target, span string, jobs int) error {
	bin, err := os.MkdirTemp("", "everturn-fuzz-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed []string
	slots := make(chan struct{}, jobs)
	binary := binaries(ctx, bin, targets)
	for _, t := range targets {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out, err := run(ctx, t, binary[t.pkg], span)
			mu.Lock()
			defer mu.Unlock()
			result := "passed"
			if problem := judge(out, err); problem != "" {
				failed, result = append(failed, t.pkg+"."+t.name), problem+"\n"+tail(out)
			}
			fmt.Printf("%-70s %9s executions  %s\n", t.pkg+"."+t.name, executions(out), result)
		})
	}
	wg.Wait()
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d targets failed: %s", len(failed), len(targets), strings.Join(failed, ", "))
	}
	return ctx.Err()
}

// binaries builds the test program of each package once, one after the other. If one cannot be built, its targets fail.
func binaries(ctx context.Context, dir string, targets []target) map[string]string {
	built := map[string]string{}
	for _, t := range targets {
		if built[t.pkg] != "" {
			continue
		}
		built[t.pkg] = filepath.Join(dir, fmt.Sprintf("%d.test", len(built)))
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-fuzz=.", "-o", built[t.pkg], t.pkg)
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Printf("building %s: %v\n%s", t.pkg, err, out)
		}
	}
	return built
}

// run runs one target. What it learns goes into go's own cache of corpora. No process of it outlives the run.
func run(ctx context.Context, t target, program, span string) (string, error) {
	cache, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, program, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime="+span,
		"-test.fuzzminimizetime=1x", "-test.parallel=1",
		"-test.fuzzcachedir="+filepath.Join(strings.TrimSpace(string(cache)), "fuzz", filepath.FromSlash(t.pkg)))
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), "PWD="+t.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the group is gone after a normal end
	}
	return string(out), err
}

// The lines of go's fuzzer (Go 1.26, internal/fuzz/fuzz.go).
var (
	executed = regexp.MustCompile(
		`(?m)^fuzz: elapsed: \S+, (?:execs: |gathering baseline coverage: |testing seed corpus: )(\d+)`)
	fuzzLine    = regexp.MustCompile(`(?m)^fuzz: .*\n?`)
	itsDeadline = regexp.MustCompile(
		`\A--- FAIL: Fuzz\S+ \(\d+\.\d+s\)\n\s+context deadline exceeded\nFAIL\n\z`)
)

// executions returns how often a target was executed, at least with its seeds.
func executions(output string) string {
	n := "0"
	for _, m := range executed.FindAllStringSubmatch(output, -1) {
		n = m[1]
	}
	return n
}

// judge returns what is wrong with a run; nothing if it passed.
func judge(output string, err error) string {
	switch {
	case err != nil && !itsDeadline.MatchString(fuzzLine.ReplaceAllString(output, "")):
		return "FAILED: " + err.Error()
	case executions(output) == "0":
		return "NOTHING was executed, not even a seed: give it more -time, or make its setup faster"
	}
	return ""
}

// tail returns the end of a target's output, without the fuzzer's counts.
func tail(output string) string {
	s := fuzzLine.ReplaceAllString(output, "")
	return strings.ToValidUTF8(s[max(0, len(s)-4000):], "")
}
