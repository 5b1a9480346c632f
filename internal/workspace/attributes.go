package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// attributesFile is the name of the files that give attributes to paths.
const attributesFile = ".gitattributes"

// admit leaves out the changes of files with a filter attribute, because git would commit another content than the
// tree has: of a large file, a pointer; of an encrypted one, the encrypted text.
func (t *tree) admit(ctx context.Context, changes []change) (admitted []change, skipped []Skipped, err error) {
	if len(changes) > maxChanges {
		return nil, nil, fmt.Errorf("the call has changed %d files; the maximum of a commit is %d: name directories of build "+
			"outputs in .gitignore", len(changes), maxChanges)
	}
	filtered, err := t.filtered(ctx, changes)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range changes {
		if filter := filtered[c.path]; filter != "" {
			skipped = append(skipped, Skipped{c.path, "git would pass it through the filter " + filter})
		} else {
			admitted = append(admitted, c)
		}
	}
	return admitted, skipped, nil
}

// filtered returns the filters of those changed files that have the attribute, by path. The attributes are those of the
// user's repository, of the canvas's base and of the tree. Git reads them from a copy in a directory of the host.
func (t *tree) filtered(ctx context.Context, changes []change) (map[string]string, error) {
	attributes, err := t.attributes(ctx, changes)
	if err != nil || len(attributes) == 0 {
		return nil, err
	}
	dir, err := os.MkdirTemp(t.store.scratch(), "attributes-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // Sweep removes it later
	copied, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer copied.Close()
	for name, content := range attributes {
		err = errors.Join(err, copied.MkdirAll(path.Dir(name), 0o700), copied.WriteFile(name, content, 0o600))
	}
	if err != nil {
		return nil, err
	}
	var in, out bytes.Buffer
	for _, c := range changes {
		in.WriteString(c.path + "\x00")
	}
	if err := run(ctx, dir, &in, &out, "--git-dir="+t.store.store(), "--work-tree=.", "check-attr", "-z", "--stdin",
		"filter"); err != nil {
		return nil, err
	}
	found := map[string]string{}
	for f := strings.Split(out.String(), "\x00"); len(f) > 3; f = f[3:] { // path, attribute and value
		if f[2] != "unspecified" && f[2] != "unset" {
			found[f[0]] = oneLine(f[2], 50)
		}
	}
	return found, nil
}

// attributes returns the files with attributes that may apply to the changed files, by path, or none if no filter is
// in them. Beside those of the tree, a line of the canvas's base counts: it follows, so it decides.
func (t *tree) attributes(ctx context.Context, changes []change) (map[string][]byte, error) {
	base, err := t.store.baseAttributes(ctx, t.state.base)
	if err != nil {
		return nil, err
	}
	found, filters := map[string][]byte{}, false
	add := func(name string, content []byte) {
		found[name] = append(append(found[name], content...), '\n')
		filters = filters || bytes.Contains(content, []byte("filter"))
	}
	for _, c := range changes {
		for dir := path.Dir(c.path); ; dir = path.Dir(dir) {
			name := path.Join(dir, attributesFile)
			if _, known := found[name]; known {
				break
			}
			found[name] = nil
			if _, content, _, err := t.read(name); err == nil {
				add(name, content[:min(len(content), maxIgnore)])
			}
			add(name, base[name])
			if dir == "." {
				break
			}
		}
	}
	if b, err := os.ReadFile(filepath.Join(t.store.gitDir, "info", "attributes")); err == nil { // of the user
		add(attributesFile, b)
	}
	if !filters {
		return nil, nil
	}
	return found, nil
}

// baseAttributes returns the files with attributes of a commit of the user, by path.
func (s *Store) baseAttributes(ctx context.Context, base string) (map[string][]byte, error) {
	if known, ok := s.attributes.Get(base); ok || base == "" {
		return known, nil
	}
	files, err := s.list(ctx, base)
	if err != nil {
		return nil, err
	}
	x := newIndex(base, files)
	var names []string
	for name := range x.files {
		if path.Base(name) == attributesFile {
			names = append(names, name)
		}
	}
	found := map[string][]byte{}
	if len(names) > 0 {
		err = s.blobs(ctx, x, names, func(name string, content io.Reader) (err error) {
			found[name], err = io.ReadAll(io.LimitReader(content, maxIgnore))
			return err
		})
	}
	if err == nil {
		s.attributes.Add(base, found)
	}
	return found, err
}
