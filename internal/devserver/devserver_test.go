package devserver

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/internal/statedir"
)

// What takes a real server is tested in the package tests, with whole stacks.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheServersVersionIsStampedAndAnotherOneRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, recordVersion(dir, "1.29.1"))
	require.NoError(t, recordVersion(dir, "1.30.0"), "there is no database yet")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "temporal.db"), nil, 0o600))
	require.NoError(t, recordVersion(dir, "1.30.0"))
	var refused *Refusal
	require.ErrorAs(t, recordVersion(dir, "1.29.1"), &refused)
	assert.Contains(t, refused.Reason, "written by Temporal server 1.30.0 and this one is 1.29.1")
}

// program writes an executable that prints.
func program(t *testing.T, dir, name, script string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	return path
}

func TestFindTemporalTakesARecentOneOnPath(t *testing.T) {
	good, old := t.TempDir(), t.TempDir()
	found := program(t, good, "temporal", "echo 'temporal version 1.7.0 (Server 1.31.0, UI 2.50.0)'")
	// A server of this version stands still after an interrupted request.
	program(t, old, "temporal", "echo 'temporal version 1.5.1 (Server 1.29.1, UI 2.42.1)'")
	var out bytes.Buffer
	path, why, err := FindTemporal(t.Context(), Options{Progress: &out,
		Environ: []string{"PATH=relative:" + t.TempDir() + ":" + good}})
	require.NoError(t, err)
	assert.Equal(t, found, path)
	assert.Equal(t, "temporal on PATH, server 1.31.0", why)
	assert.Empty(t, out.String())

	t.Chdir(t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, _, err = FindTemporal(t.Context(), Options{Progress: &out, Environ: []string{"PATH=" + old}})
	assert.ErrorContains(t, err, "install the Temporal CLI")
	assert.Contains(t, out.String(), filepath.Join(old, "temporal")+" is not used (its server is 1.29.1)")
	_, _, err = FindTemporal(t.Context(), Options{Progress: &out})
	assert.ErrorContains(t, err, "neither a recent `temporal` on PATH nor a Go")
}

func TestVersionsOfBinaries(t *testing.T) {
	dir := t.TempDir()
	_, err := binaryVersion(t.Context(), Options{}, program(t, dir, "mute", "echo hello"))
	assert.ErrorContains(t, err, "names no server")
	_, err = binaryVersion(t.Context(), Options{}, program(t, dir, "broken", "exit 3"))
	assert.ErrorContains(t, err, "asking")
	for version, want := range map[string]bool{"1.31.0": true, "1.32.1": true, "2.0.0": true, "1.30.9": false,
		"0.99.0": false, "": false, "one.two": false} {
		assert.Equal(t, want, isRecent(version), version)
	}
}

func TestProbeTellsStrangersFromNobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) // whatever the other side thinks of it
			c.Close()
		}
	}()
	who, _ := probe(t.Context(), address)
	assert.Equal(t, otherListener, who)
	require.NoError(t, l.Close())
	who, _ = probe(t.Context(), "127.0.0.1:1")
	assert.Equal(t, noListener, who)
}

func TestAServerThatIsJustEndingIsNoStranger(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { // takes one connection, as a server that is being killed may, and ends
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
		l.Close()
	}()
	who, _ := probe(t.Context(), l.Addr().String())
	assert.Equal(t, noListener, who)
}

func TestAwaitingTheServerEndsWithItOrWithTheCaller(t *testing.T) {
	const address = "127.0.0.1:1" // where nobody listens
	gone := make(chan error, 1)
	gone <- errors.New("exit status 1")
	err := awaitServer(t.Context(), address, gone)
	assert.ErrorContains(t, err, "the Temporal server did not start\nexit status 1")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	assert.EqualError(t, awaitServer(ctx, address, nil), "interrupted")
}

func TestOnlyLoopbackIsUsed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	var refused *Refusal
	_, err := Ensure(t.Context(), Options{Dir: dir, Address: "192.0.2.1:7233"})
	require.ErrorAs(t, err, &refused)
	assert.NoDirExists(t, dir)
}

func TestServerFlags(t *testing.T) {
	args, err := serverArgs("/state", Options{Address: "localhost:7233", Namespace: "default"})
	require.NoError(t, err)
	assert.Equal(t, []string{"server", "start-dev", "--ip", "127.0.0.1", "--port", "7233"}, args[:6])
	assert.Contains(t, args, "/state/temporal.db")
}

func TestABuildThatTakesLongIsSaid(t *testing.T) {
	var out bytes.Buffer
	done := showProgress(&out)
	done()
	assert.Empty(t, out.String(), "a build that is in the cache is over at once")
}

func TestTheSupervisorReportsAServerThatEnds(t *testing.T) {
	dir := t.TempDir()
	user, err := statedir.Shared(t.Context(), lockFile(dir))
	require.NoError(t, err)
	defer user.Release()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	failing := program(t, dir, "server", "exit 7")
	assert.ErrorContains(t, supervise(ctx, dir, "127.0.0.1:0", []string{failing}, &bytes.Buffer{}),
		"the Temporal server ended: exit status 7")
	ending := program(t, dir, "ending", "exit 0")
	assert.EqualError(t, supervise(ctx, dir, "127.0.0.1:0", []string{ending}, &bytes.Buffer{}),
		"the Temporal server ended: exit status 0")
	assert.ErrorContains(t, supervise(ctx, dir, "127.0.0.1:0", []string{filepath.Join(dir, "none")}, &bytes.Buffer{}),
		"starting the Temporal server")
}

func TestTheSupervisorStopsAServerThatNobodyUses(t *testing.T) {
	dir := t.TempDir()
	stubborn := program(t, dir, "server", "echo $$ > "+dir+"/pid; exec sleep 60")
	require.NoError(t, supervise(t.Context(), dir, "127.0.0.1:0", []string{stubborn}, &bytes.Buffer{}))
}
