package servers

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/everturn/everturn/cluster"
	"github.com/everturn/everturn/starter/devstack"
	"github.com/everturn/everturn/workflows"
)

var quiet = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

// stack is the real Temporal server that all tests of this package share.
var stack *devstack.Stack

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == devstack.CommandName {
		os.Exit(supervise())
	}
	flag.Parse()
	code, err := withServer(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
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
	dir, err := os.MkdirTemp("", "everturn-servers-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
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

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
