package devserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// start starts a supervisor, which runs the server binary, and waits until the server answers.
func start(ctx context.Context, o Options, binary string) error {
	version, err := binaryVersion(ctx, o, binary)
	if err != nil {
		return err
	}
	if err := recordVersion(o.Dir, version); err != nil {
		return err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return fmt.Errorf("finding the state folder: %w", err)
	}
	args, err := serverArgs(dir, o)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, "temporal.log"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("opening the server's log: %w", err)
	}
	defer log.Close()
	cmd, err := supervisor(dir, o, append([]string{binary}, args...))
	if err != nil {
		return err
	}
	cmd.Env, cmd.Stdout, cmd.Stderr = allowedVariables(o.Environ), log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	if err := awaitServer(ctx, o.Address, gone); err != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // the supervisor may have ended
		return fmt.Errorf("%w; the end of %s says:\n%s", err, log.Name(), tail(log, 2000))
	}
	return nil
}

// supervisor returns the command that runs this program as the supervisor of a server. server is the server's command
// line. The supervisor gets its own session, so that Ctrl-C in the user's terminal does not reach it.
func supervisor(dir string, o Options, server []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, fmt.Errorf("reading the address %s: %w", o.Address, err)
	}
	_, uiPort, _ := net.SplitHostPort(UIAddress(o.Address))
	ui := net.JoinHostPort(host, uiPort)
	cmd := exec.Command(self, append([]string{CommandName, "--dir", dir, "--ui", ui, "--"}, server...)...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, nil
}

// serverArgs returns the arguments of the development server, except the Web UI's address. dir is the absolute path
// of the state folder.
func serverArgs(dir string, o Options) ([]string, error) {
	host, port, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, fmt.Errorf("reading the address %s: %w", o.Address, err)
	}
	if host == "localhost" { // the server binds to addresses, not to names
		host = "127.0.0.1"
	}
	args := []string{"server", "start-dev", "--ip", host, "--port", port,
		"--namespace", o.Namespace, "--db-filename", filepath.Join(dir, "temporal.db"),
		"--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=1", "--log-level", "warn"}
	if o.CodecURL != "" {
		args = append(args, "--ui-codec-endpoint", o.CodecURL)
	}
	for _, kv := range DynamicConfig() {
		args = append(args, "--dynamic-config-value", kv)
	}
	return args, nil
}

// DynamicConfig returns the settings of the development server's dynamic configuration, "KEY=VALUE".
func DynamicConfig() []string {
	return []string{
		// The defaults delay every task on SQLite by 100 ms.
		"history.transferProcessorMaxPollRPS=100000", "history.timerProcessorMaxPollRPS=100000",
		"history.visibilityProcessorMaxPollRPS=100000",
		// With several partitions, a task is sometimes delayed by two seconds.
		"matching.numTaskqueueReadPartitions=1", "matching.numTaskqueueWritePartitions=1",
		// Without this setting, start-dev reads the namespace from the database for each start of a workflow, one start at
		// a time, and answers "Namespace default is not found" if a read takes three seconds.
		"system.forceSearchAttributesCacheRefreshOnRead=false",
		// With this setting, a server from 1.31 on cancels the open polls of a stopping worker. Such a poll could still
		// take a task, which would be lost.
		"frontend.enableCancelWorkerPollsOnShutdown=true",
		// This closes the HTTP API, which start-dev always opens and which checks neither origin nor credentials: no
		// request has a space as its Host header. Nexus has its own paths on the same port, so it is disabled, too.
		`frontend.httpAllowedHosts=[" "]`, "system.enableNexus=false",
		// The default of server 1.32: the response to a workflow task hands the activities that it scheduled to its worker.
		"system.enableActivityEagerExecution=true",
	}
}

// recordVersion records the server's version beside its database. If there is a database, it refuses a version other
// than the recorded one: SQLite has no schema upgrade, so a database of another version opens without an error but
// lacks columns.
func recordVersion(dir, version string) error {
	file := filepath.Join(dir, "temporal.version")
	b, err := os.ReadFile(file)
	recorded := strings.TrimSpace(string(b))
	switch {
	case errors.Is(err, os.ErrNotExist) || err == nil && recorded == version:
	case err != nil:
		return fmt.Errorf("reading the server's version: %w", err)
	case hasNoDatabase(dir):
	default:
		return refuse("%s was written by Temporal server %s and this one is %s: use that version, or move %s* away (the "+
			"journal keeps every transcript)",
			filepath.Join(dir, "temporal.db"), recorded, version, filepath.Join(dir, "temporal.db"))
	}
	if err := os.WriteFile(file, []byte(version+"\n"), 0o600); err != nil {
		return fmt.Errorf("noting the server's version: %w", err)
	}
	return nil
}

// hasNoDatabase reports whether the state folder has no database of a server yet.
func hasNoDatabase(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "temporal.db"))
	return errors.Is(err, os.ErrNotExist)
}
