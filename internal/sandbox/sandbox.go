package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Level is how a command is isolated.
type Level string

// The levels, from the strongest.
const (
	LevelNamespace Level = "namespace" // bubblewrap, Landlock and a filter of system calls
	LevelLandlock  Level = "landlock"  // Landlock and a filter of system calls
	LevelNone      Level = "none"
)

// Network is what a command reaches by network.
type Network string

// The networks.
const (
	NetworkNone     Network = "none"     // no sockets but those between the command's own processes
	NetworkLoopback Network = "loopback" // a loopback interface of the command's own
	NetworkProxy    Network = "proxy"    // a loopback interface of the command's own, with an HTTP proxy on it
	NetworkHost     Network = "host"     // everything that the machine reaches, its own services too
)

// Options configure a Sandbox.
type Options struct {
	Level   Level
	Network Network
	// Read are files and directories outside of the tree that commands may read, besides the machine's programs.
	Read []string
	// Environ is the environment of this process. Commands get only the variables that this package and Variables name.
	Environ   []string
	Variables []string
	Limits    Limits
}

// Limits are the limits of a command with all of its processes.
type Limits struct {
	Processes int
	Memory    int64 // bytes of memory
	File      int64 // bytes of one file
}

// Bind makes a directory of the machine readable for a command.
type Bind struct {
	Source string
	// Target is the path at which the command finds it; empty means Source. LevelLandlock and LevelNone have no other
	// paths than the machine's.
	Target string
}

// Place is where a command runs, and what it may read and write there. Its paths are absolute and without symbolic
// links.
type Place struct {
	// Root is the tree: the command's working directory, which it may read.
	Root string
	// Write are directories in Root, or Root itself, that the command may write.
	Write []string
	// Hidden are files and directories in Root that the command must not read.
	Hidden []string
	// ForeignGit means that Root is a repository that also the user uses: the command reads its configuration without
	// credentials. LevelLandlock cannot do that; hide .git there.
	ForeignGit bool
	// Binds are directories outside of Root that the command may read.
	Binds []Bind
	// Cache is a directory for the caches of compilers and package managers, which the command may write. It outlives the
	// command. Commands that share it can change each other's results, so each repository should have its own. Empty means
	// that the caches are temporary.
	Cache string
	// Network overrides Options.Network for a stricter one, if it is set.
	Network Network
}

// Command is a command to run.
type Command struct {
	Line  string // for sh -c
	Place Place
	// Output gets what the command writes to its standard output and its standard error, in the order in which it writes.
	Output io.Writer
	Input  io.Reader // nil means that the command reads nothing
	// Serve serves the connections to the command's HTTP proxy, with NetworkProxy, until the listener is closed. Nil means
	// that nothing answers there.
	Serve func(net.Listener)
}

// MaxLine is the maximum length of a command line in bytes. The kernel refuses an argument of 128 KiB.
const MaxLine = 128<<10 - 1

// Sandbox runs commands. Create one with Open.
type Sandbox struct {
	o       Options
	bwrap   string   // the path of bubblewrap, if the level needs it
	self    string   // the path of this program
	systems []string // arguments of bubblewrap for the directories of the machine
	read    []string // directories and files outside of the tree that commands may read
	modules string   // the user's cache of Go modules, or "" if there is none

	proxyAsked bool // the options demand NetworkProxy
}

// Level returns the level that holds.
func (s *Sandbox) Level() Level { return s.o.Level }

// Network returns the network that commands have. It may be stricter than the one of the options: only LevelNamespace
// has a loopback interface of its own.
func (s *Sandbox) Network() Network { return s.o.Network }

// noProxy says in String that there is no proxy, although the options demand one.
const noProxy = " (network = \"proxy\" needs level = \"namespace\")"

// String describes the isolation in one line.
func (s *Sandbox) String() string {
	network := map[Network]string{NetworkNone: "no network", NetworkLoopback: "a loopback network of its own",
		NetworkProxy: "a loopback network of its own, with an HTTP proxy to the hosts that are listed",
		NetworkHost:  "the machine's network"}[s.o.Network]
	if s.proxyAsked && s.o.Network != NetworkProxy {
		network += noProxy
	}
	switch s.o.Level {
	case LevelNamespace:
		return "namespaces (bubblewrap), Landlock and a filter of system calls; " + network
	case LevelLandlock:
		return "Landlock and a filter of system calls; " + network
	}
	return "no isolation; " + network
}

// Isolated reports whether a command can change nothing but its tree and its caches, and can send nothing, except to
// the hosts that the operator has listed.
func (s *Sandbox) Isolated() bool { return s.o.Level == LevelNamespace && s.o.Network != NetworkHost }

// ErrUnavailable means that this machine cannot run commands with the level of the options. The message says what to
// do.
var ErrUnavailable = errors.New("commands cannot be isolated")

// Exit is how a command ended.
type Exit struct {
	// Code is the exit code; that of a command which a signal has ended is 128 and the signal's number, as in a shell.
	Code int
	// Limit says which limit the command exceeded, if it was ended for that.
	Limit string
}

// realPath returns the path without symbolic links, or the path itself if it does not exist.
func realPath(path string) string {
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	return filepath.Clean(path)
}

// isBelow reports whether a path is dir or in it.
func isBelow(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// check returns an error if the command cannot be run as it is described.
func (s *Sandbox) check(c Command) error {
	switch {
	case strings.TrimSpace(c.Line) == "" || strings.ContainsRune(c.Line, 0):
		return errors.New("the command is empty or has a NUL")
	case len(c.Line) > MaxLine:
		return fmt.Errorf("the command is %d bytes; the maximum is %d: write a script and run it", len(c.Line), MaxLine)
	case !filepath.IsAbs(c.Place.Root):
		return fmt.Errorf("the tree %q is no absolute path", c.Place.Root)
	}
	for _, dir := range c.Place.Write {
		if !isBelow(dir, c.Place.Root) {
			return fmt.Errorf("the command may not write %s: it is outside of %s", dir, c.Place.Root)
		}
	}
	return nil
}

// Run runs a command and waits until all of its processes have ended, those in the background too. When ctx ends, Run
// ends them all. The error is that of ctx, or says why the command was not run.
func (s *Sandbox) Run(ctx context.Context, c Command) (Exit, error) {
	if err := s.check(c); err != nil {
		return Exit{}, err
	}
	tmp, err := os.MkdirTemp("", "everturn-command-")
	if err != nil {
		return Exit{}, fmt.Errorf("making a temporary directory: %w", err)
	}
	defer removeAll(tmp)
	return s.run(ctx, c, realPath(tmp))
}

// removeAll removes a directory that a command has filled, with directories that it has made unreadable. What cannot be
// removed is left to the system, which cleans up its temporary directory.
func removeAll(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}
