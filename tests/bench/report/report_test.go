package report_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/bench/report"
)

func TestQuantilesAreValuesThatWereMeasured(t *testing.T) {
	var all []time.Duration
	for i := 100; i > 0; i-- {
		all = append(all, time.Duration(i)*time.Millisecond)
	}
	assert.Equal(t, report.Spread{P50: 50, P95: 95, P99: 99, Mean: 50.5}, report.Quantiles(all))
	assert.Equal(t, report.Spread{P50: 7, P95: 7, P99: 7, Mean: 7},
		report.Quantiles([]time.Duration{7 * time.Millisecond}))
}

// sample is a run in which the cookbook took 100 ms and 50 MB, and Everturn took the given values.
func sample(p50, p95 float64, bytes int64) report.Result {
	return report.Result{Reason: "it is <b>good</b>",
		Parts: []report.Part{{Scenario: "five hops", Gated: true, Measures: []report.Measure{
			{Arm: "everturn mcp", Kind: "everturn", Lane: "mcp", Turns: 100, Latency: report.Spread{P50: p50, P95: p95},
				PeakBytes: bytes, HistoryBytes: 9000, TurnsPerSecond: 9},
			{Arm: "cookbook mcp", Kind: "cookbook", Lane: "mcp", Turns: 100, Latency: report.Spread{P50: 100, P95: 100},
				PeakBytes: 50 << 20, HistoryBytes: 19000, TurnsPerSecond: 9},
		}}}}
}

func TestWhatIsWorseThanAcceptedIsFound(t *testing.T) {
	accepted := sample(100, 200, 60<<20)
	for name, c := range map[string]struct {
		now  report.Result
		code int
	}{
		"the same":             {sample(100, 200, 60<<20), report.ExitWithin},
		"a little worse":       {sample(106, 218, 62<<20), report.ExitWithin},
		"a slower median":      {sample(108, 200, 60<<20), report.ExitReview},
		"slower in the worst":  {sample(100, 221, 60<<20), report.ExitFail},
		"more memory":          {sample(100, 200, 64<<20), report.ExitFail},
		"better in everything": {sample(50, 100, 30<<20), report.ExitWithin},
	} {
		t.Run(name, func(t *testing.T) {
			findings := report.Gate(c.now, accepted, report.Whole)
			assert.Equal(t, c.code, report.ExitCode(findings), "%v", findings)
		})
	}
	slow := sample(150, 300, 90<<20)
	slow.Parts[0].Gated = false
	assert.Empty(t, report.Gate(slow, accepted, report.Whole), "a scenario with few turns is not judged")
	assert.Empty(t, report.Gate(sample(150, 300, 90<<20), report.Result{}, report.Whole),
		"nor one that was never accepted")
}

// A short run on a busy machine is judged by CPU and memory, and by a median that is much worse.
func TestABriefRunIsJudgedWithWideBounds(t *testing.T) {
	with := func(p50 float64, bytes int64, cpu float64) report.Result {
		r := sample(p50, 900, bytes)
		r.Parts[0].Measures[0].WorkerCPU, r.Parts[0].Measures[1].WorkerCPU = cpu, 10
		return r
	}
	accepted := with(100, 60<<20, 10)
	for name, c := range map[string]struct {
		now    report.Result
		failed []string
	}{
		"noise":       {with(140, 70<<20, 11.5), nil},
		"turns wait":  {with(160, 60<<20, 10), []string{"p50"}},
		"more memory": {with(100, 75<<20, 10), []string{"peak memory"}},
		"more CPU":    {with(100, 60<<20, 12.5), []string{"CPU of worker and server"}},
	} {
		t.Run(name, func(t *testing.T) {
			var failed []string
			for _, f := range report.Gate(c.now, accepted, report.Brief) {
				failed = append(failed, f.Measure)
			}
			assert.Equal(t, c.failed, failed)
		})
	}
}

func TestAFindingCountsWhenItIsFoundTwice(t *testing.T) {
	accepted := sample(100, 200, 60<<20)
	slow := report.Gate(sample(150, 200, 60<<20), accepted, report.Whole)
	require.Len(t, slow, 1)
	assert.Equal(t, slow, report.Confirmed(slow, slow))
	assert.Empty(t, report.Confirmed(slow, report.Gate(sample(100, 200, 60<<20), accepted, report.Whole)))
	other := slices.Clone(slow)
	other[0].Arm = "everturn local"
	assert.Empty(t, report.Confirmed(slow, other), "another arm's trouble confirms nothing")
	assert.Empty(t, report.Confirmed(slow, report.Gate(sample(100, 300, 60<<20), accepted, report.Whole)),
		"nor does another figure's")
}

func TestAnArmThatWaitsForTheDiskIsNotGated(t *testing.T) {
	slow, accepted := sample(150, 300, 90<<20), sample(100, 200, 60<<20)
	slow.Parts[0].Measures[0].Unsynced = true
	assert.Empty(t, report.Gate(slow, accepted, report.Whole))
}

func TestOneComparisonJudgesAnArm(t *testing.T) {
	r := sample(80, 90, 60<<20)
	for _, arm := range []string{"cookbook mcp tuned", "floor mcp"} {
		r.Parts[0].Measures = append(r.Parts[0].Measures, report.Measure{Arm: arm, Latency: report.Spread{P50: 40}})
	}
	var judged []string
	for _, q := range r.Ratios() {
		if q.Judged {
			judged = append(judged, q.To)
		}
	}
	assert.Equal(t, []string{"cookbook mcp"}, judged)
	assert.Len(t, r.Ratios(), 3)
}

func TestATurnThatFailsFailsTheRun(t *testing.T) {
	r := sample(100, 200, 60<<20)
	assert.Empty(t, r.Failures())
	r.Parts[0].Measures[0].Errors, r.Parts[0].Measures[0].FirstError = 1, "no answer"
	require.Len(t, r.Failures(), 1)
	assert.Contains(t, r.Failures()[0].What, "no answer")
	assert.Equal(t, report.ExitFail, report.ExitCode(r.Failures()))
}

func TestARunIsPutBetweenTheMarks(t *testing.T) {
	page := []byte("before\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nafter\n")
	out, err := report.Insert(page, sample(80, 90, 60<<20), report.Page)
	require.NoError(t, err)
	assert.Contains(t, string(out), "| five hops over MCP: p50 against the cookbook | 0.8× | ≤ 0.95× | met |")
	assert.NotContains(t, string(out), "\nold\n")
	again, err := report.Insert(out, sample(80, 90, 60<<20), report.Page)
	require.NoError(t, err)
	assert.Equal(t, string(out), string(again))
	_, err = report.Insert([]byte("no marks"), report.Result{}, report.Page)
	assert.ErrorContains(t, err, "bench:begin")
}

func TestTheSummaryComparesTheArms(t *testing.T) {
	var b bytes.Buffer
	report.Summary(&b, sample(80, 90, 60<<20))
	assert.Contains(t, b.String(), "| five calls over MCP | 80 ms | 100 ms | 9 KB instead of 19 |")
	assert.NotContains(t, b.String(), "20 MB", "what was not measured is left out")

	r := sample(80, 90, 60<<20)
	r.Parts = append(r.Parts, report.Part{Scenario: "one hop on 20 MB", Measures: []report.Measure{
		{Arm: "everturn local", Latency: report.Spread{P50: 46}, HistoryBytes: 9 << 10},
		{Arm: "cookbook local", Doom: "larger than max"},
	}})
	b.Reset()
	report.Summary(&b, r)
	assert.Contains(t, b.String(), "| one call, 20 MB of conversation | 46 ms | cannot do it | 9 KB |")
}
