package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// leastABI is the first version of Landlock that can refuse TCP connections (Linux 6.7).
const leastABI = 4

// supported returns an error that says why commands cannot be confined on this machine, or nil if they can.
func supported() error {
	if _, ok := architectures[runtime.GOARCH]; !ok {
		return fmt.Errorf("commands cannot be confined on %s", runtime.GOARCH)
	}
	if abi, err := ll.LandlockGetABIVersion(); err != nil || abi < leastABI {
		return errors.New("this kernel cannot confine commands: it needs Landlock with TCP rules, Linux 6.7 or newer")
	}
	return nil
}

// confinementVariable is the environment variable that runConfined sets for a process that is to become a command. It
// has the confinement as JSON.
const confinementVariable = "EVERTURN_CONFINED_COMMAND"

// init replaces this process by a confined command, before main runs, if runConfined has started the process.
func init() {
	encoded, ok := os.LookupEnv(confinementVariable)
	if !ok {
		return
	}
	fmt.Fprintln(os.Stderr, "confining the command:", execConfined(encoded))
	os.Exit(126)
}

// The limits of a command.
const (
	maxFile   = 256 << 20 // bytes of a file
	maxOpen   = 512       // open files
	maxMemory = 8 << 30   // bytes of memory
)

// execConfined confines this process and replaces it by the command. encoded is a confinement as JSON. It returns only
// if something fails.
func execConfined(encoded string) error {
	var c confinement
	if err := json.Unmarshal([]byte(encoded), &c); err != nil {
		return err
	}
	for resource, limit := range map[int]uint64{unix.RLIMIT_FSIZE: maxFile, unix.RLIMIT_NOFILE: maxOpen,
		unix.RLIMIT_AS:   maxMemory,
		unix.RLIMIT_CORE: 0} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("setting a limit: %w", err)
		}
	}
	rules := []landlock.Rule{landlock.PathAccess(ll.AccessFSReadDir, c.List), landlock.RWDirs(c.Write...),
		landlock.RWFiles("/dev/null", "/dev/zero", "/dev/full"), landlock.ROFiles("/dev/urandom", "/dev/random")}
	for _, p := range append(c.Programs, c.Read...) {
		info, err := os.Stat(p)
		switch {
		case err != nil: // a missing file needs no rule
		case info.IsDir():
			rules = append(rules, landlock.RODirs(p).IgnoreIfMissing())
		case info.Mode().IsRegular(): // a device, a pipe or a socket gets no rule
			rules = append(rules, landlock.ROFiles(p).IgnoreIfMissing())
		}
	}
	if err := supported(); err != nil {
		return err
	}
	// BestEffort uses what the kernel has; supported has made sure that this is at least leastABI.
	if err := landlock.V6.BestEffort().Restrict(rules...); err != nil {
		return err
	}
	if err := refuseCalls(); err != nil {
		return err
	}
	var environ []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, confinementVariable+"=") {
			environ = append(environ, v)
		}
	}
	return syscall.Exec("/bin/sh", []string{"sh", "-c", c.Command}, environ)
}

// architectures are the architectures that refuseCalls supports, with the kernel's numbers for them.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// refuseCalls installs a seccomp filter that refuses three system calls to this process and its children: socket and
// io_uring_setup, because Landlock refuses TCP connections but neither UDP nor the sockets of other programs, and
// setsid, so that killSession finds all processes of the command. setsid does nothing and reports success, so that
// programs that use it still run. The filter also refuses every call of another architecture. The kernel accepts a
// filter only from a process that cannot gain privileges; Restrict has set that already.
func refuseCalls() error {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		result = unix.BPF_RET | unix.BPF_K
		// The offsets of the call's number and of its architecture in the kernel's struct seccomp_data.
		number, architecture = 0, 4
		otherABI             = 0x40000000 // x32's numbers begin here; no other call of these architectures is so high
	)
	// Jt and Jf are the numbers of instructions to skip if a comparison is true or false.
	filter := []unix.SockFilter{
		{Code: load, K: architecture},
		{Code: equal, K: architectures[runtime.GOARCH], Jf: 6}, // to EACCES
		{Code: load, K: number},
		{Code: least, K: otherABI, Jt: 4},                // to EACCES
		{Code: equal, K: unix.SYS_SOCKET, Jt: 3},         // to EACCES
		{Code: equal, K: unix.SYS_IO_URING_SETUP, Jt: 2}, // to EACCES
		{Code: equal, K: unix.SYS_SETSID, Jt: 2},         // to the last instruction
		{Code: result, K: unix.SECCOMP_RET_ALLOW},
		{Code: result, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)},
		{Code: result, K: unix.SECCOMP_RET_ERRNO}, // error number 0: the call returns 0 and does nothing
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("refusing system calls: %w", errno)
	}
	return nil
}

// killSession kills every process of a POSIX session, even if it has changed its process group. Processes may start
// others meanwhile, so killSession searches until it finds none, but at most a thousand times.
func killSession(id int) {
	const rounds = 1000
	_ = syscall.Kill(-id, syscall.SIGKILL) // the first process group; an error means that it has ended
	for range rounds {
		alive := 0
		files, _ := filepath.Glob("/proc/[0-9]*/stat") // the only error is that of a malformed pattern
		for _, file := range files {
			// The format is "pid (name) state parent group session …". The name may contain spaces and brackets, so the
			// fields after the last bracket count, from the state on. Z and X are the states of dead processes.
			stat, _ := os.ReadFile(file) // it is empty if the process has ended
			fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
			if len(fields) < 4 || fields[3] != strconv.Itoa(id) || fields[0] == "Z" || fields[0] == "X" {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && pid != os.Getpid() { // a safeguard
				alive++
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if alive == 0 {
			return
		}
	}
}

// runConfined runs a command in the directory dir and returns its exit code and output. It kills all processes of the
// command when the context ends, and those that the command leaves behind when it ends.
func runConfined(ctx context.Context, c confinement, dir string, environ []string) (string, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe") // this program, whose init becomes the command
	cmd.Dir, cmd.Env = dir, append(environ, confinementVariable+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { killSession(cmd.Process.Pid); return nil }
	cmd.WaitDelay = time.Second // a background process may keep the output open; that is ErrWaitDelay below
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("starting the command: %w", err)
	}
	err = cmd.Wait()
	killSession(cmd.Process.Pid) // background processes of the command
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay):
		return "", fmt.Errorf("running the command: %w", err)
	}
	state := cmd.ProcessState
	end := fmt.Sprintf("[exit code %d]\n", state.ExitCode())
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		end = fmt.Sprintf("[killed by signal %d, %s]\n", status.Signal(), status.Signal())
	}
	if out.cut {
		end += fmt.Sprintf("[cut: only the first %d bytes of the output]\n", maxOutput)
	}
	return end + out.kept.String(), nil
}

// output is a writer that keeps the first maxOutput bytes. It must not implement io.ReaderFrom, which io.Copy would
// use in place of Write.
type output struct {
	kept bytes.Buffer
	cut  bool
}

// Write implements io.Writer. It reports all bytes as written, so that the command continues after the limit.
func (o *output) Write(b []byte) (int, error) {
	room := min(maxOutput-o.kept.Len(), len(b))
	o.cut = o.cut || room < len(b)
	o.kept.Write(b[:room])
	return len(b), nil
}
