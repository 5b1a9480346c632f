package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// probeWithin bounds the trial of a sandbox. It takes some 100 ms.
const probeWithin = 10 * time.Second

// stageProbe is the stage that attacks what is outside of the sandbox.
const stageProbe = "probe"

// targets are what the probe attacks.
type targets struct {
	Secret    string // a file that must not be read
	File      string // a file whose mode and times must not change
	Port      int    // a port of the machine's loopback interface; 0: the command may reach the network
	Socket    string // a socket outside
	Abstract  string // an abstract socket
	Worker    int    // the process that runs commands
	Namespace string // that of its process ID
	Tree      string
}

// attacks are what a command must not be able to do. Each reports whether it succeeded.
var attacks = []struct {
	name string
	try  func(t targets) bool
}{
	{"read a file outside of the tree", func(t targets) bool { _, err := os.ReadFile(t.Secret); return err == nil }},
	{"change a file outside of the tree", func(t targets) bool { return opens(t.File) }},
	{"change the mode of a file outside of the tree", func(t targets) bool { return os.Chmod(t.File, 0o777) == nil }},
	{"change the times of a file outside of the tree", func(t targets) bool {
		return os.Chtimes(t.File, time.Unix(1, 0), time.Unix(1, 0)) == nil
	}},
	{"connect to the machine's loopback interface", func(t targets) bool {
		return t.Port != 0 && dials("tcp", fmt.Sprintf("127.0.0.1:%d", t.Port))
	}},
	{"connect to a socket outside of the tree", func(t targets) bool { return dials("unix", t.Socket) }},
	{"connect to an abstract socket", func(t targets) bool { return dials("unix", t.Abstract) }},
	{"signal the worker", func(t targets) bool { return syscall.Kill(t.Worker, 0) == nil && namesWorker(t) }},
	{"limit the worker", func(t targets) bool {
		var limit unix.Rlimit
		return unix.Prlimit(t.Worker, unix.RLIMIT_CPU, nil, &limit) == nil && namesWorker(t)
	}},
	{"read the worker's environment", func(t targets) bool {
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", t.Worker))
		return err == nil && namesWorker(t)
	}},
	{"change the kernel's settings", func(targets) bool { return opens("/proc/sys/kernel/core_pattern") }},
	{"make a program that runs as its owner", func(t targets) bool {
		f, err := os.OpenFile(filepath.Join(t.Tree, "setuid"), os.O_CREATE|os.O_WRONLY, 0o700)
		if err != nil {
			return false
		}
		defer f.Close()
		return unix.Fchmod(int(f.Fd()), 0o4755) == nil
	}},
	{"open a socket of the kernel", func(targets) bool {
		for _, family := range []int{unix.AF_NETLINK, unix.AF_VSOCK, unix.AF_PACKET, unix.AF_ALG} {
			if fd, err := unix.Socket(family, unix.SOCK_RAW, 0); err == nil {
				unix.Close(fd)
				return true
			}
		}
		return false
	}},
	{"make namespaces", func(targets) bool { return unix.Unshare(unix.CLONE_NEWUSER) == nil }},
	{"mount", func(t targets) bool { return unix.Mount("none", t.Tree, "tmpfs", 0, "") == nil }},
	{"trace a process", func(targets) bool { return unix.PtraceSeize(os.Getppid()) == nil }},
}

// opens reports whether a file that exists can be written.
func opens(path string) bool {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// dials reports whether an address accepts a connection.
func dials(network, address string) bool {
	conn, err := net.DialTimeout(network, address, time.Second)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// namesWorker reports whether the worker's process ID names the worker here, and not a process of another namespace.
func namesWorker(t targets) bool {
	name, err := os.Readlink("/proc/self/ns/pid")
	return err != nil || name == t.Namespace
}

// attack runs all attacks and writes the names of those that succeeded, one in a line. It ends the process.
func attack() {
	var t targets
	if len(os.Args) != 2 || json.Unmarshal([]byte(os.Args[1]), &t) != nil {
		os.Exit(exitNotRun)
	}
	for _, a := range attacks {
		if a.try(t) {
			fmt.Println("escaped:", a.name)
		}
	}
	fmt.Println("tried")
	os.Exit(0)
}

// probe runs attacks and, in a namespace, git in the sandbox. It returns an error if an attack succeeds or git fails.
func (s *Sandbox) probe(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	dir, err := os.MkdirTemp("", "everturn-probe-")
	if err != nil {
		return fmt.Errorf("making a temporary directory: %w", err)
	}
	defer removeAll(dir)
	dir = realPath(dir)
	t, closeTargets, err := s.setTargets(dir)
	if err != nil {
		return fmt.Errorf("preparing the trial of the isolation: %w", err)
	}
	defer closeTargets()
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	self := s.self
	if s.o.Level == LevelNamespace {
		self = selfInside
	}
	line := fmt.Sprintf("%s=%s %s '%s'", stageVariable, stageProbe, quoted(self), text)
	// git init changes modes, which LevelLandlock refuses.
	if s.o.Level == LevelNamespace && found(s.o.Environ, "git") != "" {
		line = "git init -q . && echo x > f && git add f && git commit -qm f && git status --porcelain && " + line
	}
	var out bytes.Buffer
	exit, err := s.Run(ctx, Command{Line: line, Output: &out,
		Place: Place{Root: t.Tree, Write: []string{t.Tree}, Cache: filepath.Join(dir, "cache")}})
	switch said := trimmed(out.String()); {
	case errors.Is(err, context.DeadlineExceeded):
		return unavailable(fmt.Sprintf("the trial did not end within %s", probeWithin), "is the machine overloaded?")
	case err != nil:
		return err
	case strings.Contains(said, "escaped:"):
		return unavailable("in the trial, a command could "+strings.ReplaceAll(strings.ReplaceAll(strings.TrimSuffix(said,
			"tried"), "\n", "; "), "escaped: ", ""), s.remedy(said))
	case exit.Code != 0 || !strings.HasSuffix(said, "tried"):
		return unavailable("the trial failed: "+said, s.remedy(said))
	}
	return nil
}

// quoted returns a word for sh.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// setTargets makes what the probe attacks.
func (s *Sandbox) setTargets(dir string) (t targets, closeTargets func(), err error) {
	t = targets{Secret: filepath.Join(dir, "secret"), File: filepath.Join(dir, "file"), Socket: filepath.Join(dir, "s"),
		Abstract: fmt.Sprintf("@everturn-probe-%d-%s", os.Getpid(), filepath.Base(dir)), Worker: os.Getpid(),
		Tree: filepath.Join(dir, "tree")}
	if t.Namespace, err = os.Readlink("/proc/self/ns/pid"); err != nil {
		return t, func() {}, err
	}
	var listeners []net.Listener
	closeTargets = func() {
		for _, l := range listeners {
			l.Close()
		}
	}
	listen := func(network, address string) {
		l, e := net.Listen(network, address)
		if err = errors.Join(err, e); e == nil {
			listeners = append(listeners, l)
		}
	}
	err = errors.Join(os.Mkdir(t.Tree, 0o700), os.WriteFile(t.Secret, []byte("secret"), 0o600),
		os.WriteFile(t.File, nil, 0o600))
	listen("unix", t.Socket)
	listen("unix", t.Abstract)
	if s.o.Network != NetworkHost {
		listen("tcp", "127.0.0.1:0")
		if err == nil {
			t.Port = listeners[len(listeners)-1].Addr().(*net.TCPAddr).Port
		}
	}
	if err != nil {
		closeTargets()
	}
	return t, closeTargets, err
}

// remedy returns what to do about a failed trial.
func (s *Sandbox) remedy(said string) string {
	switch {
	case s.o.Level != LevelNamespace:
		return "remove level from [sandbox] and install bubblewrap, or run without isolation: level = \"none\", with which " +
			"every command asks"
	case strings.Contains(said, "uid map") || strings.Contains(said, "user namespace") ||
		strings.Contains(said, "Operation not permitted") || strings.Contains(said, "No permissions"):
		return "permit unprivileged user namespaces to bubblewrap: on Ubuntu install apparmor-profiles and load " +
			"bwrap-userns-restrict, in a container allow them in its seccomp profile; or choose " +
			"level = \"landlock\" in [sandbox]"
	case strings.Contains(said, "Can't mount proc"):
		return "the container masks /proc: run it with --security-opt systempaths=unconfined, or choose level = " +
			"\"landlock\" in [sandbox]"
	case strings.Contains(said, "Unknown option") || strings.Contains(said, "unrecognized"):
		return "bubblewrap is older than 0.8: install a newer one, or choose level = \"landlock\" in [sandbox]"
	case strings.Contains(said, "kernel's settings"):
		return "run the worker as an ordinary user: this kernel has no Landlock, which confines commands of root"
	}
	return "choose level = \"landlock\" in [sandbox], or report this"
}
