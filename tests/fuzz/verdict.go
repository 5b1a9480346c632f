package main

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// verdict is how a target's run went.
type verdict string

// The verdicts.
const (
	passed      verdict = "passed"
	deadline    verdict = "passed *" // go's fuzzer reported its own deadline as a failure
	found       verdict = "FAILED"
	idle        verdict = "NOTHING" // it ended normally, or at its deadline, without one execution
	broken      verdict = "NOT RUN"
	interrupted verdict = "stopped"
)

// outcome is the result of one run of a target.
type outcome struct {
	target  target
	verdict verdict
	execs   int64
	elapsed time.Duration // time spent fuzzing, as the fuzzer reports it
	added   int           // inputs that the run learned
	corpus  int           // inputs in all
	input   string        // the failing input's file, relative to the package's folder
	replay  string        // the pattern that runs it alone
	said    string        // what the target printed, without the fuzzer's own counts
}

// The lines of go's fuzzer and of package testing (Go 1.26, internal/fuzz/fuzz.go and testing/fuzz.go).
var (
	progressLine = regexp.MustCompile(
		`(?m)^fuzz: elapsed: (\S+), execs: (\d+) \(\d+/sec\), new interesting: (\d+) \(total: (\d+)\)$`)
	baselineLine = regexp.MustCompile(
		`(?m)^fuzz: elapsed: (\S+), (?:gathering baseline coverage|testing seed corpus): (\d+)/(\d+) completed`)
	fuzzLine    = regexp.MustCompile(`(?m)^fuzz: .*\n?`)
	writtenLine = regexp.MustCompile(`(?m)^\s*Failing input written to (\S+)$`)
	failedInput = regexp.MustCompile(`(?m)^failure while testing seed corpus entry: (\S+)$`)
	itsDeadline = regexp.MustCompile(
		`\A--- FAIL: (Fuzz\S+) \((\d+\.\d+)s\)\n\s+context deadline exceeded\nFAIL\n(?:exit status 1\n)?(?:FAIL\t.*\n)?\z`)
)

// nothingRun is printed for a target that was never executed: its time went into the work before that.
const nothingRun = "nothing was executed, not even a seed: give it more -time, or make its setup and its first seed " +
	"faster"

// judge reads the output of a target's run. good is whether its process ended normally.
func judge(t target, s span, output string, good bool) outcome {
	o := outcome{target: t, verdict: passed, said: strings.TrimSpace(fuzzLine.ReplaceAllString(output, ""))}
	o.count(output)
	if ranOut := s.ranOut(t, fuzzLine.ReplaceAllString(output, "")); good || ranOut {
		switch {
		case o.execs == 0:
			o.verdict, o.said = idle, nothingRun
		case ranOut:
			o.verdict = deadline
		}
		return o
	}
	o.verdict = found
	if m := writtenLine.FindStringSubmatch(output); m != nil {
		o.input = m[1]
		o.replay = t.name + "/" + m[1][strings.LastIndexByte(m[1], '/')+1:]
	} else if m := failedInput.FindStringSubmatch(output); m != nil {
		o.replay = m[1] // a seed, or a kept file
	}
	return o
}

// count takes the numbers of the last line that has them. A short run has only those of the seeds.
func (o *outcome) count(output string) {
	all := progressLine.FindAllStringSubmatch(output, -1)
	if len(all) == 0 {
		if seeds := baselineLine.FindAllStringSubmatch(output, -1); len(seeds) > 0 {
			m := seeds[len(seeds)-1]
			o.elapsed, _ = time.ParseDuration(m[1])
			o.execs, _ = strconv.ParseInt(m[2], 10, 64)
			o.corpus, _ = strconv.Atoi(m[3])
		}
		return
	}
	m := all[len(all)-1]
	o.elapsed, _ = time.ParseDuration(m[1]) // the pattern has only numbers
	o.execs, _ = strconv.ParseInt(m[2], 10, 64)
	o.added, _ = strconv.Atoi(m[3])
	o.corpus, _ = strconv.Atoi(m[4])
}

// ranOut reports whether the only failure is that the fuzzer's time was up: nothing else was printed, no input was
// written, and the run was as long as requested.
func (s span) ranOut(t target, said string) bool {
	m := itsDeadline.FindStringSubmatch(said)
	if m == nil || m[1] != t.name || s.d == 0 {
		return false
	}
	took, err := strconv.ParseFloat(m[2], 64)
	return err == nil && took >= s.d.Seconds()
}
