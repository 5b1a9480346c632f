package temporaltest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/everturn/everturn/internal/devserver"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/tests/loopback"
	"github.com/everturn/everturn/workflows"
)

var quiet = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

// startTimeout includes building the server, the first time on a machine.
const startTimeout = 9 * time.Minute

// Supervise must be called first in a program that calls Start. If everturn has started the program again as the
// parent of the server, Supervise acts as that parent until the server ends, and does not return.
func Supervise() {
	if len(os.Args) < 2 || os.Args[1] != devserver.CommandName {
		return
	}
	cmd := devserver.Command(os.Stderr)
	cmd.SetArgs(os.Args[2:])
	if err := cmd.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Main runs a package's tests with a shared server; *stack is set before the first test begins. It returns the exit
// code.
func Main(m *testing.M, stack **devserver.Stack) int {
	if testing.Short() {
		fmt.Println("-short: the tests on a Temporal server are skipped")
		return 0
	}
	code, err := withServer(m, stack)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func withServer(m *testing.M, stack **devserver.Stack) (int, error) {
	dir, err := os.MkdirTemp("", "everturn-tests-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if *stack, err = Start(ctx, filepath.Join(dir, "stack"), os.Stderr); err != nil {
		return 0, err
	}
	defer (*stack).Close()
	return m.Run(), nil
}

// Start starts a server, on its own ports and with all its files in dir, and prepares its namespace. The first time on
// a machine it builds the server, which takes minutes.
func Start(ctx context.Context, dir string, progress io.Writer) (*devserver.Stack, error) {
	port, err := loopback.Port()
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	return devserver.Ensure(ctx, devserver.Options{
		Dir: dir, Address: address, Namespace: temporalconn.DefaultNamespace, Progress: progress,
		Environ: os.Environ(),
		Prepare: Prepare,
	})
}

// Prepare adds the search attributes of turns to a server's namespace.
func Prepare(ctx context.Context, address string) error {
	c, err := client.DialContext(ctx, client.Options{HostPort: address, Logger: quiet})
	if err != nil {
		return err
	}
	defer c.Close()
	return temporalconn.EnsureAttributes(ctx, c, temporalconn.DefaultNamespace, workflows.SearchAttributes())
}
