package report

import "fmt"

// Aim is the bound that a figure should meet.
type Aim struct {
	What  string
	Most  float64 // 0 if the aim is a lower bound
	Least float64
	Unit  string
	Why   string // what the figure consists of
	// of returns the figure; ok is false if the run does not have it.
	of func(Result) (float64, bool)
}

// Aims returns the project's aims, for two cores.
func Aims() []Aim {
	p50 := func(r Ratio) float64 { return r.P50 }
	speed := func(r Ratio) float64 { return r.TurnsPerSecond }
	const five, many, manyFive = "five hops", "one hop, 32 in flight", "five hops, 32 in flight"
	return []Aim{
		{What: "answer without tools: p50 against the cookbook", Most: 1.1,
			Why: "the same single activity, with four commits of the journal around it", of: of("answer", "everturn local", p50)},
		{What: "five hops over MCP: p50 against the cookbook", Most: 0.95,
			Why: "both have the same activities and workflow tasks; ours has 24 commits of the journal, each of which waits for the " +
				"disk, and three events more. It saves the transcript in the history, and compression on loopback",
			of: of(five, "everturn mcp", p50)},
		{What: "five hops over MCP, unsynced: p50 against the cookbook", Most: 0.95,
			Why: "the same without the waits for the disk", of: of(five, "everturn mcp unsynced", p50)},
		{What: "five hops, local lane: p50 against the cookbook", Most: 0.75,
			Why: "a quick call is one event inside the workflow task instead of six around it",
			of:  of(five, "everturn local", p50)},
		{What: "five hops over MCP, 32 in flight: turns/s against the cookbook", Least: 1.1,
			Why: "both cores are full, of the server above all; commits that wait for the disk share it",
			of:  of(manyFive, "everturn mcp", speed)},
		{What: "five hops, local lane, 32 in flight: turns/s against the cookbook", Least: 1.5,
			Why: "both cores are full, and a quick call is one event to the server instead of six",
			of:  of(manyFive, "everturn local", speed)},
		{What: "five hops, local lane, 32 in flight: turns/s on Postgres against SQLite", Least: 0.8,
			Why: "Postgres runs beside the worker on the same two cores, and each statement is a round trip",
			of:  between(manyFive, "everturn local postgres", "everturn local")},
		{What: "one hop over MCP, 32 in flight: turns/s against the cookbook", Least: 0.95,
			Why: "Begin, Finish and the search attributes weigh more on a short turn", of: of(many, "everturn mcp", speed)},
		{What: "one hop, local lane, 32 in flight: turns/s against the cookbook", Least: 1.1,
			Why: "one call less for the server, against Begin, Finish and the search attributes",
			of:  of(many, "everturn local", speed)},
		{What: "one hop over MCP: CPU of the worker a turn", Most: 10, Unit: "ms",
			Why: "most of it is the Temporal SDK and gRPC; the journal's commits and the provider's stream are what the " +
				"cookbook does not have", of: measured("one hop", "everturn mcp", func(m Measure) float64 { return m.WorkerCPU })},
		{What: "one hop, local lane: CPU of the worker a turn", Most: 10, Unit: "ms",
			Why: "the same without an activity for the call",
			of:  measured("one hop", "everturn local", func(m Measure) float64 { return m.WorkerCPU })},
		{What: "32 in flight: peak memory of the worker", Most: 80, Unit: "MB",
			Why: "the most of all arms; more than half of it is the program itself, and SQLite keeps its statements prepared",
			of:  peak(many, manyFive)},
		{What: "100 hops on 0.8 MB: peak memory of the worker", Most: 120, Unit: "MB",
			Why: "the worker holds one prompt, and renders it again for each step", of: peak("100 hops on 0.8 MB")},
		{What: "100 hops on 0.8 MB: time to replay", Most: 60, Unit: "ms",
			Why: "the history holds references, not texts", of: replayed(func(r Replay) float64 { return r.Milliseconds })},
		{What: "100 hops on 0.8 MB: memory of a process that replays it", Most: 60, Unit: "MB",
			Why: "most of it is the process itself", of: replayed(func(r Replay) float64 { return mb(r.PeakBytes) })},
		{What: "100 hops on 0.8 MB: workflow code a step", Most: 1, Unit: "ms",
			Why: "replay time over steps, decoding included", of: replayed(func(r Replay) float64 { return r.PerStep })},
	}
}

func of(scenario, arm string, value func(Ratio) float64) func(Result) (float64, bool) {
	return func(r Result) (float64, bool) {
		q, ok := r.ratio(scenario, arm)
		return value(q), ok
	}
}

func measured(scenario, arm string, value func(Measure) float64) func(Result) (float64, bool) {
	return func(r Result) (float64, bool) {
		m, ok := r.Part(scenario).Arm(arm)
		return value(m), ok
	}
}

// between returns the turns/s of one arm over those of another.
func between(scenario, arm, to string) func(Result) (float64, bool) {
	return func(r Result) (float64, bool) {
		a, ok := r.Part(scenario).Arm(arm)
		b, both := r.Part(scenario).Arm(to)
		return over(a.TurnsPerSecond, b.TurnsPerSecond), ok && both
	}
}

// peak returns the largest memory of an Everturn worker in any of the scenarios, in MB.
func peak(scenarios ...string) func(Result) (float64, bool) {
	return func(r Result) (most float64, ok bool) {
		for _, s := range scenarios {
			for _, m := range r.Part(s).Measures {
				if m.Kind == "everturn" {
					most, ok = max(most, mb(m.PeakBytes)), true
				}
			}
		}
		return most, ok
	}
}

// replayed returns the worst replay of a long turn.
func replayed(value func(Replay) float64) func(Result) (float64, bool) {
	return func(r Result) (float64, bool) {
		worst := 0.0
		replays := r.Part("100 hops on 0.8 MB").Replays
		for _, one := range replays {
			worst = max(worst, value(one))
		}
		return worst, len(replays) > 0
	}
}

func mb(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// Judge compares the run with the aim. It returns the figure, the aim and the verdict as text.
func (a Aim) Judge(r Result) (measured, aim, verdict string) {
	unit := "×"
	if a.Unit != "" {
		unit = " " + a.Unit
	}
	aim, met := fmt.Sprintf("≤ %g%s", a.Most, unit), false
	value, ok := a.of(r)
	if met = value <= a.Most; a.Most == 0 {
		aim, met = fmt.Sprintf("≥ %g%s", a.Least, unit), value >= a.Least
	}
	switch {
	case !ok:
		return "not measured", aim, "–"
	case met:
		verdict = "met"
	default:
		verdict = "missed"
	}
	return fmt.Sprintf("%.3g%s", value, unit), aim, verdict
}
