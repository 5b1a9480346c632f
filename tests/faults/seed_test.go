package main

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A seed that a failed run has printed makes the same schedule again: turns, calls, arguments, answers, the worker's
// point and the fault's own choices. Which worker takes a task, and how long anything takes, is nobody's choice.
func TestASeedMakesTheSameScheduleAgain(t *testing.T) {
	for _, p := range allPoints() {
		t.Run(p.name, func(t *testing.T) {
			again := pointNamed(p.name) // made anew, so that nothing is left of the first time
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
	for _, m := range prey {
		assert.True(t, seen[m.point], "mutant %s is played at %s, which is no point", m.name, m.point)
	}
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

func TestAllPointsHaveTheirPlaceInTheDocs(t *testing.T) {
	var b bytes.Buffer
	pointFigures(&b, []outcome{{point: "zombie_call", recovery: 3 * time.Second}, {point: "zombie_call", recovery: time.Second, err: assert.AnError}}, time.Minute)
	assert.Contains(t, b.String(), "2 runs in 1m0s, 1 failed.")
	assert.Contains(t, b.String(), "| `zombie_call` | it comes back with a result | 2 | 1 | 3.0 s | 3.0 s |")
	for _, p := range allPoints() {
		assert.Contains(t, b.String(), "| `"+p.name+"` |")
	}
}
