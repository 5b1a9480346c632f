package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/everturn/everturn/journal/postgres"
)

// Required is the environment variable that makes a missing Postgres an error if it is "1". Otherwise tests are
// skipped.
const Required = "EVERTURN_POSTGRES_REQUIRED"

// startTimeout bounds the server's start and end.
const startTimeout = time.Minute

// Server is a running Postgres server.
type Server struct {
	dir      string // of data and socket
	programs string
	settings []string
	port     string // parameter of the URL; empty for the usual one
	cmd      *exec.Cmd
	done     chan error // the server's end
	keep     bool       // the data outlive Close
	schemas  atomic.Int64
}

// Start returns a new server, or skips the test if Postgres is not installed. It ends with the test. Settings are those
// of postgresql.conf, "name=value". By default the server does not wait for the disk.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := New(t.Context(), settings...)
	if errors.Is(err, exec.ErrNotFound) && os.Getenv(Required) != "1" {
		t.Skipf("Postgres is not installed (%v); %s=1 makes this an error", err, Required)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// New is Start for programs that are not tests. Its error wraps exec.ErrNotFound if Postgres is not installed.
func New(ctx context.Context, settings ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "everturn-pg")
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, dir, false, slices.Concat([]string{"fsync=off"}, settings))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// Open is New for data that are kept: it starts the server of dir, which it creates the first time. dir also has the
// server's socket. The user nobody runs the server of root, and must be able to reach dir.
func Open(ctx context.Context, dir string, settings ...string) (*Server, error) {
	return open(ctx, dir, true, settings)
}

func open(ctx context.Context, dir string, keep bool, settings []string) (_ *Server, err error) {
	s := &Server{dir: dir, settings: settings, keep: keep}
	for _, setting := range settings {
		if strings.HasPrefix(setting, "port=") {
			s.port = "&" + setting
		}
	}
	if s.programs, err = programs(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	uid, gid := owner()
	if err := os.Chown(s.dir, uid, gid); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(s.data(), "PG_VERSION")); err != nil {
		initdb := s.command("initdb", "-D", s.data(), "-A", "trust", "-U", "everturn", "-E", "UTF8", "--locale=C",
			"--no-sync")
		if out, err := initdb.CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("initdb: %w: %s", err, out), os.RemoveAll(s.data()))
		}
	}
	if err := s.Run(ctx); err != nil {
		return nil, errors.Join(err, s.end(syscall.SIGQUIT))
	}
	return s, nil
}

// Dir is the folder of the server's socket.
func (s *Server) Dir() string { return s.dir }

// Port is the server's port, if it is not the usual one.
func (s *Server) Port() string { return strings.TrimPrefix(s.port, "&port=") }

// Program is the path of a program of Postgres.
func (s *Server) Program(name string) string { return filepath.Join(s.programs, name) }

// Command returns a command with a program of Postgres, which the server's user runs.
func (s *Server) Command(program string, args ...string) *exec.Cmd {
	return s.command(program, args...)
}

// programs finds the folder of initdb and postgres: the one of PATH, or the newest of Debian's.
func programs() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		path, err = filepath.EvalSymlinks(path)
		return filepath.Dir(path), err
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("postgres: %w: install the package postgresql", exec.ErrNotFound)
	}
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(found[len(found)-1]), nil
}

func version(program string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(program)))) // others sort first
	return n
}

// owner is the user that runs the server, which refuses root: Debian's user nobody, or this user.
func owner() (uid, gid int) {
	if os.Getuid() == 0 {
		return 65534, 65534
	}
	return os.Getuid(), os.Getgid()
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.programs, program), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		uid, gid := owner()
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return cmd
}

// Run starts the server again after Kill, and waits until it takes connections.
func (s *Server) Run(ctx context.Context) error {
	args := []string{"-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "shared_buffers=32MB", "-c",
		"max_connections=200"}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	var log bytes.Buffer
	s.cmd, s.done = s.command("postgres", args...), make(chan error, 1)
	s.cmd.Stderr = &log
	s.cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	if err := startAndWait(s.cmd, s.done); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := s.Exec(ctx, s.URL(), "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case end := <-s.done:
			s.cmd = nil
			return fmt.Errorf("the server ended: %w: %s", end, log.Bytes())
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond): // it offers no event
		}
	}
}

// startAndWait starts a command on a thread that lives as long as it does: Pdeathsig comes with the end of the thread.
func startAndWait(cmd *exec.Cmd, done chan<- error) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			done <- cmd.Wait()
		}
	}()
	return <-started
}

// URL is the server's database.
func (s *Server) URL() string { return "postgres:///postgres?user=everturn&host=" + s.dir + s.port }

// Exec runs a statement beside the journal's own connections.
func (s *Server) Exec(ctx context.Context, url, statement string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// Empty returns the URL of a new schema without tables.
func (s *Server) Empty(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("j%d", s.schemas.Add(1))
	if err := s.Exec(t.Context(), s.URL(), "CREATE SCHEMA "+name); err != nil {
		t.Fatal(err)
	}
	return s.URL() + "&search_path=" + name
}

// Journal returns the URL of a new, empty journal.
func (s *Server) Journal(t testing.TB) string {
	t.Helper()
	url := s.Empty(t)
	if _, err := postgres.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return url
}

// Cut ends all connections to the server but its own.
func (s *Server) Cut(ctx context.Context) error {
	return s.Exec(ctx, s.URL(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "+
		"AND backend_type = 'client backend'")
}

// Kill ends the server and its children with SIGKILL.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

// end signals the server's process group. SIGQUIT ends all of it at once.
func (s *Server) end(signal syscall.Signal) error {
	if s.cmd == nil {
		return nil
	}
	if err := syscall.Kill(-s.cmd.Process.Pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	select {
	case <-s.done:
		s.cmd = nil
		return nil
	case <-time.After(startTimeout):
		return fmt.Errorf("the server did not end within %v", startTimeout)
	}
}

// Close ends the server and removes its data, unless Open started it.
func (s *Server) Close() error {
	if s.keep {
		return s.end(syscall.SIGINT) // closes connections, then writes everything
	}
	return errors.Join(s.end(syscall.SIGQUIT), os.RemoveAll(s.dir))
}
