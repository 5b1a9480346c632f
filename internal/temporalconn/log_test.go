package temporalconn

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/codec"
	"github.com/everturn/everturn/codec/codectest"
)

func TestAStoppedActivityIsNoErrorOfTheLog(t *testing.T) {
	var out bytes.Buffer
	logger := log.With(log.NewStructuredLogger(Options{Logger: slog.New(slog.NewTextHandler(&out, nil))}.logger()),
		"Namespace", "default")
	logger.Error("Activity error.", "Error", temporal.NewCanceledError())
	assert.Regexp(t, `^time=\S+ level=INFO msg="Activity error." Namespace=default Error=canceled\n$`, out.String())
	out.Reset()
	logger.Error("Activity error.", "Error", errors.New("broken"))
	assert.Contains(t, out.String(), "level=ERROR")
	out.Reset()
	quiet := log.NewStructuredLogger(Options{
		Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))}.logger())
	quiet.Error("Activity error.", "Error", temporal.NewCanceledError())
	assert.Empty(t, out.String())
}

func TestTheLogOfAnEncryptingWorkerQuotesNoContent(t *testing.T) {
	keys := codectest.Keys(t)
	var out bytes.Buffer
	logger := log.NewStructuredLogger(Options{Keys: keys, Logger: slog.New(slog.NewTextHandler(&out, nil))}.logger())
	refused := temporal.NewApplicationError("the provider says: canary", "llm_rejected", "canary")
	logger.Error("Activity error.", "Attempt", 1, "Error", refused)
	logger.Warn("activity failed", "code", "llm_rejected", "message", "canary", "cause", errors.New("canary"))
	logger.Error("Activity panic.", "PanicError", "canary")
	logger.Error("LocalActivity panic.", "PanicError", "canary")
	logger.Info("Activity complete after timeout.", "Error", errors.New("canary"))
	own := slog.New(ContentFree(slog.NewTextHandler(&out, nil)))
	own.Warn("an MCP server refused a call", "server", "ledger", "it said", "canary", "server_text", "canary", "problem", "canary")
	again := log.NewStructuredLogger(Options{Keys: keys, Logger: own}.logger())
	again.Error("Activity error.", "Error", refused)
	assert.Equal(t, 2, strings.Count(out.String(), "llm_rejected (the text"), "wrapped once")
	again.Warn("the write is repeated", "cause", errors.New("canary"))
	assert.NotContains(t, out.String(), "canary")
	assert.Contains(t, out.String(), "Attempt=1")
	assert.Contains(t, out.String(), "llm_rejected (the text")
	out.Reset()
	_, err := codectest.Keys(t).Open(must(keys.Seal([]byte("x"), nil))(t), nil)
	require.ErrorIs(t, err, codec.ErrUnknownKey)
	logger.Error("Activity error.", "Error", err)
	assert.Contains(t, out.String(), "unknown encryption key", "what an operator must correct is there")
}

func must[V any](v V, err error) func(*testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}
