package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const begun = `fuzz: elapsed: 0s, gathering baseline coverage: 0/11 completed
fuzz: elapsed: 0s, gathering baseline coverage: 11/11 completed, now fuzzing with 1 workers
fuzz: elapsed: 3s, execs: 43431 (14476/sec), new interesting: 52 (total: 63)
fuzz: elapsed: 30s, execs: 658917 (17809/sec), new interesting: 238 (total: 249)
`

const unbegun = `fuzz: elapsed: 0s, gathering baseline coverage: 0/11 completed
fuzz: elapsed: 3s, gathering baseline coverage: 0/11 completed
`

const begunSlowly = `fuzz: elapsed: 0s, gathering baseline coverage: 0/0 completed
fuzz: elapsed: 30s, execs: 0 (0/sec), new interesting: 0 (total: 0)
`

func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		said          string
		good          bool
		want          verdict
		input, replay string
	}{
		"a good run": {said: begun + "PASS\n", good: true, want: passed},
		"the fuzzer's deadline": {said: begun + "--- FAIL: FuzzX (30.03s)\n    context deadline exceeded\nFAIL\n",
			want: deadline},
		"the same from go test": {said: begun +
			"--- FAIL: FuzzX (30.03s)\n    context deadline exceeded\nFAIL\nexit status 1\nFAIL\texample.com/x\t30.041s\n",
			want: deadline},
		"before its time": {said: begun + "--- FAIL: FuzzX (12.03s)\n    context deadline exceeded\nFAIL\n",
			want: found},
		"of another target": {said: begun + "--- FAIL: FuzzXY (30.03s)\n    context deadline exceeded\nFAIL\n",
			want: found},
		"of the target's own": {said: begun +
			"--- FAIL: FuzzX (30.03s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: context deadline exceeded\nFAIL\n",
			want: found},
		"with more said": {said: begun +
			"--- FAIL: FuzzX (30.03s)\n    context deadline exceeded\n    and a leak\nFAIL\n", want: found},
		"something printed": {said: "goroutine leak\n" + begun +
			"--- FAIL: FuzzX (30.03s)\n    context deadline exceeded\nFAIL\n", want: found},
		"a good one ends badly": {said: begun + "PASS\nfound unexpected goroutines\n", want: found},
		"nothing said":          {want: found},
		"nothing executed":      {said: "PASS\n", good: true, want: idle},
		"no seed executed":      {said: unbegun + "PASS\n", good: true, want: idle},
		"nothing till the end": {said: unbegun + "--- FAIL: FuzzX (30.03s)\n    context deadline exceeded\nFAIL\n",
			want: idle},
		"the count stays at 0": {said: begunSlowly + "PASS\n", good: true, want: idle},
		"a seed, and no more": {said: unbegun + "fuzz: elapsed: 30s, gathering baseline coverage: 1/11 completed\nPASS\n",
			good: true, want: passed},
		"a seed fails": {said: "fuzz: elapsed: 0s, gathering baseline coverage: 0/11 completed\nfailure while " +
			"testing seed corpus entry: FuzzX/seed#3\n--- FAIL: FuzzX (0.02s)\n    --- FAIL: FuzzX (0.00s)\n        " +
			"x_test.go:9: no\n    \nFAIL\n", want: found, replay: "FuzzX/seed#3"},
		"with an input, at last": {said: begun + "--- FAIL: FuzzX (30.03s)\n    context deadline exceeded\n    \n    " +
			"Failing input written to testdata/fuzz/FuzzX/ab12\n    To re-run:\n    go test -run=FuzzX/ab12\nFAIL\n",
			want: found, input: "testdata/fuzz/FuzzX/ab12", replay: "FuzzX/ab12"},
		"an input was written": {said: begun + "--- FAIL: FuzzX (3.00s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: " +
			"no\n    \n    Failing input written to testdata/fuzz/FuzzX/ab12\n    To re-run:\n    go test " +
			"-run=FuzzX/ab12\nFAIL\n",
			want: found, input: "testdata/fuzz/FuzzX/ab12", replay: "FuzzX/ab12"},
	} {
		t.Run(name, func(t *testing.T) {
			o := judge(target{name: "FuzzX"}, span{d: 30 * time.Second}, c.said, c.good)
			assert.Equal(t, c.want, o.verdict)
			assert.Equal(t, c.input, o.input)
			assert.Equal(t, c.replay, o.replay)
			assert.NotContains(t, o.said, "elapsed")
		})
	}
	o := judge(target{name: "FuzzX"}, span{count: 300},
		begun+"--- FAIL: FuzzX (30.03s)\n    context deadline exceeded\nFAIL\n", false)
	assert.Equal(t, found, o.verdict, "a run by count has no deadline")
}

func TestNumbersOfARun(t *testing.T) {
	o := judge(target{name: "FuzzX"}, span{d: 30 * time.Second}, begun+"PASS\n", true)
	assert.EqualValues(t, 658917, o.execs)
	assert.Equal(t, 30*time.Second, o.elapsed)
	assert.Equal(t, 238, o.added)
	assert.Equal(t, 249, o.corpus)
	o = judge(target{name: "FuzzX"}, span{count: 1},
		"fuzz: elapsed: 0s, gathering baseline coverage: 11/11 completed, now fuzzing with 1 workers\nPASS\n", true)
	assert.EqualValues(t, 11, o.execs)
	assert.Equal(t, 11, o.corpus)
}

func TestSpans(t *testing.T) {
	for text, want := range map[string]span{"30s": {d: 30 * time.Second}, "300x": {count: 300}} {
		var s span
		assert.NoError(t, s.set(text))
		assert.Equal(t, want, s)
		assert.Equal(t, text, s.String())
	}
	for _, text := range []string{"", "x", "0x", "0s", "-1s", "-3x", "30", "1.5x"} {
		assert.Error(t, new(span).set(text), text)
	}
}

func TestTargetsAreFoundByTheirShape(t *testing.T) {
	names, err := targetsIn("x_test.go", `package x
func FuzzOne(f *testing.F) {}
func FuzzTwo(g *testing.F) {}
func FuzzHelper(t *testing.T) {}
func FuzzValue(f *testing.F) int { return 0 }
func (x) FuzzMethod(f *testing.F) {}
func TestFuzzNot(f *testing.F) {}
`)
	assert.NoError(t, err)
	assert.Equal(t, []string{"FuzzOne", "FuzzTwo"}, names)
}
