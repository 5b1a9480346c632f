package main

import "slices"

// scenario is one comparison.
type scenario struct {
	name     string
	spec     spec // its Tool is the arm's
	arms     []arm
	turns    int // each arm, warm-up left out
	block    int // turns of an arm before the next arm's
	inFlight int
	// context is how many bytes of transcript the session has before; all turns of an arm are of one session then.
	context int
	// doomed are arms that cannot do it. They get one turn, and what became of it is reported.
	doomed []arm
	// gated scenarios are held against the baseline: they have turns enough for it.
	gated bool
	// replayed: the last turn's history is replayed in a process of its own.
	replayed bool
	// streamed: it is measured when a reader sees the first word.
	streamed bool
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
	variety = []arm{{kind: everturn, lane: laneMCPQuick}, {kind: everturn, lane: laneMCP, full: true}, {kind: everturn, lane: laneLocal, full: true}}
)

// resultBytes is the usual size of a tool's result: a page of text.
const resultBytes = 1000

func hops(n, calls int) spec { return spec{Hops: n, Calls: calls, Bytes: resultBytes} }

// scenarios are all of a full run, the judged ones first.
func scenarios() []scenario {
	return slices.Concat(one(), many(), long())
}

// one are scenarios with one turn at a time.
func one() []scenario {
	bad := hops(1, 1)
	bad.Bad = true
	slow := hops(0, 1)
	slow.Slow = true
	return []scenario{
		{name: "answer", spec: hops(0, 1), arms: local, turns: 150, block: 15, inFlight: 1, gated: true, smoke: true},
		{name: "one hop", spec: hops(1, 1), arms: slices.Concat(all, tuned), turns: 120, block: 10, inFlight: 1, gated: true, smoke: true},
		{name: "five hops", spec: hops(5, 1), arms: slices.Concat(all, tuned, variety), turns: 100, block: 5, inFlight: 1, gated: true, smoke: true, replayed: true},
		{name: "six parallel calls", spec: hops(1, 6), arms: all, turns: 40, block: 5, inFlight: 1, smoke: true},
		{name: "malformed answer", spec: bad, arms: []arm{ourLocal, floorLocal}, turns: 40, block: 10, inFlight: 1, smoke: true},
		{name: "streamed answer", spec: slow, arms: pair, turns: 16, block: 4, inFlight: 1, streamed: true, smoke: true},
	}
}

// many are scenarios with many turns at a time.
func many() []scenario {
	return []scenario{
		{name: "one hop, 32 in flight", spec: hops(1, 1), arms: loaded, turns: 512, block: 64, inFlight: 32},
		{name: "five hops, 32 in flight", spec: hops(5, 1), arms: loaded, turns: 320, block: 40, inFlight: 32},
		{name: "one hop, 256 in flight", spec: hops(1, 1), arms: pair, turns: 512, block: 256, inFlight: 256},
	}
}

// long are long turns and long transcripts.
func long() []scenario {
	return []scenario{
		{name: "20 hops", spec: hops(20, 1), arms: all, turns: 9, block: 3, inFlight: 1},
		{name: "100 hops on 0.8 MB", spec: hops(100, 1), arms: []arm{ourLocal, ourMCP, cookLocal}, doomed: []arm{cookLocal},
			turns: 3, block: 1, inFlight: 1, context: 800 << 10, replayed: true},
		{name: "1000 hops", spec: hops(1000, 1), arms: []arm{ourLocal}, turns: 1, block: 1, inFlight: 1},
		{name: "one hop on 0.4 MB", spec: hops(1, 1), arms: pair, turns: 20, block: 5, inFlight: 1, context: 400 << 10},
		{name: "one hop on 0.8 MB", spec: hops(1, 1), arms: pair, turns: 20, block: 5, inFlight: 1, context: 800 << 10},
		{name: "one hop on 2 MB", spec: hops(1, 1), arms: pair, doomed: []arm{cookLocal}, turns: 20, block: 5, inFlight: 1, context: 2 << 20},
		{name: "one hop on 20 MB", spec: hops(1, 1), arms: pair, doomed: []arm{cookLocal}, turns: 20, block: 5, inFlight: 1, context: 20 << 20},
	}
}

// small is the scenario as a smoke run has it: it shows that everything works, not how fast.
func (sc scenario) small() scenario {
	sc.turns, sc.block, sc.gated = 1, 1, false
	sc.arms = slices.DeleteFunc(slices.Clone(sc.arms), func(a arm) bool { return a.full })
	return sc
}
