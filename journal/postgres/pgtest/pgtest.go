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
	dir      string     // has the socket and, in data, the database
	programs string     // the folder of Postgres's programs
	settings []string   // of postgresql.conf, "name=value"
	port     string     // the URL's parameter "&port=…"; empty for the default port
	cmd      *exec.Cmd  // the server's process; nil if none runs
	done     chan error // gets the result of cmd.Wait
	keep     bool       // Close keeps the data
	schemas  atomic.Int64
}

// Start returns a new server that ends with the test, or skips the test if Postgres is not installed. settings are
// those of postgresql.conf, "name=value". By default the server does not wait for the disk (fsync=off).
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

// New is Start for programs that are not tests: the caller closes the server. Its error wraps exec.ErrNotFound if
// Postgres is not installed.
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

// Open starts a server whose data stay in dir when it is closed. It creates dir and the data the first time. dir also
// has the server's socket. If this process runs as root, the user nobody runs the server, and must be able to reach
// dir.
func Open(ctx context.Context, dir string, settings ...string) (*Server, error) {
	return open(ctx, dir, true, settings)
}

// open creates the database in dir if there is none, and starts its server. keep means that Close keeps the data.
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
	uid, gid := serverUser()
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

// Dir returns the folder of the server's socket.
func (s *Server) Dir() string { return s.dir }

// Port returns the server's port; empty for the default port.
func (s *Server) Port() string { return strings.TrimPrefix(s.port, "&port=") }

// Program returns the path of a program of Postgres, such as "psql".
func (s *Server) Program(name string) string { return filepath.Join(s.programs, name) }

// Command returns a command that runs a program of Postgres as the server's user.
func (s *Server) Command(program string, args ...string) *exec.Cmd {
	return s.command(program, args...)
}

// programs returns the folder of initdb and postgres: the one that PATH has, or that of the newest version that
// Debian's packages installed. Its error wraps exec.ErrNotFound if there is none.
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

// version returns the version in the path of a program, /usr/lib/postgresql/17/bin/postgres; 0 if it has none.
func version(program string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(program))))
	return n
}

// serverUser returns the user and group that run the server: those of this process, or those of the user nobody if it
// runs as root, because Postgres refuses to run as root.
func serverUser() (uid, gid int) {
	if os.Getuid() == 0 {
		return 65534, 65534 // nobody and nogroup on Debian
	}
	return os.Getuid(), os.Getgid()
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// command is Command. The command gets a process group of its own, which end can signal.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.programs, program), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		uid, gid := serverUser()
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return cmd
}

// Run starts the server's process, for the first time or again after Kill, and waits until it accepts connections.
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
		case <-time.After(20 * time.Millisecond): // poll: the server does not say when it is ready
		}
	}
}

// startAndWait starts a command and sends its result to done when it ends. It starts the command on a thread of its
// own, which lives as long as the command does, because the kernel sends Pdeathsig when the thread that started it
// ends.
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

// URL returns the connection string of the server's database postgres.
func (s *Server) URL() string { return "postgres:///postgres?user=everturn&host=" + s.dir + s.port }

// Exec runs a statement in the database at url, on a connection of its own.
func (s *Server) Exec(ctx context.Context, url, statement string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// Empty creates a schema without tables, and returns its URL.
func (s *Server) Empty(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("j%d", s.schemas.Add(1))
	if err := s.Exec(t.Context(), s.URL(), "CREATE SCHEMA "+name); err != nil {
		t.Fatal(err)
	}
	return s.URL() + "&search_path=" + name
}

// Journal creates an empty journal in a schema of its own, and returns its URL.
func (s *Server) Journal(t testing.TB) string {
	t.Helper()
	url := s.Empty(t)
	if _, err := postgres.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return url
}

// Cut ends all client connections to the server, as a network failure would.
func (s *Server) Cut(ctx context.Context) error {
	return s.Exec(ctx, s.URL(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "+
		"AND backend_type = 'client backend'")
}

// Kill ends the server and its children with SIGKILL.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

// end sends a signal to the server's process group and waits until the server has ended. It does nothing if no server
// runs. Postgres takes SIGINT as a clean shutdown and SIGQUIT as an immediate one.
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

// Close ends the server. It removes the server's data, unless Open started it.
func (s *Server) Close() error {
	if s.keep {
		return s.end(syscall.SIGINT) // closes connections, then writes everything
	}
	return errors.Join(s.end(syscall.SIGQUIT), os.RemoveAll(s.dir))
}
