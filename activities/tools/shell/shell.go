package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/activities/tools/files"
	"github.com/everturn/everturn/workflows/turn"
)

// Options say what a command may do.
type Options struct {
	// Workspace is the directory in which commands run.
	Workspace string
	// Write are the directories below the workspace that commands may write.
	Write []string
	// Environ are the names of environment variables that commands get, besides PATH, TZ, TERM and those of the locale.
	Environ []string
	Timeout time.Duration
	// Hidden reports whether an entry of the workspace must not be read.
	Hidden func(name string) bool
	// Protected are files that commands must not write. Those with Unread set they must not read either.
	Protected []files.Protected
}

// maxOutput bounds what is kept of a command's output, in bytes.
const maxOutput = 8 << 20

type input struct {
	Command string `json:"command" jsonschema:"the command, as for sh -c; it runs in the workspace"`
}

// Register adds the tool shell. It returns an error if commands cannot be confined on this machine, or if o.Write has
// a directory that commands must not write.
func Register(r *tools.Registry, o Options) error {
	if err := supported(); err != nil {
		return fmt.Errorf("the tool shell is not offered: %w; remove enabled from [shell] in agent.toml", err)
	}
	if err := o.check(); err != nil {
		return err
	}
	return tools.Add(r, "shell", "Run a command with sh in the workspace. It can read the workspace, write only to "+
		o.writable()+" and $TMPDIR, and has no network. The result is its exit code and output.", o.run,
		tools.Risk(turn.RiskHigh), tools.Timeout(o.Timeout))
}

// writable names the directories that commands may write, for the tool's description.
func (o Options) writable() string {
	if len(o.Write) == 0 {
		return "no directory"
	}
	return strings.Join(o.Write, ", ")
}

// check returns an error if commands must not write one of the directories in o.Write: it must exist, be below the
// workspace, and contain none of o.Protected, and neither it nor a directory above it in the workspace may be hidden.
func (o Options) check() error {
	for _, dir := range o.Write {
		clean := filepath.Clean(dir)
		absolute := filepath.Join(o.Workspace, clean)
		if !filepath.IsLocal(dir) || clean == "." {
			return fmt.Errorf("shell.write: %q must be a directory below the workspace", dir)
		}
		for above := clean; above != "."; above = filepath.Dir(above) {
			if o.Hidden(above) {
				return fmt.Errorf("shell.write: %q is out of the tools' reach", dir)
			}
		}
		for _, p := range o.Protected {
			if files.Within(absolute, p.Path) != "" {
				return fmt.Errorf("shell.write: commands in %q could change %s, which is %s: move one of them", dir, p.Path, p.Use)
			}
		}
		info, err := os.Lstat(absolute)
		if err != nil || !info.IsDir() {
			return fmt.Errorf("shell.write: there is no directory %q in the workspace: make it first", dir)
		}
	}
	return nil
}

// confinement describes a command and what it may do. The process that becomes the command gets it as JSON.
type confinement struct {
	Command  string
	Read     []string // files and directories that may be read, with everything below them
	Write    []string // directories that may be read and written, with everything below them
	List     string   // a directory in which names may be listed, at any depth
	Programs []string // like Read, outside of the workspace
}

// programs are the directories and files outside of the workspace that most commands need. Missing ones are left out.
var programs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix/store", "/etc/passwd",
	"/etc/group",
	"/etc/hosts", "/etc/nsswitch.conf", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
	"/etc/ssl/certs", "/etc/localtime", "/etc/mime.types", "/etc/magic"}

// variables are the names of the environment variables that every command gets.
var variables = []string{"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM"}

// readable returns the absolute paths of the files and directories below dir, a directory of the workspace, that
// commands may read. Landlock can permit a directory only with everything below it. So if a directory contains a
// protected file that must not be read, readable returns the directory's other entries in place of the directory. A
// hidden entry is left out only if readable lists its directory.
func (o Options) readable(dir string) (out []string, err error) {
	entries, err := os.ReadDir(filepath.Join(o.Workspace, dir))
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		absolute := filepath.Join(o.Workspace, name)
		if o.Hidden(name) || e.Type()&os.ModeSymlink != 0 { // Landlock permits the target of a link, not the link
			continue
		}
		switch o.unreadable(absolute) {
		case "":
			out = append(out, absolute)
		case ".": // not to be read at all
		default:
			below, err := o.readable(name)
			if err != nil {
				return nil, err
			}
			out = append(out, below...)
		}
	}
	return out, err
}

// unreadable returns "" if commands may read the file or directory, and "." if they must not read it. If they must not
// read something inside the directory, it returns the relative path of that.
func (o Options) unreadable(absolute string) (inside string) {
	for _, p := range o.Protected {
		if !p.Unread {
			continue
		}
		if inside = cmp.Or(files.Within(absolute, p.Path), inside); inside == "." {
			return inside
		}
	}
	return inside
}

// run implements the tool shell: it runs a command and returns its exit code and output.
func (o Options) run(ctx context.Context, in input) (string, error) {
	if strings.TrimSpace(in.Command) == "" || strings.ContainsRune(in.Command, 0) {
		return "", errors.New("command is empty or has a NUL")
	}
	tmp, err := os.MkdirTemp("", "everturn-shell-")
	if err != nil {
		return "", fmt.Errorf("making a temporary directory: %w", err)
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // the system cleans up its temporary directory
	c := confinement{Command: in.Command, List: o.Workspace, Programs: programs, Write: []string{tmp}}
	for _, dir := range o.Write {
		c.Write = append(c.Write, filepath.Join(o.Workspace, dir))
	}
	if c.Read, err = o.readable("."); err != nil {
		return "", fmt.Errorf("reading the workspace: %w", err)
	}
	environ := []string{"HOME=" + tmp, "TMPDIR=" + tmp}
	for _, name := range slices.Concat(variables, o.Environ) {
		if value, ok := os.LookupEnv(name); ok {
			environ = append(environ, name+"="+value)
		}
	}
	return runConfined(ctx, c, o.Workspace, environ)
}
