package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// ListInput are the arguments of list_files.
type ListInput struct {
	Path  string `json:"path,omitempty" jsonschema:"directory to list, relative to the workspace; empty for the whole workspace"`
	Depth int    `json:"depth,omitempty" jsonschema:"how many levels to go down, 1 to 12; 3 when left out"`
}

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
	count, cut := 0, false
	err = c.walk(ctx, dir, min(depth, maxDepth), func(name string, e entry) error {
		if count == maxEntries {
			cut = true
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
	case cut:
		fmt.Fprintf(&b, "[cut: only the first %d entries; list a subdirectory, or a smaller depth]\n", maxEntries)
	case count == 0:
		return "[the directory is empty]\n", nil
	}
	return b.String(), nil
}

// entryLine returns "path\tsize" for a file and "path/" for a directory. It quotes a name with a line break, which
// would otherwise look like two entries.
func entryLine(name string, e entry) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
		name = fmt.Sprintf("%q", name)
	}
	switch {
	case e.mode.IsDir():
		return name + "/\n"
	case e.mode.IsRegular():
		return fmt.Sprintf("%s\t%d\n", name, e.size)
	case e.mode&fs.ModeSymlink != 0:
		return name + "\tlink\n"
	}
	return name + "\tspecial\n"
}

// directory returns the path without links of a place from the model.
func (c *call) directory(given string) (string, error) {
	p, err := c.find(given, reading)
	if err != nil {
		return "", err
	}
	return p.path, p.Close()
}

// look describes a place.
func (c *call) look(given string) (entry, error) {
	p, err := c.find(given, reading)
	if err != nil {
		return entry{}, err
	}
	defer p.Close()
	e, err := look(p.dir, p.base)
	if err != nil {
		err = explain(p.name, err)
	}
	return e, err
}
