package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/faults/leakcheck"
)

// A soak of half an hour notices and tolerates what the comment at measures says: a live heap like the measured one, of
// 6 MB with lows that vary by a twentieth of one.
func TestASmallLeakOfEachTurnGrows(t *testing.T) {
	const turns = 900.0 / 20 // a minute
	for leak, steady := range map[float64]bool{0: true, 100: true, 650: false, 2048: false} {
		w := newWatch(&soak{order: order{soak: 30 * time.Minute}}, nil, nil, "")
		rng := seeded(1, "heap")
		for i := range 360 {
			at := time.Duration(i) * w.every()
			heap := 6*mb + leak*turns*at.Minutes() + mb*(0.1*rng.Float64()+0.3*float64(i%7)/7)
			w.own = append(w.own, leakcheck.Sample{At: time.Time{}.Add(at), LiveHeap: int64(heap)})
		}
		judged := slices.DeleteFunc(w.measures(), func(m measure) bool { return m.name != "live heap MB" })
		require.Len(t, judged, 1)
		line, _, good := w.trend(judged[0])
		assert.Equal(t, steady, good, "%.0f bytes a turn grow by %.0f", leak, line.Growth())
	}
}
