package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/internal/beneath"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/workflows/turn"
)

// Bounds of the tools.
const (
	maxEntries    = 500
	maxDepth      = 12
	maxReadBytes  = 64<<10 - 512 // leaves room for the note, so that a full read fits into what a model is shown
	maxSearched   = 20000        // files per search
	maxSearchFile = 4 << 20      // bytes; larger files are not searched
	maxMatches    = 200
	maxLineBytes  = 400 // of a line in the result of a search
	maxSearchTime = 10 * time.Second
	sniffBytes    = 8 << 10 // bytes at the beginning of a file that tell text from binary

	maxQueryBytes        = 1000
	maxQueryInstructions = 2500    // of the compiled query
	maxSteps             = 4 << 20 // instructions times bytes of a match during which the context is not checked
)

// isSkipped reports whether lists and searches of a directory leave out its entry with this name.
func isSkipped(name string) bool { return isHidden(name) || name == "node_modules" }

// workspace is the directory that the tools may read and, if Options.Write is set, write.
type workspace struct {
	root    *os.File // the open directory
	path    string   // of root, absolute
	secrets *redact.Redactor
	writing sync.Mutex // held by the call that changes files
	changed []string   // paths of the files that were changed; nil in a workspace of many calls, which records none
	Options
}

// open opens the directory root as a workspace. The directory stays open.
func open(root string, o Options) (*workspace, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(root, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the workspace: %w", err)
	}
	return &workspace{root: f, path: root, Options: o}, nil
}

// record records that a file was changed.
func (w *workspace) record(name string) {
	if w.changed != nil {
		w.changed = append(w.changed, name)
	}
}

// Register adds the tools to r, confined to the directory root, which must exist, and subject to the rules. The
// directory stays open as long as the program runs.
func Register(r *tools.Registry, root string, rules Options) error {
	w, err := open(root, rules)
	if err != nil {
		return err
	}
	w.secrets = r.Secrets()
	return register(r, folder{w})
}

// register adds the tools to r.
func register(r *tools.Registry, o opener) (err error) {
	opts := []tools.Option{tools.LocalActivity(), tools.Risk(turn.RiskLow), tools.ReadOnly(),
		tools.Timeout(o.options().Timeout)}
	if o.options().Write {
		err = registerWriting(r, o)
	}
	return errors.Join(err,
		tools.Add(r, "list_files", "List the files and directories of the workspace, one a line: path, tab, size in "+
			"bytes. Directories end in a slash. Paths are relative to the workspace.", reads(o, (*workspace).list), opts...),
		tools.Add(r, "read_file",
			"Read a text file of the workspace, about 64 KiB at once. Use offset and limit, in bytes, to read on.",
			reads(o, (*workspace).read), opts...),
		tools.Add(r, "search_text", "Search the workspace's text files for lines that hold a text or match a regular "+
			"expression. Answers path:line: text.", reads(o, (*workspace).search), opts...),
	)
}

// clean checks a path from the model and returns it in the form that io/fs expects. An empty path means the workspace.
func clean(name string) (string, error) {
	if name == "" {
		return ".", nil
	}
	if strings.ContainsRune(name, 0) || strings.HasPrefix(name, "/") || strings.Contains(name, `\`) {
		return "", fmt.Errorf("path %q: give a path relative to the workspace, with forward slashes", name)
	}
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("path %q: .. is not allowed; give a path relative to the workspace", name)
		}
	}
	return path.Clean(name), nil
}

// missing is the type of errNoFile. It has a message for the model, and errors.Is finds fs.ErrNotExist in it.
type missing struct{}

func (missing) Error() string { return "there is no such file; list_files shows what there is" }

func (missing) Is(target error) bool { return target == fs.ErrNotExist }

var errNoFile error = missing{}

var errChanged = errors.New("it changed while it was opened; try again")

// explain converts an error about the file name to one for the model, which does not contain this machine's paths.
func explain(name string, err error) error {
	var pe *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w", name, errNoFile)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: permission denied", name)
	case errors.Is(err, syscall.ELOOP):
		return fmt.Errorf("%s: %w", name, errChanged)
	case errors.Is(err, syscall.EXDEV):
		return fmt.Errorf("%s: it is on another file system, which the file tools do not enter", name)
	case errors.As(err, &pe):
		return fmt.Errorf("%s: %w", name, pe.Err)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// visit is called for each entry below a directory, in lexical order, parents first. name is the path in the
// workspace. It returns errStop to end the walk, and errSkip to leave out what is below the entry.
type visit func(name string, e beneath.Entry) error

var (
	errStop = errors.New("enough")
	errSkip = errors.New("not this directory")
)

// walk calls f for the entries below dir, down to depth levels, but not for dir itself. It leaves out the entries that
// isSkipped reports and what is below a directory that it may not or cannot read. It does not follow symbolic links.
func (c *call) walk(ctx context.Context, dir string, depth int, f visit) error {
	entries, err := c.readDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ctx.Err() != nil { // f may take milliseconds for one entry: a .gitignore has many patterns
			return ctx.Err()
		}
		name := path.Join(dir, e.Name)
		if isSkipped(e.Name) {
			continue
		}
		if err := f(name, e); errors.Is(err, errSkip) {
			continue
		} else if err != nil {
			return err
		}
		if e.Mode.IsDir() && depth > 1 && !c.denied(name) {
			if err := c.walk(ctx, name, depth-1, f); err != nil && !skipsDirectory(err) {
				return err
			}
		}
	}
	return nil
}

// readDir returns the entries of a directory in lexical order. The path dir comes from the model or from walk.
func (c *call) readDir(dir string) (out []beneath.Entry, err error) {
	p, err := c.find(dir, reading)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	f, err := p.openDir()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, explain(dir, err)
	}
	slices.Sort(names)
	for _, name := range names {
		if e, err := beneath.Lstat(f, name); err == nil { // an error means that it was deleted meanwhile
			out = append(out, e)
		}
	}
	return out, nil
}

// skipsDirectory reports whether after this error a walk only leaves out the directory, instead of ending.
func skipsDirectory(err error) bool { return !errors.Is(err, errStop) && !isContext(err) }

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
