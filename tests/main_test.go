package tests

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
	if !given("test.parallel") {
		flag.Set("test.parallel", "8") // these tests mostly wait for processes and timeouts
	}
	code := temporaltest.Main(m, &stack)
	removeBinaries()
	os.Exit(code)
}

// given reports whether a flag was on the command line.
func given(name string) bool {
	found := false
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}
