package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// leastABI is the version of Landlock that can refuse TCP connections (Linux 6.7).
const leastABI = 4

func supported() error {
	if abi, err := ll.LandlockGetABIVersion(); err != nil || abi < leastABI {
		return errors.New("this kernel cannot confine commands: it needs Landlock with TCP rules, Linux 6.7 or newer")
	}
	return nil
}

// marker names the variable with which a program runs itself to confine a command.
const marker = "EVERTURN_CONFINED_COMMAND"

// init becomes the confined command if this process was started for that.
func init() {
	text, ok := os.LookupEnv(marker)
	if !ok {
		return
	}
	fmt.Fprintln(os.Stderr, "confining the command:", become(text))
	os.Exit(126)
}

// The limits of a command: bytes of a file, open files, and bytes of memory.
const (
	maxFile   = 256 << 20
	maxOpen   = 512
	maxMemory = 8 << 30
)

// become confines this process and replaces it by the command. It returns only if that failed.
func become(text string) error {
	var c confinement
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	for what, most := range map[int]uint64{unix.RLIMIT_FSIZE: maxFile, unix.RLIMIT_NOFILE: maxOpen,
		unix.RLIMIT_AS:   maxMemory,
		unix.RLIMIT_CORE: 0} {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("setting a limit: %w", err)
		}
	}
	rules := []landlock.Rule{landlock.PathAccess(ll.AccessFSReadDir, c.List), landlock.RWDirs(c.Write...),
		landlock.RWFiles("/dev/null", "/dev/zero", "/dev/full"), landlock.ROFiles("/dev/urandom", "/dev/random")}
	for _, p := range append(c.Programs, c.Read...) {
		info, err := os.Stat(p)
		switch {
		case err != nil:
		case info.IsDir():
			rules = append(rules, landlock.RODirs(p).IgnoreIfMissing())
		case info.Mode().IsRegular():
			rules = append(rules, landlock.ROFiles(p).IgnoreIfMissing())
		}
	}
	if err := supported(); err != nil {
		return err
	}
	if err := landlock.V6.BestEffort().Restrict(rules...); err != nil { // at least leastABI, see above
		return err
	}
	var environ []string
	for _, v := range os.Environ() {
		if len(v) <= len(marker) || v[:len(marker)+1] != marker+"=" {
			environ = append(environ, v)
		}
	}
	return syscall.Exec("/bin/sh", []string{"sh", "-c", c.Command}, environ)
}

// confined runs a command, and kills its process group when the context ends and when it has ended.
func confined(ctx context.Context, c confinement, dir string, environ []string) (string, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Dir, cmd.Env = dir, append(environ, marker+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel, cmd.WaitDelay = kill, time.Second
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("starting the command: %w", err)
	}
	err = cmd.Wait()
	_ = kill() // what the command has left in its group; there may be nothing
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

// output keeps the first bytes that a command writes. It has no other method that writes: io.Copy would use it.
type output struct {
	kept bytes.Buffer
	cut  bool
}

func (o *output) Write(b []byte) (int, error) {
	room := min(maxOutput-o.kept.Len(), len(b))
	o.cut = o.cut || room < len(b)
	o.kept.Write(b[:room])
	return len(b), nil
}
