package engine

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
)

func TestTelemetryIsOffUntilItIsAskedFor(t *testing.T) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"} {
		t.Setenv(name, "")
	}
	open := func(cfg config.Config) (*Engine, error) {
		e := newEngine(cfg, nil)
		require.NoError(t, e.openModel(t.Context()))
		t.Cleanup(func() { assert.NoError(t, e.Close()) })
		return e, e.openTelemetry(t.Context())
	}
	e, err := open(config.Default())
	require.NoError(t, err)
	assert.Nil(t, e.telemetry)
	assert.Nil(t, e.observed(nil), "the journal is not wrapped")

	t.Setenv("OTEL_TRACES_EXPORTER", "nonsense")
	_, err = open(config.Default())
	assert.ErrorIs(t, err, config.ErrInvalid)
	t.Setenv("OTEL_TRACES_EXPORTER", "none")

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	host, port, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)
	t.Setenv("OTEL_METRICS_EXPORTER", "prometheus")
	t.Setenv("OTEL_EXPORTER_PROMETHEUS_HOST", host)
	t.Setenv("OTEL_EXPORTER_PROMETHEUS_PORT", port)
	_, err = open(config.Default())
	assert.ErrorIs(t, err, config.ErrInvalid)
	assert.ErrorContains(t, err, "OTEL_EXPORTER_PROMETHEUS_HOST")
}
