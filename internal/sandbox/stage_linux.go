package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// leastABI is the first version of Landlock that keeps signals from other processes and that can refuse TCP (Linux
// 6.12). LevelLandlock needs it, because otherwise a command could end its worker.
const leastABI = 6

// stageVariable is the environment variable that names the stage which this process is to be.
const stageVariable = "EVERTURN_COMMAND_STAGE"

// The stages.
const (
	stageSupervise = "supervise"
	stageConfine   = "confine"
)

// planFile is the file descriptor from which both stages read their plan.
const planFile = 3

// plan is what the stages do.
type plan struct {
	Supervisor supervisor
	Command    confined
}

// confined describes a command and what it may do.
type confined struct {
	Line     string
	Environ  []string
	Level    Level
	Network  Network
	Read     []string // files and directories that may be read, with everything below them
	Write    []string // directories that may be read and written, with everything below them
	List     []string // directories in which names may be listed, at any depth
	Limits   Limits
	HomeDirs []string // directories to make first
}

// init makes this process a stage of a command, before main runs, if Run has started it.
func init() {
	stage, ok := os.LookupEnv(stageVariable)
	if !ok {
		return
	}
	if stage == stageProbe {
		attack()
	}
	runtime.LockOSThread()
	var p plan
	file := os.NewFile(planFile, "plan")
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 64<<20))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	switch {
	case err != nil:
	case stage == stageSupervise:
		p.Supervisor.run(file) // ends the process
	case stage == stageConfine:
		unix.CloseOnExec(planFile)
		err = p.Command.become()
	default:
		err = fmt.Errorf("there is no stage %q", stage)
	}
	fmt.Fprintln(os.Stderr, "isolating the command:", err)
	os.Exit(exitNotRun)
}

// exitNotRun is the exit code of a stage that could not run the command. A command may exit with it too.
const exitNotRun = 126

// become confines this process and replaces it by the command. It returns only if something fails.
func (c confined) become() error {
	for _, dir := range c.HomeDirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	const maxOpen = 4096 // open files
	limits := map[int]uint64{unix.RLIMIT_FSIZE: uint64(c.Limits.File), unix.RLIMIT_NOFILE: maxOpen,
		unix.RLIMIT_DATA: uint64(c.Limits.Memory), unix.RLIMIT_CORE: 0}
	if c.Level == LevelNamespace { // elsewhere the limit would count the other processes of the user
		limits[unix.RLIMIT_NPROC] = uint64(c.Limits.Processes)
	}
	for resource, limit := range limits {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("setting a limit: %w", err)
		}
	}
	if err := c.confine(); err != nil {
		return err
	}
	if c.Network == NetworkProxy {
		return c.runBehindProxy()
	}
	return syscall.Exec("/bin/sh", []string{"sh", "-c", c.Line}, c.Environ)
}

// confine applies Landlock and the filter of system calls.
func (c confined) confine() error {
	switch c.Level {
	case LevelNone:
		return nil
	case LevelNamespace:
		if abi, err := ll.LandlockGetABIVersion(); err == nil && abi > 0 { // without it, the namespaces confine alone
			if err := c.landlock().RestrictPaths(c.rules()...); err != nil {
				return err
			}
			if err := c.landlock().RestrictScoped(); err != nil {
				return err
			}
		}
		return install(append(alwaysRefused(), refusedSockets(true, c.Network != NetworkNone)...))
	}
	if err := supportsLandlock(); err != nil {
		return err
	}
	if err := c.landlock().Restrict(c.rules()...); err != nil {
		return err
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	return install(append(append(alwaysRefused(), refusedWithoutNamespaces()...), refusedSockets(false, false)...))
}

// dropCapabilities takes the capabilities of root from this thread and from the program that it becomes.
func dropCapabilities() error {
	for c := range uintptr(64) {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err != nil && os.Geteuid() == 0 && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("dropping capabilities: %w", err)
		}
	}
	var none [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	return nil
}

// landlock returns the strictest configuration of Landlock that this kernel has.
func (c confined) landlock() landlock.Config { return landlock.V11.BestEffort() }

// writing are the rights in directories that may be written: all but those to make and control devices.
const writing = ll.AccessFSExecute | ll.AccessFSWriteFile | ll.AccessFSReadFile | ll.AccessFSReadDir |
	ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSock |
	ll.AccessFSMakeFifo | ll.AccessFSMakeSym | ll.AccessFSRefer | ll.AccessFSTruncate | ll.AccessFSResolveUnix

// rules returns the rules of Landlock. Missing files need no rule.
func (c confined) rules() []landlock.Rule {
	rules := []landlock.Rule{
		landlock.RWFiles("/dev/null", "/dev/zero", "/dev/full", "/dev/tty").IgnoreIfMissing(),
		landlock.ROFiles("/dev/urandom", "/dev/random").IgnoreIfMissing(),
	}
	if c.Level == LevelNamespace {
		rules = append(rules, landlock.RWDirs("/dev").WithIoctlDev().IgnoreIfMissing())
	}
	if c.Network == NetworkProxy {
		rules = append(rules, landlock.PathAccess(ll.AccessFSResolveUnix, socketInside).IgnoreIfMissing())
	}
	if len(c.List) > 0 {
		rules = append(rules, landlock.PathAccess(ll.AccessFSReadDir, c.List...).IgnoreIfMissing())
	}
	for _, dir := range c.Write {
		rules = append(rules, landlock.PathAccess(writing, dir).IgnoreIfMissing())
	}
	for _, p := range c.Read {
		info, err := os.Stat(p)
		switch {
		case err != nil:
		case info.IsDir():
			rules = append(rules, landlock.RODirs(p).IgnoreIfMissing())
		case info.Mode().IsRegular(): // a device, a pipe or a socket gets no rule
			rules = append(rules, landlock.ROFiles(p).IgnoreIfMissing())
		}
	}
	return rules
}

// supportsLandlock returns an error if this kernel cannot confine a command by Landlock alone.
func supportsLandlock() error {
	if _, ok := architectures[runtime.GOARCH]; !ok {
		return fmt.Errorf("there is no filter of system calls for %s", runtime.GOARCH)
	}
	if abi, err := ll.LandlockGetABIVersion(); err != nil || abi < leastABI {
		return errors.New("this kernel has no Landlock that can scope signals: it needs Linux 6.12 or newer")
	}
	return nil
}
