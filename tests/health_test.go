package tests

import (
	"fmt"
	"net/http"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/tests/loopback"
)

// get returns the status of a probe, or 0 if nothing answers.
func get(url string) int {
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestProbes asks a worker whether it lives and whether it is ready while Temporal goes away and comes back, and while
// the worker finishes an inference before it stops.
func TestProbes(t *testing.T) {
	t.Parallel()
	temporal := newRestartableTemporal(t, "", 0)
	gate := fakellm.NewGate()
	port, err := loopback.Port()
	require.NoError(t, err)
	e := newEnv(t, fakellm.Text("Done.").Hold(1, gate), func(c *config.Config) {
		c.Temporal.Address, c.Worker.HealthAddress = temporal.address, fmt.Sprintf(":%d", port)
		c.Worker.DrainTimeout = within
	})
	e.client = temporal.client
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	becomes := func(status int) {
		t.Helper()
		require.Eventually(t, func() bool { return get(address+"/readyz") == status }, within, 20*time.Millisecond)
	}
	check := exec.Command(binary(t, "./worker"), "--config", configFile(t, e.cfg), "--healthcheck")
	require.Error(t, check.Run(), "no worker runs")
	w := e.process()
	becomes(http.StatusOK)
	check = exec.Command(binary(t, "./starter"), "worker", "--config", configFile(t, e.cfg), "--healthcheck")
	require.NoError(t, check.Run(), "everturn worker is the same program")

	temporal.kill()
	becomes(http.StatusServiceUnavailable)
	assert.Equal(t, http.StatusOK, get(address+"/healthz"), "an outage of Temporal does not restart the worker")
	temporal.start()
	becomes(http.StatusOK)

	e.begin(t.Name(), "Hello.", nil)
	e.reach(gate)
	w.signal(syscall.SIGTERM)
	becomes(http.StatusServiceUnavailable)
	assert.Equal(t, http.StatusOK, get(address+"/healthz"), "a worker that drains is not killed")
	gate.Release()
	w.exit()
	e.open = true // whether the workflow ends before the worker is a matter of chance
}
