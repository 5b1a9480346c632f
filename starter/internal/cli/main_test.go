package cli

import (
	"bytes"
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/everturn/everturn/starter/internal/cli/app"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// console is a run of the program in this process, in a folder of its own.
type console struct {
	out, err bytes.Buffer
	in       *os.File
	environ  []string
	signals  chan os.Signal
}

func newConsole(t *testing.T) *console {
	t.Helper()
	t.Chdir(t.TempDir())
	return &console{signals: make(chan os.Signal, 2)}
}

// run executes a command line and returns its exit code.
func (c *console) run(t *testing.T, args ...string) int {
	t.Helper()
	c.out.Reset()
	c.err.Reset()
	a := &app.App{Streams: app.Streams{In: c.in, Out: &c.out, Err: &c.err}, Program: "everturn", Environ: c.environ}
	return execute(context.WithoutCancel(t.Context()), a, args, c.signals)
}
