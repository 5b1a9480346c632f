package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/servers/npm"
)

var update = flag.Bool("update", false, "write the table of the suite's scenarios into docs/mcp.md")

// suiteBound is how long the whole suite may take. Its scenarios run at the same time, each for at most 30 s.
const suiteBound = 2 * time.Minute

// timedTries is how often the scenario that measures time is tried: an incorrect client fails every time.
const timedTries = 4

// TestMain makes the test binary the client under test when the suite runs it.
func TestMain(m *testing.M) {
	if os.Getenv(scenarioVariable) != "" {
		os.Exit(command(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// outcome is the suite's result of one scenario.
type outcome struct {
	passed   int
	problems []string // failed checks and warnings
	client   string   // why the client gave up; empty if it did not
}

func (o outcome) met() bool { return o.passed > 0 && len(o.problems) == 0 }

func (o outcome) String() string {
	return fmt.Sprintf("%d checks passed; %s\n%s", o.passed, strings.Join(o.problems, "; "), o.client)
}

// TestTheSuites runs every scenario. The core scenarios must be met, each with at least one check: a client that does
// nothing passes some of them without any. The table has a reason for each scenario that is not met, and for no other.
func TestTheSuites(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the conformance suite is skipped")
	}
	for _, s := range suites {
		t.Run(s.version, func(t *testing.T) {
			require.Equal(t, s.version, npm.Need(t).Version(t, s.pkg), "the table is for another version")
			outcomes := s.run(t, "--suite", "all")
			for range timedTries {
				timed := outcomes[timedScenario]
				if timed.met() {
					break
				}
				t.Logf("%s is about milliseconds, and something else was running. Once more, alone: it was %s", timedScenario,
					timed)
				outcomes[timedScenario] = s.run(t, "--scenario", timedScenario)[timedScenario]
			}
			s.hold(t, outcomes)
		})
	}
}

// hold compares the suite's results with the table.
func (s suite) hold(t *testing.T, outcomes map[string]outcome) {
	t.Helper()
	checks := 0
	for _, sc := range s.scenarios {
		o, ran := outcomes[sc.name]
		delete(outcomes, sc.name)
		checks += o.passed
		switch {
		case !assert.True(t, ran, "%s is not in the suite any more: take it out of the table", sc.name):
		case sc.unmet == "":
			assert.True(t, o.met(), "%s: %s", sc.name, o)
			assert.Equal(t, sc.givesUp, o.client != "", "%s: the client said: %s", sc.name, o.client)
		default:
			assert.NotEqual(t, core, sc.part, "%s: the core has to be met", sc.name)
			assert.False(t, o.met(), "%s is met: take its reason out of the table", sc.name)
		}
	}
	assert.Empty(t, outcomes, "new scenarios: put them into the table")
	t.Logf("%d scenarios, %d checks passed", len(s.scenarios), checks)
}

// TestTheTableInTheDocs compares docs/mcp.md with the table that TestTheSuites checks.
func TestTheTableInTheDocs(t *testing.T) {
	const page = "../../docs/mcp.md"
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(b), "<!-- conformance: begin -->\n")
	require.True(t, found, "%s has no place for the table", page)
	_, tail, found := strings.Cut(rest, "<!-- conformance: end -->")
	require.True(t, found, "%s has no end of the table", page)
	want := head + "<!-- conformance: begin -->\n" + table() + "<!-- conformance: end -->" + tail
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(b), "write it with: go test ./tests/conformance -update")
}

// run runs scenarios of the suite against this test binary and reads the results that the suite wrote.
func (s suite) run(t *testing.T, which ...string) map[string]outcome {
	t.Helper()
	tree := npm.Need(t)
	self, err := os.Executable()
	require.NoError(t, err)
	require.NotContains(t, self, " ", "the suite takes the command apart at its spaces")
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), suiteBound)
	defer cancel()
	args := append([]string{tree.Bin(t, s.pkg), "client", "--command", self, "-o", dir}, which...)
	cmd := exec.CommandContext(ctx, tree.Node, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError // it exits with 1 if anything failed, which is looked up below
	if err != nil {
		require.ErrorAs(t, err, &exit, "%s", out)
	}
	outcomes := read(t, dir)
	require.NotEmpty(t, outcomes, "the suite wrote nothing down:\n%s", out)
	return outcomes
}

// stamp matches the suffix that the suite adds to the name of a scenario.
var stamp = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// read collects the checks of every scenario, each in a folder of its own.
func read(t *testing.T, dir string) map[string]outcome {
	t.Helper()
	outcomes := map[string]outcome{}
	require.NoError(t, filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "checks.json" {
			return err
		}
		name, err := filepath.Rel(dir, filepath.Dir(file))
		if err != nil {
			return err
		}
		outcomes[stamp.ReplaceAllString(filepath.ToSlash(name), "")] = judge(t, file)
		return nil
	}))
	return outcomes
}

func judge(t *testing.T, file string) outcome {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var checks []struct{ ID, Status, Description, ErrorMessage string }
	require.NoError(t, json.Unmarshal(b, &checks), "%s", file)
	var o outcome
	for _, c := range checks {
		switch c.Status {
		case "SUCCESS":
			o.passed++
		case "FAILURE", "WARNING":
			o.problems = append(o.problems, fmt.Sprintf("%s %s: %s %s", c.Status, c.ID, c.Description, c.ErrorMessage))
		}
	}
	output, err := os.ReadFile(filepath.Join(filepath.Dir(file), "stderr.txt"))
	require.NoError(t, err)
	o.client = string(output)
	return o
}
