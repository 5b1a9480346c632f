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
	// Environ are the names of variables that commands get, besides PATH, LANG and those of Go's and C's compilers.
	Environ []string
	Timeout time.Duration
	// Hidden reports whether an entry of the workspace must not be read.
	Hidden func(name string) bool
	// Protected are files that commands must not write, and some of which they must not read.
	Protected []files.Protected
}

// maxOutput bounds what is kept of a command's output, in bytes.
const maxOutput = 8 << 20

type input struct {
	Command string `json:"command" jsonschema:"the command, as for sh -c; it runs in the workspace"`
}

// Register adds the tool. The error says why commands cannot be confined here.
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

func (o Options) writable() string {
	if len(o.Write) == 0 {
		return "no directory"
	}
	return strings.Join(o.Write, ", ")
}

// check refuses directories outside of the workspace, and those in which a command could configure git or this program.
func (o Options) check() error {
	for _, dir := range o.Write {
		clean := filepath.Clean(dir)
		whole := filepath.Join(o.Workspace, clean)
		if !filepath.IsLocal(dir) || clean == "." {
			return fmt.Errorf("shell.write: %q must be a directory below the workspace", dir)
		}
		for _, part := range strings.Split(clean, string(filepath.Separator)) {
			if o.Hidden(part) {
				return fmt.Errorf("shell.write: %q is out of the tools' reach", dir)
			}
		}
		for _, p := range o.Protected {
			if files.Within(whole, p.Path) != "" {
				return fmt.Errorf("shell.write: commands in %q could change %s, which is %s: move one of them", dir, p.Path, p.Use)
			}
		}
		info, err := os.Lstat(whole)
		if err != nil || !info.IsDir() {
			return fmt.Errorf("shell.write: there is no directory %q in the workspace: make it first", dir)
		}
	}
	return nil
}

// confinement is what the second process is told.
type confinement struct {
	Command  string
	Read     []string // files and directories
	Write    []string // directories
	List     string   // a directory whose names may be listed
	Programs []string
}

// programs are the directories and files of a machine that most commands need. Those that are missing are left out.
var programs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix/store", "/etc/passwd",
	"/etc/group",
	"/etc/hosts", "/etc/nsswitch.conf", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
	"/etc/ssl/certs", "/etc/localtime", "/etc/mime.types", "/etc/magic"}

// variables are those that every command gets.
var variables = []string{"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM"}

// readable returns the entries of a directory of the workspace that commands may read. Landlock permits whole
// directories, so of one that holds an unreadable file the other entries are returned.
func (o Options) readable(dir string) (out []string, err error) {
	entries, err := os.ReadDir(filepath.Join(o.Workspace, dir))
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		whole := filepath.Join(o.Workspace, name)
		if o.Hidden(name) || e.Type()&os.ModeSymlink != 0 { // a link leads to a place with rules of its own
			continue
		}
		switch o.unread(whole) {
		case "":
			out = append(out, whole)
		case ".":
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

// unread returns "." if commands must not read an entry of the workspace, or where in it they must not read something,
// or else "".
func (o Options) unread(whole string) (where string) {
	for _, p := range o.Protected {
		if !p.Unread {
			continue
		}
		if where = cmp.Or(files.Within(whole, p.Path), where); where == "." {
			return where
		}
	}
	return where
}

// run runs a command to its end.
func (o Options) run(ctx context.Context, in input) (string, error) {
	if strings.TrimSpace(in.Command) == "" || strings.ContainsRune(in.Command, 0) {
		return "", errors.New("command is empty or has a NUL")
	}
	tmp, err := os.MkdirTemp("", "everturn-shell-")
	if err != nil {
		return "", fmt.Errorf("making a temporary directory: %w", err)
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // the system removes what is left
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
	return confined(ctx, c, o.Workspace, environ)
}
