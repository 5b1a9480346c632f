package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/everturn/everturn/internal/statedir"
)

const (
	gitTimeout = 2 * time.Minute
	maxOutput  = 64 << 20 // bytes of git's standard output
	maxMessage = 2000     // bytes of git's standard error in an error message
)

// unconfigured are the git options with which no setting of a repository runs a program.
var unconfigured = []string{
	"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.attributesFile=/dev/null",
	"-c", "core.quotePath=false", "-c", "core.pager=cat", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
	"-c", "commit.gpgSign=false", "-c", "diff.external=", "-c", "protocol.allow=never", "-c", "log.showSignature=false",
	"-c", "fastimport.unpackLimit=1000", "-c", "core.fsync=all",
	// Hooks by configuration, of git 2.54 and newer.
	"-c", "hook.reference-transaction.enabled=false", "-c", "hook.post-index-change.enabled=false",
	"-c", "hook.pre-auto-gc.enabled=false", "-c", "hook.post-checkout.enabled=false",
}

// gitError is the error of a git command that exited with a non-zero code, or was killed by a signal (code -1).
type gitError struct {
	command string
	code    int
	message string
}

func (e *gitError) Error() string { return fmt.Sprintf("git %s: %s", e.command, e.message) }

// git runs a git command in the store, with input as its standard input, and returns its standard output. If git exits
// with an error, git returns a *gitError and the output until then.
func (s *Store) git(ctx context.Context, input []byte, args ...string) ([]byte, error) {
	return s.gitIn(ctx, s.store(), input, args...)
}

// gitIn is git in the git directory dir: that of the store, of the user's repository, or of a tree that no command has
// reached yet.
func (s *Store) gitIn(ctx context.Context, dir string, input []byte, args ...string) ([]byte, error) {
	out := &limitedBuffer{max: maxOutput}
	err := run(ctx, s.dir, bytes.NewReader(input), out, append([]string{"--git-dir=" + dir}, args...)...)
	if err == nil && out.cut {
		err = fmt.Errorf("git %s: its output exceeds %d MiB", args[0], maxOutput>>20)
	}
	return out.kept.Bytes(), err
}

// run runs git in the folder dir. Its arguments may begin with --git-dir=.
func run(ctx context.Context, dir string, input io.Reader, out io.Writer, args ...string) error {
	return gitCommand{dir: dir, timeout: gitTimeout}.run(ctx, input, out, args...)
}

// gitCommand says how git runs.
type gitCommand struct {
	dir     string
	timeout time.Duration
	environ []string // variables beside those of all commands
}

func (c gitCommand) run(ctx context.Context, input io.Reader, out io.Writer, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", append(append([]string{}, unconfigured...), args...)...)
	cmd.Dir = c.dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0",
		"GIT_LITERAL_PATHSPECS=1", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(c.dir),
		"GIT_AUTHOR_NAME=" + author, "GIT_AUTHOR_EMAIL=" + email, "GIT_COMMITTER_NAME=" + author,
		"GIT_COMMITTER_EMAIL=" + email,
	}, c.environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal for what git runs
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 30 * time.Second // whoever reads the output may be slow; all of git is killed at once
	problems := &limitedBuffer{max: maxMessage}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, out, problems
	if lock, ok := ctx.Value(lockKey{}).(*statedir.Lock); ok {
		cmd.ExtraFiles = []*os.File{lock.File()}
	}
	err := cmd.Run()
	name := args[0]
	if strings.HasPrefix(name, "--") && len(args) > 1 {
		name = args[1]
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("git %s: %w", name, ctx.Err())
	case errors.As(err, &exit):
		return &gitError{name, exit.ExitCode(), strings.TrimSpace(problems.kept.String())}
	case err != nil:
		return fmt.Errorf("running git: %w", err)
	}
	return nil
}

// lockKey is the key of the lock of a tree in the context of the git commands for a call that has the tree. They inherit
// the lock: if this process is killed, the next call waits until they have ended.
type lockKey struct{}

// limitedBuffer is a writer that keeps the first max bytes and drops the others; cut reports whether it has dropped
// any. It does not embed its buffer: io.Copy would then use a method of the buffer and bypass the limit.
type limitedBuffer struct {
	kept bytes.Buffer
	max  int
	cut  bool
}

func (l *limitedBuffer) Write(b []byte) (int, error) {
	room := min(l.max-l.kept.Len(), len(b))
	l.cut = l.cut || room < len(b)
	l.kept.Write(b[:room])
	return len(b), nil
}

// firstLine runs a git command in the store and returns the first line of its output.
func (s *Store) firstLine(ctx context.Context, args ...string) (string, error) {
	return s.firstLineIn(ctx, s.store(), args...)
}

func (s *Store) firstLineIn(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := s.gitIn(ctx, dir, nil, args...)
	first, _, _ := strings.Cut(string(out), "\n")
	return first, err
}

// refused reports whether err is that of a git command that ended by itself with an error.
func refused(err error) bool {
	var failed *gitError
	return errors.As(err, &failed) && failed.code >= 0
}
