package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/internal/devserver"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/tests/loopback"
	"github.com/everturn/everturn/tests/temporaltest"
)

// server is a Temporal server with a database on disk. It can be killed and started again with the same database.
type server struct {
	binary, dir, address string
	args                 []string
	process              *process
	starts               int
}

// findServer finds or builds the server's program.
func findServer(ctx context.Context, progress io.Writer) (string, error) {
	path, _, err := devserver.FindTemporal(ctx, devserver.Options{Progress: progress, Environ: os.Environ()})
	return path, err
}

// newServer starts a server and prepares its namespace.
func newServer(ctx context.Context, binary, dir string) (*server, error) {
	port, err := loopback.Port()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := &server{binary: binary, dir: dir, address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	s.args = []string{"server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", strconv.Itoa(port),
		"--namespace", temporalconn.DefaultNamespace, "--db-filename", filepath.Join(dir, "temporal.db"),
		"--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=1", "--log-level", "warn"}
	for _, kv := range devserver.DynamicConfig() {
		s.args = append(s.args, "--dynamic-config-value", kv)
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, temporaltest.Prepare(ctx, s.address)
}

// start starts the server, or restarts it, and waits until it answers.
func (s *server) start(ctx context.Context) (err error) {
	s.starts++
	log := filepath.Join(s.dir, fmt.Sprintf("server-%d.log", s.starts))
	if s.process, err = spawn(log, s.binary, os.Environ(), s.args...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return await(ctx, "the Temporal server on "+s.address, func() bool {
		c, err := client.DialContext(ctx, client.Options{HostPort: s.address, Logger: quiet})
		if err != nil {
			return false
		}
		defer c.Close()
		_, err = c.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err == nil
	})
}

func (s *server) close() {
	if s != nil && s.process != nil {
		_ = s.process.end(5 * time.Second) // only its end matters
	}
}
