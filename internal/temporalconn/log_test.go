package temporalconn

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
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
