package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/tests/fakellm"
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

// TestTheMutantsOfTreesApply has the texts that the mutants replace.
func TestTheMutantsOfTreesApply(t *testing.T) {
	for _, m := range treeMutants {
		if m.file != "" {
			_, err := m.overlay(t.TempDir())
			assert.NoError(t, err)
		}
	}
}

func TestSharesInARowAreAllPoints(t *testing.T) {
	seen := map[string]int{}
	for _, number := range []string{"41/3", "42/3", "43/3"} {
		o := order{runs: 1}
		require.NoError(t, o.share.Set(number))
		part, err := o.points()
		require.NoError(t, err)
		for _, p := range part {
			seen[p.name]++
		}
	}
	for _, wrong := range []string{"", "7", "7/0", "-1/3", "7/3/1"} {
		assert.Error(t, new(share).Set(wrong), wrong)
	}
	all, err := order{runs: 1}.points()
	require.NoError(t, err)
	for _, p := range all {
		assert.Equal(t, 1, seen[p.name], p.name)
	}
	assert.Len(t, seen, len(all))
}

// The page is stale if points or mutants have come or gone since its figures were made.
func TestTheDocsHaveTheFiguresOfThesePointsAndMutants(t *testing.T) {
	page, err := os.ReadFile("../../docs/faults.md")
	require.NoError(t, err)
	for section, rows := range map[string][]string{
		"points-sqlite": groupRows("sqlite"), "points-postgres": groupRows("postgres"),
		"mutants-sqlite": mutantRows("sqlite"), "mutants-postgres": mutantRows("postgres"),
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
	all, _ := order{journal: journal, runs: 2}.points() // as make fault-figures has it; there are some
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

// mutantRows returns the rows of a journal's mutants. Those of commands need the trees beside a SQLite journal.
func mutantRows(journal string) (rows []string) {
	for _, m := range mutants {
		ofTrees := strings.HasPrefix(m.point, "command_") || strings.HasPrefix(m.point, "job_")
		if !m.control() && (journal == "sqlite" || !ofTrees) {
			rows = append(rows, fmt.Sprintf("| `%s` | `%s` |", m.name, m.point))
		}
	}
	return rows
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
