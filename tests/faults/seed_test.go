package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/tests/faults/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A seed that a failed run has printed makes the same schedule again: turns, calls, arguments, answers, the worker's
// point and the fault's own choices. Which worker takes a task, and how long anything takes, is not seeded.
func TestASeedMakesTheSameScheduleAgain(t *testing.T) {
	for _, p := range allPoints() {
		t.Run(p.name, func(t *testing.T) {
			again := pointNamed(p.name) // made again, so that nothing is left of the first time
			first := planned(p, 7)
			assert.Equal(t, first, planned(again, 7))
			assert.NotEqual(t, first, planned(again, 8))
		})
	}
}

func TestPointsAreToldApart(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range allPoints() {
		assert.False(t, seen[p.name], "there are two points %s", p.name)
		seen[p.name] = true
		assert.NotEmpty(t, p.about)
	}
	for _, m := range mutants {
		assert.True(t, seen[m.point], "mutant %s is played at %s, which is no point", m.name, m.point)
	}
}

func TestTwoHalvesAreAllPoints(t *testing.T) {
	seen := map[string]int{}
	for _, number := range []int{41, 42} {
		half, err := order{half: number, runs: 1}.points()
		require.NoError(t, err)
		for _, p := range half {
			seen[p.name]++
		}
	}
	all, err := order{runs: 1}.points()
	require.NoError(t, err)
	for _, p := range all {
		assert.Equal(t, 1, seen[p.name], p.name)
	}
	assert.Len(t, seen, len(all))
}

func TestASeedMakesTheSameSoakAgain(t *testing.T) {
	turns := func(seed uint64) (out []string) {
		rng := seeded(seed, "soak-s001")
		for n := range 20 {
			plan, m := soakTurn(rng, "soak-s001", n)
			out = append(out, fmt.Sprintf("%+v %+v", plan, m))
		}
		return out
	}
	assert.Equal(t, turns(7), turns(7))
	assert.NotEqual(t, turns(7), turns(8))
	faults := func(seed uint64) (out []string) {
		s := &soak{rig: &rig{rng: seeded(seed, "soak")}, order: order{soak: time.Hour}}
		for _, b := range s.shuffled() {
			out = append(out, b.name+s.calm().String())
		}
		return out
	}
	assert.Equal(t, faults(7), faults(7))
	assert.NotEqual(t, faults(7), faults(8))
}

func TestFiguresAreWrittenBetweenTheirComments(t *testing.T) {
	page := "before\n<!-- points: begin -->\nold\n<!-- points: end -->\nafter <!-- soak: end -->\n"
	out, err := splice([]byte(page), "points", []byte("new\n"))
	require.NoError(t, err)
	assert.Equal(t, "before\n<!-- points: begin -->\nnew\n<!-- points: end -->\nafter <!-- soak: end -->\n", string(out))
	again, err := splice(out, "points", []byte("new\n"))
	require.NoError(t, err)
	assert.Equal(t, out, again)
	_, err = splice(out, "soak", nil)
	assert.ErrorContains(t, err, "soak: begin")
}

func TestFiguresOfPointsAreSummedByGroup(t *testing.T) {
	var b bytes.Buffer
	pointFigures(&b, []outcome{
		{point: "order", recovery: 3 * time.Second}, {point: "order", err: assert.AnError}, {point: "deploy_rolled_back"},
		{point: "clients_20", violations: []check.Violation{{Invariant: check.I2}}, recovery: time.Hour},
		{point: "storm", err: assert.AnError},
	}, time.Minute)
	assert.Contains(t, b.String(), "5 runs in 1m0s, 3 failed.")
	assert.Contains(t, b.String(), "| 3 | 2 | 3.0 s | 3.0 s |", "failed runs have no time")
	assert.Contains(t, b.String(), "| 1 | 1 | – | – |")
}

// The page is stale if points or mutants have come or gone since its figures were made.
func TestTheDocsHaveTheFiguresOfThesePointsAndMutants(t *testing.T) {
	page, err := os.ReadFile("../../docs/faults.md")
	require.NoError(t, err)
	for section, rows := range map[string][]string{
		"points-sqlite": groupRows("sqlite"), "points-postgres": groupRows("postgres"),
		"mutants-sqlite": mutantRows(), "mutants-postgres": mutantRows(),
	} {
		t.Run(section, func(t *testing.T) {
			_, rest, _ := strings.Cut(string(page), "<!-- "+section+": begin -->\n")
			text, _, found := strings.Cut(rest, "<!-- "+section+": end -->")
			require.True(t, found)
			if text == "" {
				t.Skip("the page has no figures of this section: make fault-figures")
			}
			for _, row := range rows {
				assert.True(t, strings.Contains(text, row), "%s is missing: make fault-figures", row)
			}
		})
	}
}

func groupRows(journal string) (rows []string) {
	all, _ := order{journal: journal, runs: 1}.points() // there are some
	for _, g := range groups() {
		n := 0
		for _, p := range g.points {
			if slices.ContainsFunc(all, func(q point) bool { return q.name == p.name }) {
				n++
			}
		}
		if n > 0 {
			rows = append(rows, fmt.Sprintf("| %s | %d |", g.name, n), "| "+g.recovers+" |")
		}
	}
	return rows
}

func mutantRows() (rows []string) {
	for _, m := range mutants {
		if !m.control() {
			rows = append(rows, fmt.Sprintf("| `%s` | `%s` |", m.name, m.point))
		}
	}
	return rows
}

func TestFiguresOfSomePointsAreNotWrittenOverThoseOfAll(t *testing.T) {
	err := order{docs: true, only: "zombie", runs: 1, parallel: 1}.sane(nil)
	assert.ErrorContains(t, err, "-docs with -point")
}

func TestMutantsAndControlsAreCountedApart(t *testing.T) {
	assert.Equal(t, "2 mutants and 1 controls",
		heads([]mutant{{name: "a", breaks: check.I1}, {name: "nothing"}, {name: "b", says: "no"}}))
	lost := mutant{name: "tools_lost", says: notOffered}
	assert.True(t, lost.asItShould(outcome{err: errors.New("mcp_once_append" + notOffered)}))
	assert.False(t, lost.asItShould(outcome{err: assert.AnError}), "another error is not what it is to be noticed by")
	assert.False(t, lost.asItShould(outcome{}))
	assert.False(t, mutant{name: "nothing"}.asItShould(outcome{err: assert.AnError}))
}

func TestToolsThatAreLostAreNoticed(t *testing.T) {
	servers := settings{remote: "http://127.0.0.1:1/mcp"}.servers()
	last := newTurn(seeded(1, "last"), "s", 4)
	last.add(len(servers), func(i int) string { return servers[i].wire("append") })
	worked := func(string) bool { return true }
	asked := func(names ...string) []fakellm.Request {
		var q fakellm.Request
		body, err := json.Marshal(map[string]any{"messages": []any{map[string]any{"role": "user", "content": last.text}},
			"tools": offer(names)})
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(body, &q.Chat))
		return []fakellm.Request{q}
	}
	var all []string
	for _, s := range servers {
		for _, tool := range s.tools {
			all = append(all, s.wire(tool))
		}
	}
	assert.Empty(t, lostTools(servers, last, asked(all...), worked))
	assert.Equal(t, []string{"mcp_remote_append is not offered to the model"},
		lostTools(servers, last, asked(all[:len(all)-1]...), worked))
	assert.Len(t, lostTools(servers, last, nil, worked), len(all),
		"a turn that never came to the model was offered nothing")
	dead := func(key string) bool { return key != last.steps[0][1].key }
	assert.Equal(t, []string{"mcp_again_append is offered and has no effect"},
		lostTools(servers, last, asked(all...), dead))
}

// offer returns tools as a request has them.
func offer(names []string) (out []any) {
	for _, name := range names {
		out = append(out, map[string]any{"type": "function", "function": map[string]any{"name": name}})
	}
	return out
}
