package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/faults/leakcheck"
)

func TestABlowThatHitsNothingIsMissed(t *testing.T) {
	s := &soak{struck: map[string]int{}, missed: map[string]int{}, order: order{soak: time.Hour}}
	for i, b := range blows {
		err := error(nil)
		if i == 0 {
			err = errMissed
		}
		b.strike = func(*soak, context.Context) error { return err }
		require.NoError(t, s.deal(t.Context(), b))
	}
	var out bytes.Buffer
	assert.False(t, s.blows(&out), "a soak in which no worker was killed is not a good one")
	assert.Contains(t, out.String(), "missed      1 worker killed\nNEVER HIT   worker killed\n")
	s.order.soak = time.Minute
	assert.True(t, s.blows(&out), "one of a minute is too short for all of them")
	s.order.soak = time.Hour
	s.struck["worker killed"]++
	assert.True(t, s.blows(&out))
	broken := blow{name: "broken", strike: func(*soak, context.Context) error { return assert.AnError }}
	require.ErrorIs(t, s.deal(t.Context(), broken), assert.AnError)
	assert.Zero(t, s.struck["broken"])
}

func TestALinkWithoutConnectionsIsNotHit(t *testing.T) {
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer upstream.Close()
	l, err := newLink("test", upstream.Addr().String())
	require.NoError(t, err)
	defer l.down()
	s := &soak{}
	require.ErrorIs(t, s.sever(t.Context(), down, l, 0), errMissed)
	client, err := net.Dial("tcp", l.address())
	require.NoError(t, err)
	defer client.Close()
	server, err := upstream.Accept() // the link now has both ends
	require.NoError(t, err)
	defer server.Close()
	require.NoError(t, s.sever(t.Context(), down, l, 0))
	_, err = client.Read(make([]byte, 1))
	assert.Error(t, err, "the connection is cut")
}

func TestWhatAWorkerDoesNotSayIsNotTakenForNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "vitals")
	sample := leakcheck.Sample{PID: 7, At: time.Now()}
	require.ErrorContains(t, reported(file, &sample), "worker 7 says nothing of itself")
	for text, want := range map[string]string{`{"goroutines":`: "reading what worker 7 says", `{}`: "0 goroutines",
		`{"goroutines":70,"live_heap":0}`: "0 bytes"} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		assert.ErrorContains(t, reported(file, &sample), want)
	}
	require.NoError(t, os.WriteFile(file, []byte(`{"goroutines":70,"live_heap":4096}`), 0o600))
	require.NoError(t, reported(file, &sample))
	assert.Equal(t, 70, sample.Goroutines)
	assert.EqualValues(t, 4096, sample.LiveHeap)
	require.NoError(t, os.Chtimes(file, time.Time{}, time.Now().Add(-time.Hour)))
	assert.ErrorContains(t, reported(file, &sample), "for 1h0m0s")
}

// After the warm-up, a survivor that does not report ends the watch; before that, it may still be starting.
func TestTheWatchNeedsTheWorkersWord(t *testing.T) {
	self := &process{cmd: command(t)}
	s := &soak{rig: &rig{server: &server{process: self}}, order: order{soak: time.Hour}, began: time.Now()}
	w := newWatch(s, self, self, filepath.Join(t.TempDir(), "vitals"))
	l, err := openLedger(filepath.Join(t.TempDir(), "ledger"))
	require.NoError(t, err)
	defer l.f.Close()
	require.NoError(t, w.sample(l))
	s.began = time.Now().Add(-30 * time.Minute)
	require.ErrorContains(t, w.sample(l), "says nothing of itself")
}

func TestWhatIsLeftAtRestIsNoticed(t *testing.T) {
	before := rest{worker: 20, observed: 20, goroutines: 57}
	assert.True(t, rests(io.Discard, before, rest{worker: 24, observed: 24, goroutines: 65, turns: 30}))
	assert.False(t, rests(io.Discard, before, rest{worker: 20, observed: 20, goroutines: 72}),
		"a goroutine every fifth fault")
	assert.False(t, rests(io.Discard, before, rest{worker: 30, observed: 20, goroutines: 57}))
	assert.False(t, rests(io.Discard, before, rest{}), "a soak that did not come to its rest")
}

func TestGoroutinesOfTurnsAreCountedApart(t *testing.T) {
	others, turns := goroutines(
		"goroutine profile: total 6\n3 @ 0x1 0x2\n#\t0x1\tnet/http.(*persistConn).readLoop+0x1\n\n" +
			"2 @ 0x3\n#\t0x3\tgo.temporal.io/sdk/internal.(*coroutineState).initialYield+0x1\n\n1 @ 0x4\n# labels: " +
			"{\"a\":\"b\"}\n#\t0x4\tmain.main+0x1\n")
	assert.Equal(t, []int{4, 2}, []int{others, turns})
	var own bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&own, 1))
	others, _ = goroutines(own.String())
	assert.Positive(t, others, "the runtime writes what is read here")
}

func TestTheJournalsFilesAreNotCounted(t *testing.T) {
	before, err := openFiles(os.Getpid())
	require.NoError(t, err)
	require.Positive(t, before)
	for _, name := range []string{"journal.db-wal", "other"} {
		f, err := os.Create(filepath.Join(t.TempDir(), name))
		require.NoError(t, err)
		defer f.Close()
	}
	after, err := openFiles(os.Getpid())
	require.NoError(t, err)
	assert.Equal(t, before+1, after)
}

// command starts a process that lives as long as the test.
func command(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return cmd
}

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
