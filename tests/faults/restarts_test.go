package main

import (
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/tests/faults/check"
	"github.com/everturn/everturn/tests/faults/leakcheck"
	"github.com/everturn/everturn/workflows/turn"
)

func TestAPatientModelMakesACallAgainThatWasNotMade(t *testing.T) {
	plan := restartTurn(seeded(1, "patient"), "s", time.Second)
	key := func(step int) string { return plan.steps[step][0].key }
	for _, c := range []struct {
		name    string
		results []string
		next    string // the key of the next call; empty: the turn is over
	}{
		{"at first", nil, key(0)},
		{"made", []string{"appended " + key(0)}, key(1)},
		{"unknown is not repeated", []string{"Outcome unknown: the connection was lost."}, key(1)},
		{"not made", []string{"It was not called."}, key(0) + "-try2"},
		{"given up", []string{"no", "no", "no"}, key(1)},
		{"all made", []string{"appended a", "no", "appended b", "appended c", "appended d"}, ""},
	} {
		q := fakellm.Request{}
		require.NoError(t, json.Unmarshal([]byte(body(t, c.results, []string{once, again})), &q.Chat))
		next := ""
		if calls := plan.said(q); len(calls) > 0 {
			next = calls[0].key
		}
		assert.Equal(t, c.next, next, c.name)
	}
	q := fakellm.Request{}
	require.NoError(t, json.Unmarshal([]byte(body(t, nil, nil)), &q.Chat))
	assert.Empty(t, plan.said(q), "a model asks for no tool that it is not offered")
}

// body returns a request with these results of earlier calls.
func body(t *testing.T, results, tools []string) string {
	t.Helper()
	messages := []any{map[string]any{"role": "user", "content": "Question?"}}
	for _, text := range results {
		messages = append(messages, map[string]any{"role": "tool", "content": text})
	}
	b, err := json.Marshal(map[string]any{"messages": messages, "tools": offer(tools)})
	require.NoError(t, err)
	return string(b)
}

// ledgersOf returns the ledgers of one turn of a liveness run whose four calls had these outcomes.
func ledgersOf(t *testing.T, tools []string, outcomes ...turn.Outcome) check.Ledgers {
	t.Helper()
	lines := []journal.Line{
		{Header: &journal.ExportHeader{Session: journal.SessionRecord{ID: "restarts-http-t001"}}},
		{Turn: &journal.ExportTurn{TurnRecord: journal.TurnRecord{State: turn.StateCompleted}}},
	}
	for i, o := range outcomes {
		c := &journal.ExportCall{}
		c.Call.ID, c.Outcome = string(rune('a'+i)), o
		if o == turn.OutcomeError {
			c.Code = turn.CodeToolNotSent
		}
		lines = append(lines, journal.Line{Call: c})
	}
	return check.Ledgers{Sessions: []check.Session{{Lines: lines}},
		Requests: []check.Request{{Asked: "Question restarts-http-t001-m1?", Step: 1, Body: []byte(body(t, nil, tools))}}}
}

func TestARestartsRunIsJudgedByItsLedgers(t *testing.T) {
	s := &restarts{restarting: restarting{turns: 1}, kills: 1}
	ok, unknown, failed := turn.OutcomeOK, turn.OutcomeUnknown, turn.OutcomeError
	good := tallyRestarts(ledgersOf(t, []string{once, again}, ok, unknown, ok, ok))
	assert.Equal(t, restartTally{turns: 1, calls: 4, unknown: 1}, good)
	assert.True(t, s.report(io.Discard, good, nil))
	assert.False(t, s.report(io.Discard, good, []check.Violation{{Invariant: check.I2}}))

	givenUp := tallyRestarts(ledgersOf(t, []string{once}, ok, ok, failed, ok, ok))
	assert.Equal(t, restartTally{turns: 1, calls: 5, givenUp: 1, partial: 1}, givenUp, "it was made the second time")
	assert.False(t, s.report(io.Discard, givenUp, nil), "one of five calls is too many")

	none := tallyRestarts(ledgersOf(t, nil))
	assert.Equal(t, restartTally{turns: 1, unfinished: 1, toolless: 1}, none)
	assert.False(t, s.report(io.Discard, none, nil))

	s.kills = 0
	assert.False(t, s.report(io.Discard, good, nil), "a run in which nothing was killed shows nothing")
}

func TestTheShareOfAProcessorIsThatOfItsTime(t *testing.T) {
	began := time.Now()
	g := &gauge{}
	for i := range 11 {
		at, cpu := began.Add(time.Duration(i)*time.Second), time.Duration(max(0, i-5))*time.Second
		g.samples = append(g.samples, leakcheck.Sample{PID: 1, At: at, CPU: cpu, Resident: int64(i) << 20, Files: 20 - i})
	}
	assert.InDelta(t, 0.5, g.share(began, began.Add(10*time.Second)), 0.001)
	assert.InDelta(t, 1, g.share(began.Add(5*time.Second), began.Add(10*time.Second)), 0.001)
	assert.Zero(t, g.share(began.Add(20*time.Second), began.Add(30*time.Second)), "nothing was seen")
	resident, files := g.peaks()
	assert.Equal(t, int64(10<<20), resident)
	assert.Equal(t, 20, files)
}
