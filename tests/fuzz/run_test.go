package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// module writes a module of packages with one fuzz target each and changes into it.
func module(t *testing.T, bodies map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/m\n\ngo 1.26\n"), 0o600))
	for pkg, body := range bodies {
		require.NoError(t, os.Mkdir(filepath.Join(dir, pkg), 0o700))
		src := fmt.Sprintf("package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n\t\"testing\"\n)\n\nvar _, _ = os.Getpid, "+
			"strconv.Itoa\n\nfunc FuzzIt(f *testing.F) {\n%s\n}\n", pkg, body)
		require.NoError(t, os.WriteFile(filepath.Join(dir, pkg, "x_test.go"), []byte(src), 0o600))
	}
	t.Chdir(dir)
	return dir
}

// command runs the command line as main does.
func command(t *testing.T, ctx context.Context, args ...string) (bool, string, error) {
	t.Helper()
	var out bytes.Buffer
	o, err := parse(args, &out)
	require.NoError(t, err)
	ok, err := o.carryOut(ctx, &out)
	return ok, out.String(), err
}

// TestAFindIsReportedAndCanBeReplayed has one good target, one that fails on an input that the fuzzer makes, one that
// fails on a seed, one that does not compile, and one that skips itself.
func TestAFindIsReportedAndCanBeReplayed(t *testing.T) {
	dir := module(t, map[string]string{
		"good":  `f.Fuzz(func(t *testing.T, b []byte) {})`,
		"finds": `f.Add([]byte("a")); f.Fuzz(func(t *testing.T, b []byte) { if string(b) != "a" { t.Fatal("not an a") } })`,
		"seed":  `f.Add([]byte("a")); f.Fuzz(func(t *testing.T, b []byte) { t.Fatal("never good") })`,
		"wrong": `f.Fuzz(nothing)`,
		"skips": `f.Skip("not today")`,
	})
	ok, said, err := command(t, t.Context(), "-time", "200x")
	require.NoError(t, err)
	assert.False(t, ok)
	for _, want := range []string{`good +FuzzIt +\d+ +\S+ +\d+ +\d+ +passed`, `finds +FuzzIt .* FAILED`,
		`seed +FuzzIt .* FAILED`, `wrong +FuzzIt .* NOT RUN`,
		`skips +FuzzIt +0 .* NOTHING`, `nothing was executed`,
		`undefined: nothing`, `not an a`, `replay it: go test ./seed -run '\^FuzzIt\$/\^seed#0\$'`} {
		assert.Regexp(t, want, said)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "finds", "testdata", "fuzz", "FuzzIt", "*"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	assert.Contains(t, said, "failing input: finds/testdata/fuzz/FuzzIt/"+filepath.Base(kept[0]))
	replay := fmt.Sprintf("go test ./finds -run '^FuzzIt$/^%s$'", filepath.Base(kept[0]))
	require.Contains(t, said, replay)
	again, err := exec.Command("sh", "-c", replay+" -v").CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(again), "--- FAIL: FuzzIt/"+filepath.Base(kept[0]))

	ok, said, err = command(t, t.Context(), "-time", "20x", "-only", "^good")
	require.NoError(t, err)
	assert.True(t, ok, said)
	assert.NotContains(t, said, "finds")
	_, _, err = command(t, t.Context(), "-only", "nothing like it")
	assert.ErrorContains(t, err, "no target matches")
}

// TestAnInterruptEndsTheChildren checks that the fuzzer and its worker have ended when the command returns.
func TestAnInterruptEndsTheChildren(t *testing.T) {
	dir := module(t, map[string]string{
		"endless": `f.Fuzz(func(t *testing.T, b []byte) { os.WriteFile("../worker", []byte(strconv.Itoa(os.Getpid())), 0o600) })`,
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan string, 1)
	go func() {
		ok, said, _ := command(t, ctx, "-time", "1h")
		assert.False(t, ok)
		ended <- said
	}()
	var worker int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "worker"))
		worker, _ = strconv.Atoi(string(text))
		return err == nil && worker > 0
	}, 5*time.Minute, 20*time.Millisecond)
	cancel()
	assert.Contains(t, strings.ReplaceAll(<-ended, "\n", " "), "stopped")
	require.Eventually(t, func() bool { return errors.Is(syscall.Kill(worker, 0), syscall.ESRCH) || zombie(worker) },
		10*time.Second, 10*time.Millisecond)
}

// zombie reports whether a process is dead and not yet reaped.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func TestCommandLines(t *testing.T) {
	for _, args := range [][]string{{"-time", "soon"}, {"-jobs", "0"}, {"-only", "("}, {"more"}} {
		var out bytes.Buffer
		_, err := parse(args, &out)
		assert.Error(t, err, args)
		assert.NotEmpty(t, out.String())
	}
}
