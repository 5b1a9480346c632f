package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/everturn/everturn/tests/bench/report"
	"github.com/everturn/everturn/tests/temporaltest"
)

func main() {
	temporaltest.Supervise()
	if len(os.Args) > 1 {
		if role, ok := roles[os.Args[1]]; ok {
			os.Exit(play(role, os.Args[2:]))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code, err := parse(os.Args[1:], os.Stdout, os.Stderr).run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		code = report.ExitFail
	}
	os.Exit(code)
}

// program is one run of the benchmark.
type program struct {
	smoke    bool
	gate     bool
	only     string
	profile  string
	out      string // folder for result.json
	baseline string
	docs     string
	readme   string
	rest     []string // arguments that are not flags
	last     bool     // accept the last run instead of starting one
	fleet    bool     // on the services of make fleet instead of the development server, with the scenarios of a fleet
	people   bool     // run the scenarios with waiting users instead
	waiting  int      // number of waiting turns in those scenarios
	write    bool     // write the tables of that run into the documentation
	accept   string   // the reason for accepting this run as the baseline; empty: do not accept it
	compared string   // describes what the run was compared with

	stdout, stderr io.Writer
}

func parse(args []string, stdout, stderr io.Writer) *program {
	p := &program{stdout: stdout, stderr: stderr}
	f := flag.NewFlagSet("bench", flag.ExitOnError)
	f.BoolVar(&p.smoke, "smoke", false,
		"a few turns of each kind: does everything work, are the counts right; times decide nothing")
	f.BoolVar(&p.gate, "gate", false,
		"about a minute: the ratios of a few turns, measured up to three times, with wide bounds; for CI")
	f.StringVar(&p.only, "only", "", "run the scenario of this `name`, or those whose names contain it")
	f.StringVar(&p.profile, "profile", "",
		"`folder` for CPU and allocation profiles of Everturn's workers, which then run inside this program")
	f.StringVar(&p.out, "out", filepath.Join(".everturn", "bench"), "`folder` for result.json")
	f.StringVar(&p.baseline, "baseline", filepath.Join("tests", "bench", "baseline.json"), "the accepted run, a `file`")
	f.StringVar(&p.docs, "docs", "docs", "`folder` of benchmarks.md, which an accepted run renews")
	f.StringVar(&p.readme, "readme", "README.md", "the `file` whose table an accepted run renews")
	f.StringVar(&p.accept, "accept", "", "make this whole run the baseline, for this `reason`")
	f.BoolVar(&p.fleet, "fleet", false,
		"instead: several workers with one journal in Postgres, on the services of make fleet; with -people: its streams "+
			"and waiting turns")
	f.BoolVar(&p.people, "people", false,
		"instead: turns that wait for people, and people who wait for turns; some ten minutes")
	f.IntVar(&p.waiting, "waiting", 10_000, "with -people: how many `turns` wait")
	f.BoolVar(&p.write, "write", false, "with -people: put the tables into the documentation")
	f.BoolVar(&p.last, "last", false, "with -accept: accept the last run instead of making another")
	_ = f.Parse(args) // ExitOnError
	p.rest = f.Args()
	return p
}

// check rejects contradictory flags before the benchmark spends ten minutes on them.
func (p *program) check() error {
	if len(p.rest) > 0 {
		return fmt.Errorf("%q is no flag: -only takes the name of a scenario, -h lists the flags", p.rest[0])
	}
	if p.people && (p.accept != "" || p.profile != "" || p.waiting < 2) {
		return errors.New("-people goes with -smoke, -only, -write and -waiting, of 2 at least")
	}
	if p.write && (!p.people || p.smoke || p.fleet) {
		return errors.New("-write goes with -people, and not with -smoke or -fleet")
	}
	if p.fleet && (p.smoke || p.gate || p.profile != "" || p.accept != "") {
		return errors.New("-fleet goes with -only, -people and -waiting")
	}
	if len(p.chosen()) == 0 && !p.people {
		var names []string
		for _, sc := range p.scenarios() {
			names = append(names, sc.name)
		}
		return fmt.Errorf("there is no scenario %q to run; there are: %s", p.only, strings.Join(names, "; "))
	}
	if p.accept != "" && (p.smoke || p.gate || p.only != "" || p.profile != "") {
		return errors.New("only a whole run can be accepted: leave -smoke, -gate, -only and -profile out")
	}
	if p.gate && (p.smoke || p.people || p.profile != "") {
		return errors.New("-gate goes with -only, and not with -smoke, -people or -profile")
	}
	if strings.HasPrefix(p.accept, "-") {
		return fmt.Errorf("%q is no reason: -accept wants one in words", p.accept)
	}
	if p.last && p.accept == "" {
		return errors.New("-last wants -accept with a reason")
	}
	return nil
}

// run measures, reports and judges. It returns the exit code.
func (p *program) run(ctx context.Context) (code int, err error) {
	if err := p.check(); err != nil {
		return 0, err
	}
	if p.last {
		return p.acceptLast()
	}
	r, err := newHarness(ctx, ".", p.fleet, p.stderr)
	if err != nil {
		return 0, err
	}
	defer func() { err = join(err, r.close()) }()
	if p.profile != "" {
		if r.profile, err = filepath.Abs(p.profile); err == nil {
			err = os.MkdirAll(r.profile, 0o755)
		}
		if err != nil {
			return 0, err
		}
	}
	if p.people {
		return report.ExitWithin, p.withPeople(ctx, r)
	}
	result, err := p.measure(ctx, r)
	if err == nil && p.smoke && p.only == "" {
		err = p.withPeople(ctx, r)
	}
	if err != nil {
		return 0, err
	}
	if err := writeJSON(p.file(), result); err != nil {
		return 0, err
	}
	findings, err := p.judge(ctx, r, result)
	if err != nil {
		return 0, err
	}
	return p.conclude(result, findings)
}

// file returns the path of a run's result.
func (p *program) file() string {
	if p.fleet {
		return filepath.Join(p.out, "fleet.json")
	}
	return filepath.Join(p.out, "result.json")
}

func (p *program) measure(ctx context.Context, r *harness) (report.Result, error) {
	result := report.Result{Machine: report.ThisMachine(), Smoke: p.smoke, Gate: p.gate, Reason: p.accept}
	for _, sc := range p.chosen() {
		part, err := r.run(ctx, sc)
		if err != nil {
			return result, err
		}
		result.Parts = append(result.Parts, part)
	}
	return result, report.Table(p.stdout, result)
}

// acceptLast accepts the previous run, which the developer has reviewed.
func (p *program) acceptLast() (int, error) {
	result, err := readJSON(p.file())
	if os.IsNotExist(err) {
		return 0, errors.New("there is no last run: make one with make bench")
	}
	if err != nil {
		return 0, err
	}
	if result.Smoke || result.Gate || len(result.Parts) != len(scenarios()) {
		return 0, errors.New("the last run was not a whole one: make bench makes one")
	}
	result.Reason = p.accept
	p.compared = "the run of " + result.Machine.String()
	return p.conclude(result, append(result.Failures(), counts(result, scenarios())...))
}

// scenarios returns the scenarios that -only chooses from.
func (p *program) scenarios() []scenario {
	if p.fleet {
		return ofAFleet()
	}
	return scenarios()
}

// chosen returns the scenarios of this run.
func (p *program) chosen() []scenario {
	var out []scenario
	for _, sc := range p.scenarios() {
		if !p.wanted(sc.name) || p.smoke && !sc.smoke || p.gate && !sc.gated {
			continue
		}
		switch {
		case p.smoke:
			sc = sc.small()
		case p.gate:
			sc = sc.brief()
		}
		out = append(out, sc)
	}
	return out
}

// judge compares the run with the baseline. It measures a regression again, and reports it only if it is there each
// time.
func (p *program) judge(ctx context.Context, r *harness, result report.Result) ([]report.Finding, error) {
	findings := append(result.Failures(), counts(result, p.chosen())...)
	if p.smoke || p.accept != "" || p.profile != "" || p.fleet {
		p.compared = "nothing was compared with an accepted run"
		return findings, nil
	}
	accepted, err := readJSON(p.baseline)
	if os.IsNotExist(err) {
		p.compared = "nothing was compared: there is no " + p.baseline + " yet; make bench-accept REASON=… makes one"
		return findings, nil
	}
	if err != nil {
		return nil, err
	}
	p.compared = "compared with the accepted run of " + accepted.Machine.String()
	if accepted.Machine.CPU != result.Machine.CPU || accepted.Machine.Cores != result.Machine.Cores {
		p.compared += "\nwhich was another machine: even ratios differ a little; accept a run of your own before you judge " +
			"a change"
	}
	tries, tolerance := 2, report.Whole
	if p.gate {
		tries, tolerance = 3, report.Brief
	}
	worse := report.Gate(result, accepted, tolerance)
	for range tries - 1 {
		again, err := p.again(ctx, r, worse)
		if err != nil {
			return nil, err
		}
		findings = append(append(findings, again.Failures()...), counts(again, p.chosen())...)
		worse = report.Confirmed(worse, report.Gate(again, accepted, tolerance))
	}
	return append(findings, worse...), nil
}

// again measures the scenarios once more that were worse than accepted.
func (p *program) again(ctx context.Context, r *harness, worse []report.Finding) (result report.Result, err error) {
	for _, sc := range p.chosen() {
		if !concerned(worse, sc.name) {
			continue
		}
		fmt.Fprint(p.stderr, "once more, because it was worse: ")
		part, err := r.run(ctx, sc)
		if err != nil {
			return result, err
		}
		result.Parts = append(result.Parts, part)
	}
	return result, nil
}

// wanted reports whether a scenario is to run. -only selects the scenario of that exact name or, if there is none, all
// scenarios whose names contain the text.
func (p *program) wanted(name string) bool {
	for _, sc := range p.scenarios() {
		if sc.name == p.only {
			return name == p.only
		}
	}
	return strings.Contains(name, p.only)
}

func concerned(findings []report.Finding, scenario string) bool {
	for _, f := range findings {
		if f.Scenario == scenario {
			return true
		}
	}
	return false
}

// conclude prints the findings, and accepts the run if -accept was given.
func (p *program) conclude(result report.Result, findings []report.Finding) (int, error) {
	fmt.Fprintf(p.stdout, "\n%s\n", p.compared)
	for _, f := range findings {
		fmt.Fprintf(p.stdout, "%s: %s\n", f.Severity, f.What)
	}
	code := report.ExitCode(findings)
	switch {
	case code == report.ExitWithin && p.accept != "":
		return code, p.renew(result)
	case code == report.ExitWithin:
		fmt.Fprintln(p.stdout, "bench: passed")
	case code == report.ExitReview:
		fmt.Fprintln(p.stdout, "bench: slower than the accepted run; mend it, or accept it with make bench-accept REASON=…")
	default:
		fmt.Fprintln(p.stdout, "bench: failed")
	}
	return code, nil
}
