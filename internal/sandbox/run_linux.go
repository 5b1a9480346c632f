package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// selfInside is the path of this program in the namespaces of a command.
const selfInside = "/.everturn"

// run runs a command. dir is an empty directory for its temporary files and for those that the sandbox brings.
func (s *Sandbox) run(ctx context.Context, c Command, dir string) (Exit, error) {
	p, err := s.plan(c, dir)
	if err != nil {
		return Exit{}, err
	}
	planned, err := memoryFile(p)
	if err != nil {
		return Exit{}, err
	}
	defer planned.Close()
	if p.Command.Network == NetworkProxy && c.Serve != nil {
		stop, err := c.serveProxy(filepath.Join(dir, "etc"))
		if err != nil {
			return Exit{}, err
		}
		defer stop()
	}
	return s.supervise(ctx, c, planned)
}

// plan returns what the stages of a command do.
func (s *Sandbox) plan(c Command, dir string) (plan, error) {
	tmp, etc := filepath.Join(dir, "tmp"), filepath.Join(dir, "etc")
	if err := errors.Join(os.Mkdir(tmp, 0o700), os.Mkdir(etc, 0o700)); err != nil {
		return plan{}, fmt.Errorf("making a temporary directory: %w", err)
	}
	network := s.o.Network
	if c.Place.Network == NetworkNone {
		network = NetworkNone
	}
	p := plan{Supervisor: supervisor{Parent: os.Getpid(), Limits: s.o.Limits}}
	var err error
	if s.o.Level == LevelNamespace {
		p.Supervisor.Argv, p.Command, err = s.namespace(c.Place, tmp, etc, network)
	} else {
		p.Supervisor.Argv = []string{s.self}
		p.Command, err = s.outside(c.Place, tmp)
	}
	p.Command.Line, p.Command.Limits = c.Line, s.o.Limits
	p.Command.Level, p.Command.Network = s.o.Level, network
	p.Supervisor.Environ = []string{stageVariable + "=" + stageConfine}
	return p, err
}

// supervise starts the first stage, which reads its plan from this file, and waits for its end.
func (s *Sandbox) supervise(ctx context.Context, c Command, planned *os.File) (Exit, error) {
	limited, limits, err := os.Pipe()
	if err != nil {
		return Exit{}, err
	}
	defer limited.Close()
	cmd := exec.CommandContext(ctx, s.self)
	cmd.Dir, cmd.Env = c.Place.Root, []string{stageVariable + "=" + stageSupervise}
	cmd.ExtraFiles = []*os.File{planned, limits}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Input, c.Output, c.Output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second // until the supervisor has ended all processes, which takes milliseconds
	// The kernel signals the supervisor when the thread that started it ends, so that must not end before.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	limits.Close()
	if err != nil {
		return Exit{}, fmt.Errorf("starting the command: %w", err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return Exit{}, ctx.Err()
	case err != nil && !errors.As(err, &exit):
		return Exit{}, fmt.Errorf("running the command: %w", err)
	}
	limit, _ := io.ReadAll(limited)
	return Exit{Code: cmd.ProcessState.ExitCode(), Limit: string(limit)}, nil
}

// memoryFile returns a file in memory with the plan as JSON.
func memoryFile(p plan) (*os.File, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("plan", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("passing the command on: %w", err)
	}
	f := os.NewFile(uintptr(fd), "plan")
	if _, err := f.Write(text); err != nil {
		return nil, errors.Join(fmt.Errorf("passing the command on: %w", err), f.Close())
	}
	return f, nil
}

// outside returns what a command may do that runs in the file system of the machine.
func (s *Sandbox) outside(place Place, tmp string) (confined, error) {
	for _, dir := range machineDirs {
		if s.o.Level == LevelLandlock && isBelow(place.Root, realPath(dir)) {
			return confined{}, fmt.Errorf("commands read all of %s, so they cannot be confined to %s: move it, or use "+
				"bubblewrap (level = %q of [sandbox])", dir, place.Root, LevelNamespace)
		}
	}
	c := confined{Environ: s.variables(tmp, cacheOf(place, tmp), NetworkNone), List: []string{place.Root},
		Read: append(append(append([]string{}, machineDirs...), machineFiles...), s.read...)}
	if s.o.Level == LevelNone {
		c.Environ = s.variables(tmp, cacheOf(place, tmp), NetworkHost)
	}
	c.Environ = append(c.Environ, "GIT_CONFIG_GLOBAL="+s.gitConfig(tmp))
	c.HomeDirs = []string{filepath.Join(tmp, "home"), cacheOf(place, tmp)}
	c.Read = append(c.Read, "/etc/hosts", "/etc/nsswitch.conf")
	c.Read = append(c.Read, visible(place.Root, place.Hidden)...)
	for _, b := range place.Binds {
		c.Read = append(c.Read, b.Source)
	}
	c.Write = append(append([]string{tmp}, place.Write...), cacheOf(place, tmp))
	return c, nil
}

// cacheOf returns the directory of a command's caches.
func cacheOf(place Place, tmp string) string {
	if place.Cache == "" {
		return filepath.Join(tmp, "cache")
	}
	return place.Cache
}

// visible returns dir if nothing in it is hidden. Otherwise it returns the entries of dir, and of its directories, that
// contain nothing hidden, because Landlock can permit a directory only with everything below. It leaves out symbolic
// links: Landlock permits the target of a link, not the link.
func visible(dir string, hidden []string) (out []string) {
	inside := false
	for _, h := range hidden {
		if isBelow(dir, h) {
			return nil
		}
		inside = inside || isBelow(h, dir)
	}
	if !inside {
		return []string{dir}
	}
	entries, _ := os.ReadDir(dir) // what cannot be read here is not permitted
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			out = append(out, visible(filepath.Join(dir, e.Name()), hidden)...)
		}
	}
	return out
}

// gitConfig writes the configuration of git for commands into tmp and returns its path.
func (s *Sandbox) gitConfig(tmp string) string {
	path := filepath.Join(tmp, "gitconfig")
	_ = os.WriteFile(path, []byte(gitSettings), 0o600) // without it, git asks for nothing more than its defaults
	return path
}

// gitSettings are the settings of git for commands: no repository is refused for its owner, because the sandbox maps
// users.
const gitSettings = "[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n"

// found returns the path of a program on PATH, or "". A program in the working directory does not count: it may have
// come with a repository.
func found(environ environment, name string) string {
	here, _ := os.Getwd()
	for _, dir := range filepath.SplitList(environ.get("PATH")) {
		path := filepath.Join(dir, name)
		if !filepath.IsAbs(dir) || here != "" && isBelow(realPath(path), realPath(here)) {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// trimmed returns the last lines of a text, for an error message.
func trimmed(text string) string {
	const most = 600
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-most):]
}
