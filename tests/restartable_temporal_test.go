package tests

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/internal/devserver"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/tests/loopback"
	"github.com/everturn/everturn/tests/proc"
	"github.com/everturn/everturn/workflows"
)

// restartableTemporal is a Temporal server of one test that can be stopped and started again at the same address.
type restartableTemporal struct {
	t       *testing.T
	address string
	client  client.Client
	args    []string
	path    string
	kill    func()
}

// newRestartableTemporal starts a server. With a database the server keeps its state across restarts; without one it
// keeps everything in memory, which is several times faster. It suggests continue-as-new after that many events; 0
// means the server's default. Start it before its harness, so that it still runs when the harness replays its
// histories.
func newRestartableTemporal(t *testing.T, database string, suggest int) *restartableTemporal {
	t.Helper()
	path, err := temporalServer()
	require.NoError(t, err)
	port, err := loopback.Port()
	require.NoError(t, err)
	m := &restartableTemporal{t: t, address: "127.0.0.1:" + strconv.Itoa(port), path: path, kill: func() {}}
	m.args = strings.Fields("server start-dev --headless --ip 127.0.0.1 --log-level never --namespace " +
		temporalconn.DefaultNamespace + " --port " + strconv.Itoa(port))
	settings := devserver.DynamicConfig()
	if suggest > 0 {
		settings = append(settings, "limit.historyCount.suggestContinueAsNew="+strconv.Itoa(suggest))
	}
	for _, s := range settings {
		m.args = append(m.args, "--dynamic-config-value", s)
	}
	if database != "" {
		m.args = append(m.args, "--db-filename", database)
	}
	m.start()
	t.Cleanup(func() { m.kill() })
	m.client = m.dial(m.address)
	return m
}

// temporalServer returns the path of the server's program. To find it takes seconds.
var temporalServer = sync.OnceValues(func() (string, error) {
	path, _, err := devserver.FindTemporal(context.Background(),
		devserver.Options{Progress: os.Stderr, Environ: os.Environ()})
	return path, err
})

// start starts the server and waits until it accepts requests.
func (m *restartableTemporal) start() {
	m.t.Helper()
	cmd := exec.Command(m.path, m.args...)
	ended, err := proc.Start(cmd)
	require.NoError(m.t, err)
	m.kill = func() {
		_ = cmd.Process.Kill() // the process may have exited already
		<-ended
	}
	require.Eventually(m.t, func() bool {
		c, err := client.DialContext(m.t.Context(), client.Options{HostPort: m.address, Logger: quiet})
		if err != nil {
			return false
		}
		defer c.Close()
		return temporalconn.EnsureAttributes(m.t.Context(), c, temporalconn.DefaultNamespace,
			workflows.SearchAttributes()) == nil
	}, within, 50*time.Millisecond, "the server does not answer")
}

// dial returns a client of this server, or of a proxy in front of it.
func (m *restartableTemporal) dial(address string) client.Client {
	m.t.Helper()
	c, err := temporalconn.Dial(context.WithoutCancel(m.t.Context()), temporalconn.Options{Address: address})
	require.NoError(m.t, err)
	m.t.Cleanup(c.Close)
	return c
}

// serves moves a harness without a worker to this server.
func (m *restartableTemporal) serves(e *env) { e.client, e.cfg.Temporal.Address = m.client, m.address }
