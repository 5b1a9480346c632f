package devstack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// start runs a supervisor for the server and waits until the server answers. The supervisor lives in a session of its
// own, so that Ctrl-C in the user's terminal does not reach it.
func start(ctx context.Context, o Options, binary string) error {
	version, err := binaryVersion(ctx, binary)
	if err != nil {
		return err
	}
	if err := stamp(o.Dir, version); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	host, port, err := net.SplitHostPort(o.Address)
	if err != nil {
		return fmt.Errorf("reading the address %s: %w", o.Address, err)
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return fmt.Errorf("finding the state folder: %w", err)
	}
	logFile := filepath.Join(dir, "temporal.log")
	args := append([]string{CommandName, "--dir", dir, "--", binary}, serverArgs(dir, host, port, o)...)
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("opening the server's log: %w", err)
	}
	defer out.Close()
	cmd := exec.Command(self, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, o.Environ, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	if err := awaitServer(ctx, o.Address, gone); err != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		return fmt.Errorf("%w; the end of %s says:\n%s", err, logFile, tail(out, 2000))
	}
	return nil
}

// serverArgs are the flags of the development server. The dynamic configuration takes out the 100 ms that its defaults
// make every task wait on SQLite, and the partitions that make one wait for two seconds now and then.
func serverArgs(dir, host, port string, o Options) []string {
	args := []string{"server", "start-dev", "--ip", host, "--port", port, "--ui-port", strconv.Itoa(o.UIPort), "--ui-ip", host,
		"--namespace", o.Namespace, "--db-filename", filepath.Join(dir, "temporal.db"),
		"--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=1", "--log-level", "warn"}
	for _, kv := range []string{
		"history.transferProcessorMaxPollRPS=100000", "history.timerProcessorMaxPollRPS=100000",
		"history.visibilityProcessorMaxPollRPS=100000", "matching.numTaskqueueReadPartitions=1",
		"matching.numTaskqueueWritePartitions=1", "system.forceSearchAttributesCacheRefreshOnRead=true",
	} {
		args = append(args, "--dynamic-config-value", kv)
	}
	return args
}

// stamp notes the server's version beside its database and refuses another one: SQLite has no schema upgrade, and a
// database of another version would open silently with columns missing.
func stamp(dir, version string) error {
	file := filepath.Join(dir, "temporal.version")
	b, err := os.ReadFile(file)
	have := strings.TrimSpace(string(b))
	switch {
	case errors.Is(err, os.ErrNotExist) || err == nil && have == version:
	case err != nil:
		return fmt.Errorf("reading the server's version: %w", err)
	case noDatabase(dir):
	default:
		return refuse("%s was written by Temporal server %s and this one is %s: use that version, or move %s* away (the journal keeps every transcript)",
			filepath.Join(dir, "temporal.db"), have, version, filepath.Join(dir, "temporal.db"))
	}
	if err := os.WriteFile(file, []byte(version+"\n"), 0o600); err != nil {
		return fmt.Errorf("noting the server's version: %w", err)
	}
	return nil
}

func noDatabase(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "temporal.db"))
	return errors.Is(err, os.ErrNotExist)
}
