package telemetry_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/internal/telemetry"
)

func TestOnlySecretHeadersAreCredentials(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Scope-OrgID=production,Authorization=Bearer%20t0ken-of-the-exporter")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS",
		"x-honeycomb-dataset=a,x-honeycomb-team=hcaik01abcdefghijklmnop,api-key=k3y-of-traces")
	got := telemetry.Credentials()
	assert.Contains(t, got, "t0ken-of-the-exporter")
	assert.Contains(t, got, "k3y-of-traces")
	assert.Contains(t, got, "hcaik01abcdefghijklmnop")
	assert.NotContains(t, got, "production")
	assert.NotContains(t, got, "a")
}
