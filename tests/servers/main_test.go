package servers

import (
	"flag"
	"log/slog"
	"os"
	"testing"

	"go.temporal.io/sdk/log"

	"github.com/everturn/everturn/starter/devstack"
	"github.com/everturn/everturn/tests/temporaltest"
)

var quiet = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

// stack is the real Temporal server that all tests of this package share.
var stack *devstack.Stack

func TestMain(m *testing.M) {
	temporaltest.Supervise()
	flag.Parse()
	os.Exit(temporaltest.Main(m, &stack))
}
