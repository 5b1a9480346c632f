package main

import "slices"

// scenario is one comparison.
type scenario struct {
	name     string
	spec     spec // the arm sets its Tool
	arms     []arm
	turns    int // per arm, without the warm-up
	block    int // turns of one arm before the next arm's block
	inFlight int
	// context is the size in bytes of the session's initial transcript. If it is set, all turns of an arm belong to one
	// session.
	context int
	// doomed are arms that cannot complete the scenario. Each gets one turn, and the report says how it failed.
	doomed []arm
	// gated scenarios are compared with the baseline: they have enough turns for it.
	gated bool
	// replayed scenarios also replay the last turn's history in a separate process.
	replayed bool
	smoke    bool // part of a smoke run
}

var (
	ourMCP, ourLocal     = arm{kind: everturn, lane: laneMCP}, arm{kind: everturn, lane: laneLocal}
	cookMCP, cookLocal   = arm{kind: cookbk, lane: laneMCP}, arm{kind: cookbk, lane: laneLocal}
	floorMCP, floorLocal = arm{kind: floorish, lane: laneMCP}, arm{kind: floorish, lane: laneLocal}

	all     = []arm{ourMCP, cookMCP, floorMCP, ourLocal, cookLocal, floorLocal}
	loaded  = []arm{ourMCP, cookMCP, ourLocal, cookLocal}
	local   = []arm{ourLocal, cookLocal, floorLocal}
	pair    = []arm{ourLocal, cookLocal}
	tuned   = []arm{{kind: cookbk, lane: laneMCP, tuned: true}, {kind: cookbk, lane: laneLocal, tuned: true}}
	variety = []arm{{kind: everturn, lane: laneMCPQuick}, {kind: everturn, lane: laneMCP, unsynced: true},
		{kind: everturn, lane: laneLocal, unsynced: true}}
	stores = []arm{{kind: everturn, lane: laneMCP, unsynced: true}, {kind: everturn, lane: laneLocal, unsynced: true},
		{kind: everturn, lane: laneLocal, postgres: true}}
)

// resultBytes is the usual size of a tool's result: a page of code.
const resultBytes = 5000

// shortResultBytes is the size of the results in turns of 100 hops and more, whose prompts grow with each of them.
const shortResultBytes = 1000

func hops(n, calls int) spec {
	s := spec{Hops: n, Calls: calls, Bytes: resultBytes}
	if n >= 100 {
		s.Bytes = shortResultBytes
	}
	return s
}

// scenarios returns the scenarios of a full run, the gated ones first.
func scenarios() []scenario {
	return slices.Concat(one(), many(), long())
}

// one returns the scenarios with one turn at a time.
func one() []scenario {
	bad := hops(1, 1)
	bad.Bad = true
	slow := hops(0, 1)
	slow.Slow = true
	return []scenario{
		{name: "answer", spec: hops(0, 1), arms: local, turns: 150, block: 15, inFlight: 1, gated: true, smoke: true},
		{name: "one hop", spec: hops(1, 1), arms: slices.Concat(all, tuned), turns: 120, block: 10, inFlight: 1, gated: true,
			smoke: true},
		{name: "five hops", spec: hops(5, 1), arms: slices.Concat(all, tuned, variety), turns: 100, block: 5, inFlight: 1,
			gated: true, smoke: true, replayed: true},
		{name: "six parallel calls", spec: hops(1, 6), arms: all, turns: 40, block: 5, inFlight: 1, smoke: true},
		{name: "malformed answer", spec: bad, arms: []arm{ourLocal, floorLocal}, turns: 40, block: 10, inFlight: 1,
			gated: true, smoke: true},
		{name: "streamed answer", spec: slow, arms: pair, turns: 16, block: 4, inFlight: 1, smoke: true},
	}
}

// many returns the scenarios with many turns in parallel.
func many() []scenario {
	return []scenario{
		{name: "one hop, 32 in flight", spec: hops(1, 1), arms: loaded, turns: 512, block: 64, inFlight: 32},
		{name: "five hops, 32 in flight", spec: hops(5, 1), arms: slices.Concat(loaded, stores), turns: 320, block: 40,
			inFlight: 32},
		{name: "one hop, 256 in flight", spec: hops(1, 1), arms: pair, turns: 512, block: 256, inFlight: 256},
	}
}

// ofAFleet returns the scenarios of -fleet: one, two and four workers of Everturn with one journal, beside one worker
// with SQLite and the cookbook's.
func ofAFleet() []scenario {
	sc := scenario{name: "a fleet: five hops, 32 in flight", spec: hops(5, 1), turns: 160, block: 40, inFlight: 32}
	for _, l := range []lane{laneMCP, laneLocal} {
		sc.arms = append(sc.arms, arm{kind: cookbk, lane: l}, arm{kind: everturn, lane: l})
		for _, workers := range []int{1, 2, 4} {
			sc.arms = append(sc.arms, arm{kind: everturn, lane: l, postgres: true, workers: workers})
		}
	}
	return []scenario{sc}
}

// long returns the scenarios with long turns and long transcripts.
func long() []scenario {
	return []scenario{
		{name: "20 hops", spec: hops(20, 1), arms: all, turns: 9, block: 3, inFlight: 1},
		{name: "100 hops on 0.8 MB", spec: hops(100, 1), arms: []arm{ourLocal, ourMCP, cookLocal}, doomed: []arm{cookLocal},
			turns: 3, block: 1, inFlight: 1, context: 800 << 10, replayed: true},
		{name: "1000 hops", spec: hops(1000, 1), arms: []arm{ourLocal}, turns: 1, block: 1, inFlight: 1},
		{name: "one hop on 0.4 MB", spec: hops(1, 1), arms: pair, turns: 20, block: 5, inFlight: 1, context: 400 << 10},
		{name: "one hop on 0.8 MB", spec: hops(1, 1), arms: pair, turns: 20, block: 5, inFlight: 1, context: 800 << 10},
		{name: "one hop on 2 MB", spec: hops(1, 1), arms: pair, doomed: []arm{cookLocal}, turns: 20, block: 5, inFlight: 1,
			context: 2 << 20},
		{name: "one hop on 20 MB", spec: hops(1, 1), arms: pair, doomed: []arm{cookLocal}, turns: 20, block: 5, inFlight: 1,
			context: 20 << 20},
		{name: "one hop on 2,000 messages", spec: hops(1, 1), arms: []arm{ourLocal, {kind: everturn, lane: laneLocal,
			compaction: true}}, turns: 20, block: 5, inFlight: 1, context: 2000 * toldBytes},
	}
}

// small returns the scenario for a smoke run, which shows that everything works, not how fast.
func (sc scenario) small() scenario {
	sc.turns, sc.block, sc.gated = 1, 1, false
	sc.arms = slices.DeleteFunc(slices.Clone(sc.arms), func(a arm) bool { return a.unsynced })
	return sc
}

// brief returns the scenario for CI: enough turns for a ratio that holds still, in a few seconds.
func (sc scenario) brief() scenario {
	sc.turns, sc.block, sc.replayed = 30, 5, false
	if slices.ContainsFunc(sc.arms, func(a arm) bool { return a.kind == cookbk }) { // else the floor decides
		sc.arms = slices.DeleteFunc(slices.Clone(sc.arms), func(a arm) bool { return !slices.Contains(loaded, a) })
	}
	return sc
}
