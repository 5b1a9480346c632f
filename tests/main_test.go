package tests

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/cluster"
	"github.com/everturn/everturn/starter/devstack"
	"github.com/everturn/everturn/workflows"
)

// stack is the real Temporal server that all tests of this package share.
var stack *devstack.Stack

// TestMain brings the server up, on ports of its own. The first time on a machine it is built, which takes minutes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == devstack.CommandName {
		os.Exit(supervise())
	}
	flag.Parse()
	if !given("test.parallel") {
		flag.Set("test.parallel", "8") // these tests mostly wait, for processes and timeouts
	}
	code, err := withServer(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

// given reports whether a flag was on the command line.
func given(name string) bool {
	found := false
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// supervise is this test binary in its second role: the parent of the server, as the starter is of its own.
func supervise() int {
	cmd := devstack.Command(os.Stderr)
	cmd.SetArgs(os.Args[2:])
	if err := cmd.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func withServer(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "everturn-tests-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	defer removeBinaries()
	ctx, cancel := context.WithTimeout(context.Background(), 9*time.Minute)
	defer cancel()
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	uiPort, err := freePort()
	if err != nil {
		return 0, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	stack, err = devstack.Ensure(ctx, devstack.Options{
		Dir: filepath.Join(dir, "stack"), Address: address, UIPort: uiPort, Namespace: cluster.DefaultNamespace,
		Progress: os.Stderr, Environ: os.Environ(),
		Prepare: func(ctx context.Context) error {
			c, err := client.DialContext(ctx, client.Options{HostPort: address, Logger: quiet})
			if err != nil {
				return err
			}
			defer c.Close()
			return cluster.EnsureAttributes(ctx, c, cluster.DefaultNamespace, workflows.SearchAttributes())
		},
	})
	if err != nil {
		return 0, err
	}
	defer stack.Close()
	return m.Run(), nil
}
