package mcp_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/workflows/turn"
)

func readPIDs(t *testing.T, file string) []int {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var pids []int
	for _, f := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(f)
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

func TestAServerThatCannotBeAskedSaysWhy(t *testing.T) {
	missing := mcp.Server{ID: "srv", Command: "no-such-command-anywhere"}
	for name, tc := range map[string]struct {
		server mcp.Server
		want   []string
	}{
		"missing command": {missing, []string{`command "no-such-command-anywhere" is not in PATH`}},
		"missing folder": {mcp.Server{ID: "srv", Command: binary, Dir: "/no/such/folder"},
			[]string{`dir = "/no/such/folder" cannot be its working directory`}},
		"missing file": {mcp.Server{ID: "srv", Command: "./nothing", Dir: t.TempDir()},
			[]string{`command "./nothing" cannot be run`}},
		"exits": {stdioServer("srv", "-mode", "exit"), []string{"exit status 3", "no licence found in"}},
		"hangs": {stdioServer("srv", "-mode", "hang"), []string{"did not finish its handshake within 500ms"}},
		"garbage": {stdioServer("srv", "-mode", "garbage"),
			[]string{"too many lines on stdout that are not JSON", "Hello from a server"}},
		"a line of 20 MB":   {stdioServer("srv", "-mode", "longline"), []string{"a line on stdout is over the limit"}},
		"dies after hello":  {stdioServer("srv", "-mode", "dies"), []string{"exit status 5"}},
		"a circular cursor": {stdioServer("srv", "-mode", "cursor"), []string{"repeats the cursor"}},
		"endless pages":     {stdioServer("srv", "-mode", "pages"), []string{"more than 64 pages"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := tc.server
			s.Required = true
			s.ConnectTimeout = time.Minute // a busy machine needs more than the default for 20 MB
			if name == "hangs" {
				s.ConnectTimeout = 500 * time.Millisecond
			}
			h := newHost(t, mcp.Options{BackoffMin: time.Minute}, s)
			c := h.Catalogues(t.Context())[0]
			assert.True(t, c.Required)
			assert.Empty(t, c.Hash)
			for _, want := range tc.want {
				assert.Contains(t, c.Problem, want)
			}
			if name == "hangs" {
				assert.NotContains(t, c.Problem, "its process ended", "the host has ended it")
			}
			assert.Empty(t, children(t), "the failed server still runs")
			_, err := h.Call(t.Context(), turn.ToolRequest{Tool: "mcp/srv/good"})
			assert.Equal(t, turn.CodeToolNotSent, turn.CodeOf(err))
			assert.ErrorContains(t, err, "is tried again in", "a failed connect was repeated without a pause")
		})
	}
}

func TestGrandchildrenEndWithTheServer(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, h *mcp.Host, server int){
		"closed": func(t *testing.T, h *mcp.Host, _ int) { require.NoError(t, h.Close()) },
		"killed": func(t *testing.T, _ *mcp.Host, server int) {
			require.NoError(t, syscall.Kill(server, syscall.SIGKILL))
		},
		"crashed": func(t *testing.T, h *mcp.Host, _ int) {
			call(t, h, "mcp/srv/crash", `{"text":"x"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			pidfile := filepath.Join(t.TempDir(), "pid")
			h := newHost(t, mcp.Options{}, stdioServer("srv", "-mode", "grandchild", "-pidfile", pidfile))
			catalogue(t, h, "srv")
			pids := readPIDs(t, pidfile)
			require.Len(t, pids, 2)
			require.True(t, alive(pids[1]))
			end(t, h, pids[0])
			require.Eventually(t, func() bool { return !alive(pids[0]) && !alive(pids[1]) }, 10*time.Second, 5*time.Millisecond)
		})
	}
}

func TestWatchReportsLossAndReturn(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "server.sh")
	s := mcp.Server{ID: "srv", Command: script, ConnectTimeout: 10 * time.Second}
	h := newHost(t, mcp.Options{BackoffMin: 20 * time.Millisecond, BackoffMax: 50 * time.Millisecond}, s)
	reports := make(chan turn.Catalogue, 10)
	go h.Watch(t.Context(), func(c turn.Catalogue) { reports <- c })

	lost := receive(t, reports)
	assert.Contains(t, lost.Problem, "cannot be run")
	writeScript(t, script, "exec "+binary)
	back := receive(t, reports)
	assert.Empty(t, back.Problem)
	assert.NotEmpty(t, back.Hash)

	call(t, h, "mcp/srv/grow", `{"text":"grown"}`)
	grown := receive(t, reports)
	assert.NotEqual(t, back.Hash, grown.Hash)
	assert.Len(t, grown.Tools, len(back.Tools)+1)
	assert.Equal(t, "grown", call(t, h, "mcp/srv/grown", `{}`).Text)
}

func writeScript(t *testing.T, file, line string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".new", []byte("#!/bin/sh\n"+line+"\n"), 0o700))
	require.NoError(t, os.Rename(file+".new", file))
}

func TestContradictoryConfigurationIsRefused(t *testing.T) {
	cmd := func(change func(*mcp.Server)) []mcp.Server {
		s := stdioServer("srv")
		change(&s)
		return []mcp.Server{s}
	}
	for want, servers := range map[string][]mcp.Server{
		"is used twice":           {stdioServer("a"), stdioServer("a")},
		`"local" is taken`:        {stdioServer("local")},
		"use at most 48 letters":  {stdioServer("a/b")},
		"set its command":         {{ID: "a", Transport: mcp.TransportStdio}},
		"set its URL":             {{ID: "a"}},
		"not both":                cmd(func(s *mcp.Server) { s.URL = "https://example.com" }),
		"is not https":            {{ID: "a", URL: "http://example.com/mcp"}},
		"is not known: use stdio": cmd(func(s *mcp.Server) { s.Transport = "carrier-pigeon" }),
		"NOT_SET, which is not":   cmd(func(s *mcp.Server) { s.EnvAllow = []string{"NOT_SET"} }),
		"has local_activity but is not repeatable": cmd(
			func(s *mcp.Server) { s.Tools = map[string]tool.Settings{"x": {LocalActivity: true}} }),
		"syntax error in pattern": cmd(func(s *mcp.Server) { s.Deny = []string{"["} }),
		"is not absolute":         {{ID: "a", URL: "mcp.example"}},
		`network "10.0.0.0", which is not in CIDR notation`: {{ID: "a", URL: "https://mcp.example",
			Networks: []string{"10.0.0.0"}}},
		"its token URL http://": {{ID: "a", URL: "https://mcp.example", OAuth: mcp.OAuth{TokenURL: "http://idp.example"}}},
		"OAuth is for servers over http": cmd(
			func(s *mcp.Server) { s.OAuth = mcp.OAuth{TokenURL: "https://idp.example"} }),
		"has a URL and no command": cmd(func(s *mcp.Server) { s.Transport = mcp.TransportSSE }),
		"but the server has session_affinity": cmd(func(s *mcp.Server) {
			s.SessionAffinity = true
			s.Tools = map[string]tool.Settings{"t": {LocalActivity: true, Repeatable: true}}
		}),
		"not over stdio": cmd(func(s *mcp.Server) { s.Login = &visitor{} }),
		"not over sse":   {{ID: "a", Transport: mcp.TransportSSE, URL: "https://example.org/sse", Login: &visitor{}}},
		"and client credentials": {{ID: "a", URL: "https://example.org/mcp", Login: &visitor{},
			OAuth: mcp.OAuth{TokenURL: "https://example.org/token"}}},
	} {
		_, err := mcp.New(mcp.Options{Servers: servers, Environ: environ})
		assert.ErrorContains(t, err, want)
	}
}

// TestAProblemTellsNoKeyOfAnAddress checks that the problem of an unavailable server names its host, without the key in
// its address.
func TestAProblemTellsNoKeyOfAnAddress(t *testing.T) {
	for _, s := range []mcp.Server{
		{ID: "srv", Transport: mcp.TransportHTTP, URL: "http://127.0.0.1:1/v1/sk-canary-0123456789/mcp"},
		{ID: "srv", Transport: mcp.TransportSSE, URL: "http://127.0.0.1:1/canary-path"},
	} {
		problem := newHost(t, mcp.Options{}, s).Catalogues(t.Context())[0].Problem
		assert.NotContains(t, problem, "canary")
		assert.Contains(t, problem, "http://127.0.0.1:1/")
		assert.Contains(t, problem, "connection refused")
	}
}
