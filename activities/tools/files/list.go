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
	dir, err := clean(in.Path)
	if err == nil {
		dir, err = w.reach(dir)
	}
	if err != nil {
		return "", err
	}
	depth := in.Depth
	if depth <= 0 {
		depth = 3
	}
	var b strings.Builder
	count, cut := 0, false
	err = w.walk(ctx, dir, min(depth, maxDepth), func(name string, d fs.DirEntry) error {
		if count == maxEntries {
			cut = true
			return errStop
		}
		count++
		b.WriteString(entryLine(name, d))
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
func entryLine(name string, d fs.DirEntry) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
		name = fmt.Sprintf("%q", name)
	}
	if d.IsDir() {
		return name + "/\n"
	}
	if !d.Type().IsRegular() {
		return fmt.Sprintf("%s\t%s\n", name, kind(d.Type()))
	}
	info, err := d.Info()
	if err != nil {
		return name + "\t?\n"
	}
	return fmt.Sprintf("%s\t%d\n", name, info.Size())
}

func kind(m fs.FileMode) string {
	if m&fs.ModeSymlink != 0 {
		return "link"
	}
	return "special"
}
