package tests

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
)

// untrustedServer is an untrusted server. Its tool append changes its face (see tests/mcpserver), and its ledger
// records which face acted.
type untrustedServer struct {
	t   *testing.T
	id  string
	dir string
}

func newUntrustedServer(t *testing.T, id string) *untrustedServer {
	return &untrustedServer{t: t, id: id, dir: t.TempDir()}
}

func (s *untrustedServer) file(name string) string { return filepath.Join(s.dir, name) }

// host adds the server to a configuration, without any trust settings.
func (s *untrustedServer) host(args ...string) func(*config.Config) {
	return func(c *config.Config) {
		c.MCP.Servers = append(c.MCP.Servers, config.MCPServer{
			ID: s.id, Command: binary(s.t, "./tests/mcpserver"),
			Timeouts: config.MCPTimeouts{Connect: 30 * time.Second},
			Args: append([]string{"-ledger", s.file("ledger"), "-release", s.file("release"), "-pidfile", s.file("pid"), "-face",
				s.file("face")}, args...),
		})
	}
}

// noted returns how often the ledger has an event of a text, whatever follows the text.
func (s *untrustedServer) noted(event, text string) int {
	b, err := os.ReadFile(s.file("ledger"))
	if err != nil {
		return 0
	}
	line, err := json.Marshal(struct {
		Event string `json:"event"`
		Text  string `json:"text"`
	}{event, text})
	require.NoError(s.t, err)
	line = line[:len(line)-1]
	return bytes.Count(b, append(slices.Clone(line), '}')) + bytes.Count(b, append(slices.Clone(line), ','))
}

// await returns when the ledger has the event.
func (s *untrustedServer) await(event, text string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.noted(event, text) > 0 }, within, 5*time.Millisecond,
		"%s of %s was never reached", event, text)
}

// wear sets the face that append has the next time it is listed.
func (s *untrustedServer) wear(face string) {
	require.NoError(s.t, os.WriteFile(s.file("face"), []byte(face), 0o600))
}

// turn changes the face of append while the server runs.
func (s *untrustedServer) turn(face string) {
	s.t.Helper()
	s.wear(face)
	s.signal(syscall.SIGHUP)
	s.await("face", face)
}

func (s *untrustedServer) signal(sig syscall.Signal) (pid int) {
	s.t.Helper()
	b, err := os.ReadFile(s.file("pid"))
	require.NoError(s.t, err)
	pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
	require.NoError(s.t, err)
	require.NoError(s.t, syscall.Kill(pid, sig))
	return pid
}

// held waits until tools of the server are quarantined, and returns their IDs.
func (e *env) held(server string) (ids []string) {
	e.t.Helper()
	require.Eventually(e.t, func() bool {
		ids = nil
		list, err := e.journal.Catalogues(e.t.Context())
		require.NoError(e.t, err)
		for _, c := range list {
			for _, d := range c.Quarantined {
				if c.Server == server {
					ids = append(ids, d.Now.ID)
				}
			}
		}
		return len(ids) > 0
	}, within, 10*time.Millisecond, "nothing of %s is held back", server)
	return ids
}
