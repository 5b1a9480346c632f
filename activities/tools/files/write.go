package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/workflows/turn"
)

// maxEditBytes bounds a file that is edited, before and after.
const maxEditBytes = 4 << 20

// registerWriting adds the tools that change files. A call that was cut off is not repeated: its outcome is unknown,
// and the file has its old content or the new one, never a part of it.
func (w *workspace) registerWriting(r *tools.Registry) error {
	medium := tools.Risk(turn.RiskMedium)
	return errors.Join(
		tools.Add(r, "write_file", "Create a text file of the workspace, with its directories. Set overwrite to replace a "+
			"file that exists; to change a part of one, use edit_file.", w.write, medium),
		tools.Add(r, "edit_file", "Replace text in a file of the workspace. old_string must be in the file exactly once, "+
			"with its white space; replace_all replaces each occurrence.", w.edit, medium),
		tools.Add(r, "patch_file", "Apply a unified diff to one text file of the workspace. Its context must match the "+
			"file exactly.", w.patch, medium),
		tools.Add(r, "delete_file", "Delete a file of the workspace.", w.delete, tools.Risk(turn.RiskHigh)),
	)
}

// WriteInput are the arguments of write_file.
type WriteInput struct {
	Path      string `json:"path" jsonschema:"file to write, relative to the workspace"`
	Content   string `json:"content" jsonschema:"the whole text of the file"`
	Overwrite bool   `json:"overwrite,omitempty" jsonschema:"replace the file if it exists"`
}

func (w *workspace) write(_ context.Context, in WriteInput) (string, error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	name, real, err := w.target(in.Path)
	if err != nil {
		return "", err
	}
	old, err := w.current(name, real)
	switch {
	case errors.Is(err, errNoFile):
		if err := w.makeParents(name, real); err != nil {
			return "", err
		}
	case err != nil:
		return "", err
	case !in.Overwrite:
		return "", fmt.Errorf("%s exists: change it with edit_file, or set overwrite to replace all of it", name)
	}
	if err := w.replace(name, real, []byte(in.Content), old.mode); err != nil {
		return "", err
	}
	return fmt.Sprintf("wrote %s: %d bytes", name, len(in.Content)), nil
}

// EditInput are the arguments of edit_file.
type EditInput struct {
	Path       string `json:"path" jsonschema:"file to edit, relative to the workspace"`
	OldString  string `json:"old_string" jsonschema:"the text to replace, exactly as the file has it"`
	NewString  string `json:"new_string" jsonschema:"the text that takes its place"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence"`
}

func (w *workspace) edit(_ context.Context, in EditInput) (string, error) {
	return w.change(in.Path, func(name string, old []byte) ([]byte, string, error) { return Edit(name, old, in) })
}

// Edit returns a text with the replacement that in describes, and a line that says what was done. name is the file's.
func Edit(name string, old []byte, in EditInput) (text []byte, done string, err error) {
	n := strings.Count(string(old), in.OldString)
	switch {
	case in.OldString == "":
		return nil, "", errors.New("old_string is empty: say what to replace")
	case in.OldString == in.NewString:
		return nil, "", errors.New("old_string and new_string are the same: there is nothing to change")
	case n == 0:
		return nil, "", fmt.Errorf("%s does not contain old_string: read the file again, it must match exactly", name)
	case n > 1 && !in.ReplaceAll:
		return nil, "", fmt.Errorf("%s contains old_string %d times: add lines around it until it is unique, or set "+
			"replace_all", name, n)
	}
	line := 1 + bytes.Count(old[:strings.Index(string(old), in.OldString)], []byte("\n"))
	return []byte(strings.ReplaceAll(string(old), in.OldString, in.NewString)),
		fmt.Sprintf("edited %s: %d replaced, the first in line %d", name, n, line), nil
}

// PatchInput are the arguments of patch_file.
type PatchInput struct {
	Path  string `json:"path" jsonschema:"file to change, relative to the workspace"`
	Patch string `json:"patch" jsonschema:"a unified diff of this file: hunks with @@ lines; names of files are optional"`
}

func (w *workspace) patch(_ context.Context, in PatchInput) (string, error) {
	return w.change(in.Path, func(name string, old []byte) ([]byte, string, error) { return Patch(name, old, in) })
}

// Patch returns a text to which a unified diff was applied, and a line that says what was done. name is the file's.
func Patch(name string, old []byte, in PatchInput) (text []byte, done string, err error) {
	_, hunks, ok := strings.Cut("\n"+in.Patch, "\n@@ ")
	if !ok {
		return nil, "", errors.New("the patch has no hunk: a hunk begins with a line such as @@ -1,3 +1,4 @@")
	}
	parsed, _, err := gitdiff.Parse(strings.NewReader("--- a/file\n+++ b/file\n@@ " + strings.TrimSuffix(hunks,
		"\n") + "\n"))
	if err == nil && len(parsed) != 1 {
		err = errors.New("it changes several files; send one call for each")
	}
	if err != nil {
		return nil, "", fmt.Errorf("the patch is not a unified diff: %w", err)
	}
	var out bytes.Buffer
	if err := gitdiff.Apply(&out, bytes.NewReader(old), parsed[0]); err != nil {
		return nil, "", fmt.Errorf("the patch does not fit %s: %w; read the file again", name, err)
	}
	return out.Bytes(), fmt.Sprintf("patched %s: %d hunks", name, len(parsed[0].TextFragments)), nil
}

// change rewrites a text file.
func (w *workspace) change(given string, f func(name string, old []byte) (text []byte, done string, err error)) (string,
	error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	name, real, err := w.target(given)
	if err != nil {
		return "", err
	}
	old, err := w.current(name, real)
	if err != nil {
		return "", err
	}
	if bytes.IndexByte(old.text, 0) >= 0 {
		return "", fmt.Errorf("%s is a binary file", name)
	}
	text, done, err := f(name, old.text)
	if err == nil && len(text) > maxEditBytes {
		err = fmt.Errorf("%s would have %d bytes; the maximum is %d", name, len(text), maxEditBytes)
	}
	if err != nil {
		return "", err
	}
	return done, w.replace(name, real, text, old.mode)
}

// DeleteInput are the arguments of delete_file.
type DeleteInput struct {
	Path string `json:"path" jsonschema:"file to delete, relative to the workspace"`
}

func (w *workspace) delete(_ context.Context, in DeleteInput) (string, error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	name, real, err := w.target(in.Path)
	if err != nil {
		return "", err
	}
	if _, err := w.current(name, real); err != nil {
		return "", err
	}
	if err := w.root.Remove(real); err != nil {
		return "", explain(name, err)
	}
	return "deleted " + name, nil
}

// protected are files with which a model could change what it is told or permitted: this program's configuration, and
// the instructions that agents read. Their names ignore letter case.
var protected = []string{"agent.toml", "agents.md", "claude.md", ".agents", ".claude"}

// target checks a path that is to be written, and returns it as the model gave it and without symbolic links. The last
// part need not exist.
func (w *workspace) target(given string) (name, real string, err error) {
	if name, err = clean(given); err != nil {
		return "", "", err
	}
	if name == "." {
		return "", "", errors.New("path is empty: name a file")
	}
	dir, base := path.Split(name)
	real, rest := path.Clean(dir), []string{base}
	for { // the deepest directory that exists
		if err := w.check(name, real); err != nil {
			return "", "", err
		}
		found, err := w.resolve(real)
		if err == nil {
			real = path.Join(append([]string{found}, rest...)...)
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || real == "." {
			return "", "", explain(name, err)
		}
		real, rest = path.Dir(real), append([]string{path.Base(real)}, rest...)
	}
	if err := w.check(name, real); err != nil {
		return "", "", err
	}
	for _, part := range strings.Split(real, "/") {
		for _, p := range protected {
			if strings.EqualFold(part, p) {
				return "", "", fmt.Errorf("%s: %s is out of the file tools' reach, because it instructs or configures agents",
					name, part)
			}
		}
	}
	if info, err := w.root.Lstat(real); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", "", fmt.Errorf("%s is a symbolic link: name the file that it leads to", name)
	}
	return name, real, nil
}

// content is a file as it is now.
type content struct {
	text []byte
	mode fs.FileMode
}

var errNoFile = errors.New("there is no such file; list_files shows what there is")

// current reads a file that is to be changed. The error is errNoFile if there is none; the mode is then that of a new
// file.
func (w *workspace) current(name, real string) (content, error) {
	if _, err := w.root.Lstat(real); errors.Is(err, fs.ErrNotExist) {
		return content{mode: 0o644}, fmt.Errorf("%s: %w", name, errNoFile)
	} else if err != nil {
		return content{}, explain(name, err)
	}
	f, size, err := w.open(name, real)
	if err != nil {
		return content{}, err
	}
	defer f.Close()
	if size > maxEditBytes {
		return content{}, fmt.Errorf("%s has %d bytes; the maximum is %d", name, size, maxEditBytes)
	}
	info, err := f.Stat()
	if err != nil {
		return content{}, explain(name, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxEditBytes))
	return content{text, info.Mode().Perm()}, err
}

func (w *workspace) makeParents(name, real string) error {
	if err := w.root.MkdirAll(path.Dir(real), 0o755); err != nil {
		return explain(name, err)
	}
	return nil
}

// replace gives a file its new content. It writes a file beside it and renames that, so a crash leaves the old content
// or the new one; what an earlier crash has left is overwritten.
func (w *workspace) replace(name, real string, text []byte, mode fs.FileMode) (err error) {
	beside := path.Join(path.Dir(real), "."+path.Base(real)+".everturn-new")
	if err := w.root.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return explain(name, err)
	}
	f, err := w.root.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return explain(name, err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = w.root.Rename(beside, real)
	}
	if err != nil {
		return explain(name, errors.Join(err, w.root.Remove(beside)))
	}
	return nil
}
