package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
	"golang.org/x/sys/unix"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/internal/beneath"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/workflows/turn"
)

// maxEditBytes bounds a file that is edited, before and after the change.
const maxEditBytes = 4 << 20

// registerWriting adds the tools that change files. In a folder they are not repeatable: the outcome of an interrupted
// call is unknown. The file then has its old or its new content, never a part of it.
func registerWriting(r *tools.Registry, o opener) error {
	limit := tools.Timeout(o.options().Timeout)
	medium, high := []tools.Option{tools.Risk(turn.RiskMedium), limit}, []tools.Option{tools.Risk(turn.RiskHigh), limit}
	if _, ok := o.(trees); ok { // nothing is lost: a commit has each state
		medium = append(medium, tools.Repeatable())
		if before := o.options().Before; before > 0 {
			medium = append(medium, tools.Timeout(before+max(o.options().Timeout, time.Minute)))
		}
		high = medium
	}
	return errors.Join(
		tools.Add(r, "write_file", "Create a text file of the workspace, with its directories. Set overwrite to replace a "+
			"file that exists; to change a part of one, use edit_file.",
			changes(o, "write", func(in WriteInput) string { return in.Path }, (*workspace).write), medium...),
		tools.Add(r, "edit_file", "Replace text in a file of the workspace. old_string must be in the file exactly once, "+
			"with its white space; replace_all replaces each occurrence.",
			changes(o, "edit", func(in EditInput) string { return in.Path }, (*workspace).edit), medium...),
		tools.Add(r, "patch_file", "Apply a unified diff to one text file of the workspace. Its context must match the "+
			"file exactly.", changes(o, "patch", func(in PatchInput) string { return in.Path }, (*workspace).patch), medium...),
		tools.Add(r, "delete_file", "Delete a file of the workspace.",
			changes(o, "delete", func(in DeleteInput) string { return in.Path }, (*workspace).delete), high...),
	)
}

// WriteInput are the arguments of write_file.
type WriteInput struct {
	Path      string `json:"path" jsonschema:"file to write, relative to the workspace"`
	Content   string `json:"content" jsonschema:"the whole text of the file"`
	Overwrite bool   `json:"overwrite,omitempty" jsonschema:"replace the file if it exists"`
}

// write implements the tool write_file.
func (w *workspace) write(_ context.Context, in WriteInput) (string, error) {
	p, err := w.begin().find(in.Path, creating)
	if err != nil {
		return "", err
	}
	defer p.Close()
	old, err := p.readCurrent()
	switch {
	case err != nil && !errors.Is(err, errNoFile):
		return "", err
	case err == nil && !in.Overwrite:
		return "", fmt.Errorf("%s exists: change it with edit_file, or set overwrite to replace all of it", p.name)
	}
	if err := p.replace([]byte(in.Content), old); err != nil {
		return "", err
	}
	done := fmt.Sprintf("wrote %s: %d bytes", p.name, len(in.Content))
	if old.id == (beneath.Identity{}) { // a new file, whose text the arguments have
		return done, nil
	}
	return WithDiff(done, old.text, []byte(in.Content), w.secrets), nil
}

// EditInput are the arguments of edit_file.
type EditInput struct {
	Path       string `json:"path" jsonschema:"file to edit, relative to the workspace"`
	OldString  string `json:"old_string" jsonschema:"the text to replace, exactly as the file has it"`
	NewString  string `json:"new_string" jsonschema:"the text that takes its place"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence"`
}

// edit implements the tool edit_file.
func (w *workspace) edit(_ context.Context, in EditInput) (string, error) {
	return w.change(in.Path, func(name string, old []byte) ([]byte, string, error) {
		text, done, err := Edit(name, old, in, w.secrets)
		if err != nil {
			return nil, "", err
		}
		return text, WithDiff(done, old, text, w.secrets), nil
	})
}

// Edit returns the text old with the replacement that in describes, and a line that says what was done. name is the
// name of the file, for messages. Edit looks for in.OldString in the text as read_file shows it, so that the result
// does not reveal whether a secret begins with a guessed text.
func Edit(name string, old []byte, in EditInput, secrets *redact.Redactor) (text []byte, done string, err error) {
	shown := secrets.Mask(string(old)) // has the same length
	n := strings.Count(shown, in.OldString)
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
	line := 1 + bytes.Count(old[:strings.Index(shown, in.OldString)], []byte("\n"))
	at := 0 // the offset up to which old is in text
	for range n {
		match := at + strings.Index(shown[at:], in.OldString)
		text = append(append(text, old[at:match]...), in.NewString...)
		at = match + len(in.OldString)
		if len(text) > maxEditBytes {
			return nil, "", fmt.Errorf("%s would have more than %d bytes, the maximum", name, maxEditBytes)
		}
	}
	text = append(text, old[at:]...)
	return text, fmt.Sprintf("edited %s: %d replaced, the first in line %d", name, n, line),
		checkSecrets(name, old, text, secrets)
}

// checkSecrets returns an error if a change of a file from old to text removes or alters a known secret: the tools
// would show what is left of it.
func checkSecrets(name string, old, text []byte, secrets *redact.Redactor) error {
	if secrets.Keeps(string(old), string(text)) {
		return nil
	}
	return fmt.Errorf("the change would alter a secret in %s, which the tools show as %s or asterisks: change only the "+
		"text "+
		"around it", name, redact.Text)
}

// PatchInput are the arguments of patch_file.
type PatchInput struct {
	Path  string `json:"path" jsonschema:"file to change, relative to the workspace"`
	Patch string `json:"patch" jsonschema:"a unified diff of this file: hunks with @@ lines; names of files are optional and ignored"`
}

// patch implements the tool patch_file.
func (w *workspace) patch(_ context.Context, in PatchInput) (string, error) {
	return w.change(in.Path, func(name string, old []byte) ([]byte, string,
		error) {
		return Patch(name, old, in, w.secrets)
	})
}

// Patch returns the text old with a unified diff applied to it, and a line that says what was done. name is the name
// of the file, for messages. The names of files in the diff are ignored.
func Patch(name string, old []byte, in PatchInput, secrets *redact.Redactor) (text []byte, done string, err error) {
	_, hunks, ok := strings.Cut("\n"+in.Patch, "\n@@ ")
	if !ok {
		return nil, "", errors.New("the patch has no hunk: a hunk begins with a line such as @@ -1,3 +1,4 @@")
	}
	hunks = "@@ " + strings.TrimRight(hunks, "\n") + "\n"
	parsed, _, err := gitdiff.Parse(strings.NewReader("--- a/file\n+++ b/file\n" + hunks))
	if err == nil && len(parsed) != 1 {
		err = errors.New("it changes several files; send one call for each")
	}
	if err == nil && strings.Count(hunks, "\n") != patchLines(parsed[0]) {
		err = errors.New("it has lines after those that its @@ lines count")
	}
	if err != nil {
		return nil, "", fmt.Errorf("the patch is not a unified diff: %w", err)
	}
	var out bytes.Buffer
	if err := gitdiff.Apply(&out, bytes.NewReader(old), parsed[0]); err != nil {
		return nil, "", fmt.Errorf("the patch does not fit %s: %w; read the file again", name, err)
	}
	return out.Bytes(), fmt.Sprintf("patched %s: %d hunks", name, len(parsed[0].TextFragments)),
		checkSecrets(name, old, out.Bytes(), secrets)
}

// patchLines returns the number of lines of a patch that belong to its hunks. Patch refuses a patch with other lines:
// an approval shows them to the user, although they are not applied.
func patchLines(f *gitdiff.File) (n int) {
	for _, hunk := range f.TextFragments {
		n += 1 + len(hunk.Lines)
		for _, l := range hunk.Lines {
			if l.NoEOL() {
				n++ // \ No newline at end of file
			}
		}
	}
	return n
}

// change replaces the text of a file by what f computes from it, and returns what f says was done. given is a path
// from the model.
func (w *workspace) change(given string, f func(name string, old []byte) (text []byte, done string, err error)) (string,
	error) {
	p, err := w.begin().find(given, changing)
	if err != nil {
		return "", err
	}
	defer p.Close()
	old, err := p.readCurrent()
	if err != nil {
		return "", err
	}
	if bytes.IndexByte(old.text, 0) >= 0 {
		return "", fmt.Errorf("%s is a binary file", p.name)
	}
	text, done, err := f(p.name, old.text)
	if err == nil && len(text) > maxEditBytes {
		err = fmt.Errorf("%s would have %d bytes; the maximum is %d", p.name, len(text), maxEditBytes)
	}
	if err == nil {
		err = p.replace(text, old)
	}
	if err != nil {
		return "", err
	}
	return done, nil
}

// DeleteInput are the arguments of delete_file.
type DeleteInput struct {
	Path string `json:"path" jsonschema:"file to delete, relative to the workspace"`
}

// delete implements the tool delete_file.
func (w *workspace) delete(_ context.Context, in DeleteInput) (string, error) {
	p, err := w.begin().find(in.Path, changing)
	if err != nil {
		return "", err
	}
	defer p.Close()
	old, err := p.readCurrent()
	if err != nil {
		return "", err
	}
	if err = p.checkUnchanged(old); err == nil {
		err = unix.Unlinkat(int(p.dir.Fd()), p.base, 0)
	}
	if err != nil {
		return "", explain(p.name, err)
	}
	w.record(p.path)
	return "deleted " + p.name, nil
}

// fileContent is a file as it was read before a change. Its id is zero if the file does not exist.
type fileContent struct {
	id   beneath.Identity
	text []byte
	mode fs.FileMode
}

// readCurrent reads the file that is to be changed. If it does not exist, the error wraps errNoFile, and the mode is
// that of a new file.
func (p place) readCurrent() (fileContent, error) {
	if _, err := beneath.Lstat(p.dir, p.base); errors.Is(err, fs.ErrNotExist) {
		none := fileContent{mode: 0o644}
		if err := p.call.guard(p.path, none.id, p.how); err != nil {
			return none, explain(p.name, err)
		}
		return none, fmt.Errorf("%s: %w", p.name, errNoFile)
	}
	f, info, err := p.open()
	if err != nil {
		return fileContent{}, err
	}
	defer f.Close()
	if info.Size() > maxEditBytes {
		return fileContent{}, fmt.Errorf("%s has %d bytes; the maximum is %d", p.name, info.Size(), maxEditBytes)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxEditBytes))
	return fileContent{beneath.IdentityOf(info), text, info.Mode().Perm()}, err
}

// checkUnchanged returns an error if another process has replaced, created or deleted the file since readCurrent.
func (p place) checkUnchanged(old fileContent) error {
	e, err := beneath.Lstat(p.dir, p.base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if e.ID != old.id {
		return errChanged
	}
	return nil
}

// replace writes the new text of a file, with the mode of old. It writes a temporary file beside the file and renames
// it, so that a crash leaves the old text or the new one. A temporary file that an earlier crash has left is deleted.
func (p place) replace(text []byte, old fileContent) (err error) {
	dir, temporary := int(p.dir.Fd()), "."+p.base+".everturn-new"
	if err := unix.Unlinkat(dir, temporary, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return explain(p.name, err)
	}
	f, err := beneath.Open(p.dir, temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, old.mode)
	if err != nil {
		return explain(p.name, err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(old.mode), f.Sync(), f.Close()); err == nil {
		err = p.checkUnchanged(old)
	}
	if err == nil {
		err = unix.Renameat(dir, temporary, dir, p.base)
	}
	if err != nil {
		return explain(p.name, errors.Join(err, unix.Unlinkat(dir, temporary, 0)))
	}
	p.call.record(p.path)
	return nil
}
