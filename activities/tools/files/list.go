package files

import (
	"context"
	"errors"
	"fmt"
	"github.com/everturn/everturn/internal/beneath"
	"io/fs"
	"strings"
)

// ListInput are the arguments of list_files.
type ListInput struct {
	Path  string `json:"path,omitempty" jsonschema:"directory to list, relative to the workspace; empty for the whole workspace"`
	Depth int    `json:"depth,omitempty" jsonschema:"how many levels to go down, 1 to 12; 3 when left out"`
}

// list implements the tool list_files.
func (w *workspace) list(ctx context.Context, in ListInput) (string, error) {
	c := w.begin()
	dir, err := c.directory(in.Path)
	if err != nil {
		return "", err
	}
	depth := in.Depth
	if depth <= 0 {
		depth = 3
	}
	var b strings.Builder
	count, truncated := 0, false
	err = c.walk(ctx, dir, min(depth, maxDepth), func(name string, e beneath.Entry) error {
		if count == maxEntries {
			truncated = true
			return errStop
		}
		count++
		b.WriteString(entryLine(name, e))
		return nil
	})
	switch {
	case isContext(err):
		fmt.Fprintf(&b, "[cut: out of time after %d entries]\n", count)
	case err != nil && !errors.Is(err, errStop):
		return "", err
	case truncated:
		fmt.Fprintf(&b, "[cut: only the first %d entries; list a subdirectory, or a smaller depth]\n", maxEntries)
	case count == 0:
		return "[the directory is empty]\n", nil
	}
	return b.String(), nil
}

// entryLine returns "path\tsize" for a file and "path/" for a directory. It quotes a name with a line break, which
// would otherwise look like two entries.
func entryLine(name string, e beneath.Entry) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
		name = fmt.Sprintf("%q", name)
	}
	switch {
	case e.Mode.IsDir():
		return name + "/\n"
	case e.Mode.IsRegular():
		return fmt.Sprintf("%s\t%d\n", name, e.Size)
	case e.Mode&fs.ModeSymlink != 0:
		return name + "\tlink\n"
	}
	return name + "\tspecial\n"
}

// directory returns the path in the workspace, without symbolic links, to which a path from the model leads. Despite
// its name, the path may be that of a file.
func (c *call) directory(given string) (string, error) {
	p, err := c.find(given, reading)
	if err != nil {
		return "", err
	}
	return p.path, p.Close()
}

// lstat describes the file or directory to which a path from the model leads.
func (c *call) lstat(given string) (beneath.Entry, error) {
	p, err := c.find(given, reading)
	if err != nil {
		return beneath.Entry{}, err
	}
	defer p.Close()
	e, err := beneath.Lstat(p.dir, p.base)
	if err != nil {
		err = explain(p.name, err)
	}
	return e, err
}
