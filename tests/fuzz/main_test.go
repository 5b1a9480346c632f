package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVerdicts(t *testing.T) {
	const counts = "fuzz: elapsed: 0s, gathering baseline coverage: 11/11 completed, now fuzzing with 1 workers\n" +
		"fuzz: elapsed: 30s, execs: 658917 (17809/sec), new interesting: 238 (total: 249)\n"
	const deadline = "--- FAIL: FuzzX (30.03s)\n    context deadline exceeded\n"
	const end = "FAIL\n"
	exit := errors.New("exit status 1")
	for name, c := range map[string]struct {
		output string
		err    error
		passes bool
	}{
		"passed":                {counts + "PASS\n", nil, true},
		"the fuzzer's deadline": {counts + deadline + end, exit, true},
		"a failing input": {counts + deadline + "    Failing input written to testdata/fuzz/FuzzX/ab\n" + end, exit,
			false},
		"more output":             {counts + deadline + "    a leak\n" + end, exit, false},
		"a leak after the target": {counts + "PASS\nfound unexpected goroutines\n", exit, false},
		"no execution":            {"fuzz: elapsed: 3s, gathering baseline coverage: 0/11 completed\nPASS\n", nil, false},
		"only seeds":              {"fuzz: elapsed: 3s, gathering baseline coverage: 1/11 completed\nPASS\n", nil, true},
	} {
		assert.Equal(t, c.passes, judge(c.output, c.err) == "", name)
	}
}

func TestTheTargetsOfThisModuleAreFound(t *testing.T) {
	t.Chdir("../..")
	all, err := find(t.Context(), "workflows/turn")
	require.NoError(t, err)
	assert.NotEmpty(t, all)
}
