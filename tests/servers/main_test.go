package servers

import (
	"flag"
	"os"
	"testing"

	"github.com/everturn/everturn/internal/devserver"
	"github.com/everturn/everturn/tests/temporaltest"
)

// stack is the real Temporal server that all tests of this package share.
var stack *devserver.Stack

func TestMain(m *testing.M) {
	temporaltest.Supervise()
	flag.Parse()
	os.Exit(temporaltest.Main(m, &stack))
}
