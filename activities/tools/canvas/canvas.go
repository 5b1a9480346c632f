package canvas

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/activities/tools/files"
	"github.com/everturn/everturn/internal/canvas"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/workflows/turn"
)

// maxShown bounds what a tool shows of a file or a diff, in bytes. It leaves room for a note.
const maxShown = 64<<10 - 512

// set is the tools for the canvases of one repository. Each method that returns (string, error) is a tool.
type set struct {
	repo    *canvas.Repo
	hidden  func(name string) bool
	secrets *redact.Redactor
}

// Register adds the tools for the canvases of a repository. hidden reports whether the tools must not read or change
// the file of this name.
func Register(r *tools.Registry, repo *canvas.Repo, hidden func(name string) bool) error {
	s := set{repo, hidden, r.Secrets()}
	read := []tools.Option{tools.LocalActivity(), tools.Risk(turn.RiskLow), tools.ReadOnly()}
	change := []tools.Option{tools.Repeatable(), tools.Risk(turn.RiskMedium)}
	return errors.Join(
		tools.Add(r, "canvas_list",
			"List the files of the canvas: a branch of a git repository that belongs to this session.",
			s.list, read...),
		tools.Add(r, "canvas_read", "Read a text file of the canvas, about 64 KiB at once.", s.read, read...),
		tools.Add(r, "canvas_diff", "Show what the canvas has changed, as a unified diff.", s.diff, read...),
		tools.Add(r, "canvas_write", "Create or replace a text file on the canvas; it becomes one commit.", s.write,
			change...),
		tools.Add(r, "canvas_edit", "Replace text in a file of the canvas; it becomes one commit. old_string must be in the "+
			"file exactly once, with its white space; replace_all replaces each occurrence.", s.edit, change...),
		tools.Add(r, "canvas_patch",
			"Apply a unified diff to one file of the canvas; it becomes one commit. Its context must "+
				"match the file exactly.", s.patch, change...),
		tools.Add(r, "canvas_delete", "Delete a file on the canvas; it becomes one commit.", s.delete, change...),
		tools.Add(r, "canvas_take", "Merge what an agent that you have called in this turn has changed on its canvas into "+
			"yours.", s.take, change...),
		tools.Add(r, "canvas_merge", "Merge the canvas into a branch of the repository that is not checked out.", s.merge,
			tools.Repeatable(), tools.Risk(turn.RiskHigh)),
	)
}

// action returns the call for which a tool runs, from the tool's context. If the call is a subagent's and its
// session has no canvas yet, action begins the canvas with the state of the caller's.
func (s set) action(ctx context.Context) (canvas.Action, error) {
	req, ok := tools.CallInfo(ctx)
	if !ok || req.Session == "" {
		return canvas.Action{}, errors.New("a canvas belongs to a session, and this call to none")
	}
	a := canvas.Action{Tenant: req.Tenant, Session: req.Session, Turn: req.Turn, Step: req.Step, Call: req.CallID,
		Tool: req.Tool, Model: req.Model, ArgumentsHash: fmt.Sprintf("%x", sha256.Sum256(req.Arguments))}
	if req.Caller == "" {
		return a, nil
	}
	return a, s.repo.BeginAt(ctx, a, req.Caller)
}

// checkHidden returns an error if the tools must not read or change the file, because it looks like credentials.
func (s set) checkHidden(name string) error {
	if s.hidden(path.Clean(name)) {
		return fmt.Errorf("%s: it looks like a file of credentials, which the tools do not read; the operator can allow it "+
			"([local_files] deny in agent.toml)", name)
	}
	return nil
}

type listInput struct {
	Path string `json:"path,omitempty" jsonschema:"directory to list; empty for the whole canvas"`
}

// list implements the tool canvas_list: it returns the paths of the canvas's files, one on a line.
func (s set) list(ctx context.Context, in listInput) (string, error) {
	a, err := s.action(ctx)
	if err != nil {
		return "", err
	}
	paths, truncated, err := s.repo.List(ctx, a.Tenant, a.Session, in.Path)
	if err != nil || len(paths) == 0 {
		return "[no files]\n", err
	}
	out := strings.Join(paths, "\n") + "\n"
	if truncated {
		out += fmt.Sprintf("[cut: only the first %d files; list a directory]\n", len(paths))
	}
	return out, nil
}

type readInput struct {
	Path   string `json:"path" jsonschema:"file to read, relative to the repository"`
	Offset int    `json:"offset,omitempty" jsonschema:"byte to begin at; 0 when left out"`
}

// read implements the tool canvas_read: it returns the text of a file from an offset on, with a note if that is not
// all.
func (s set) read(ctx context.Context, in readInput) (string, error) {
	a, err := s.action(ctx)
	if err != nil {
		return "", err
	}
	if err := s.checkHidden(in.Path); err != nil {
		return "", err
	}
	b, err := s.repo.Read(ctx, a.Tenant, a.Session, in.Path)
	switch {
	case err != nil:
		return "", err
	case bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b):
		return fmt.Sprintf("[%s is a binary file of %d bytes; it is not shown]\n", in.Path, len(b)), nil
	case in.Offset < 0 || in.Offset > len(b):
		return "", fmt.Errorf("%s: offset %d is outside of its %d bytes", in.Path, in.Offset, len(b))
	}
	return truncate(s.secrets.Mask(string(b))[in.Offset:], in.Offset), nil
}

// truncate returns at most maxShown bytes of a text, with a note that says at which offset of the file to read on.
// offset is that of the text in the file.
func truncate(text string, offset int) string {
	part := turn.Truncate(text, maxShown)
	if part == text {
		return text
	}
	part = strings.TrimSuffix(part, "…")
	return fmt.Sprintf("%s\n[cut: %d of %d bytes; the next begins at offset %d]\n", part, len(part), len(text),
		offset+len(part))
}

type diffInput struct {
	Path string `json:"path,omitempty" jsonschema:"only this file; empty for all"`
	From string `json:"from,omitempty" jsonschema:"the session of an agent that this turn has called, to see its canvas"`
}

// diff implements the tool canvas_diff: it returns the changes of the session's own canvas, or of that of a subagent.
func (s set) diff(ctx context.Context, in diffInput) (string, error) {
	a, err := s.action(ctx)
	if err != nil {
		return "", err
	}
	session := a.Session
	if in.From != "" {
		session = in.From
		if err := checkSubagent(a, session); err != nil {
			return "", err
		}
	}
	text, err := s.repo.Diff(ctx, a.Tenant, session, in.Path)
	if text = s.secrets.Mask(text); len(text) > maxShown {
		text = turn.Truncate(text, maxShown) + fmt.Sprintf("\n[cut: %d bytes; show one file]\n", len(text))
	}
	return text, err
}

type writeInput struct {
	Path    string `json:"path" jsonschema:"file to write, relative to the repository"`
	Content string `json:"content" jsonschema:"the whole text of the file"`
}

// write implements the tool canvas_write.
func (s set) write(ctx context.Context, in writeInput) (string, error) {
	return s.commit(ctx, "write", in.Path, func([]byte, bool) ([]byte, string, bool, error) {
		return []byte(in.Content), fmt.Sprintf("wrote %s: %d bytes", in.Path, len(in.Content)), false, nil
	})
}

// edit implements the tool canvas_edit.
func (s set) edit(ctx context.Context, in files.EditInput) (string, error) {
	return s.commit(ctx, "edit", in.Path, changeText(in.Path, func(old []byte) ([]byte, string, error) {
		return files.Edit(in.Path, old, in, s.secrets)
	}))
}

// patch implements the tool canvas_patch.
func (s set) patch(ctx context.Context, in files.PatchInput) (string, error) {
	return s.commit(ctx, "patch", in.Path, changeText(in.Path, func(old []byte) ([]byte, string, error) {
		return files.Patch(in.Path, old, in, s.secrets)
	}))
}

// delete implements the tool canvas_delete.
func (s set) delete(ctx context.Context, in files.DeleteInput) (string, error) {
	return s.commit(ctx, "delete", in.Path, func(_ []byte, exists bool) ([]byte, string, bool, error) {
		if !exists {
			return nil, "", false, fmt.Errorf("%s: %w", in.Path, canvas.ErrNoFile)
		}
		return nil, "deleted " + in.Path, true, nil
	})
}

// fileChange computes a change of a file from its old text: the new text, or remove if the file is to be deleted. done
// describes the change to the model.
type fileChange func(old []byte, exists bool) (text []byte, done string, remove bool, err error)

// changeText returns the change that f computes for the text file name. It fails if the file does not exist or is
// binary.
func changeText(name string, f func(old []byte) ([]byte, string, error)) fileChange {
	return func(old []byte, exists bool) ([]byte, string, bool, error) {
		switch {
		case !exists:
			return nil, "", false, fmt.Errorf("%s: %w", name, canvas.ErrNoFile)
		case bytes.IndexByte(old, 0) >= 0:
			return nil, "", false, fmt.Errorf("%s is a binary file", name)
		}
		text, done, err := f(old)
		return text, done, false, err
	}
}

// commit applies a change to a file of the canvas as one commit, and returns what was done. If an earlier attempt of
// the call has made the commit, it makes no other one. verb begins the commit's message.
func (s set) commit(ctx context.Context, verb, name string, f fileChange) (string, error) {
	a, err := s.action(ctx)
	if err != nil {
		return "", err
	}
	if err := s.checkHidden(name); err != nil {
		return "", err
	}
	done := verb + " " + name + " was done before" // stays if the function below is not called
	var before, after []byte
	id, err := s.repo.Commit(ctx, a, verb+" "+name, name, func(old []byte, exists bool) ([]byte, bool, error) {
		text, what, remove, err := f(old, exists)
		done = what
		if exists && !remove && verb != "patch" { // the arguments have the text of a new file, and a patch
			before, after = old, text
		}
		return text, remove, err
	})
	if err != nil {
		return "", err
	}
	done = fmt.Sprintf("%s (commit %.10s on branch %s)", done, id, s.repo.Branch(a.Tenant, a.Session))
	return files.WithDiff(done, before, after, s.secrets), nil
}

// checkSubagent returns an error if the session is not that of a subagent which the call's turn has called.
func checkSubagent(a canvas.Action, session string) error {
	if ofTurn := turn.SubagentSession(a.Turn, ""); !strings.HasPrefix(session, ofTurn) {
		return fmt.Errorf("%q is no session of an agent that this turn has called", turn.Truncate(session, 100))
	}
	return nil
}

type takeInput struct {
	From string `json:"from" jsonschema:"the agent's session, as the result of its call names it"`
}

// take implements the tool canvas_take: it merges the changes of a subagent's canvas into the session's own.
func (s set) take(ctx context.Context, in takeInput) (string, error) {
	a, err := s.action(ctx)
	if err != nil {
		return "", err
	}
	if err := checkSubagent(a, in.From); err != nil {
		return "", err
	}
	id, err := s.repo.Take(ctx, a, in.From)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("took the changes as commit %.10s", id), nil
}

type mergeInput struct {
	Into   string `json:"into" jsonschema:"the branch to merge into"`
	Squash bool   `json:"squash,omitempty" jsonschema:"make one commit of all changes"`
	Title  string `json:"title" jsonschema:"what the changes do, in one line"`
}

// merge implements the tool canvas_merge: it merges the session's canvas into a branch of the repository.
func (s set) merge(ctx context.Context, in mergeInput) (string, error) {
	a, err := s.action(ctx)
	if err != nil {
		return "", err
	}
	id, err := s.repo.Merge(ctx, canvas.MergeInput{Action: a, Into: in.Into, Squash: in.Squash, Title: in.Title})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("merged into %s as commit %.10s", in.Into, id), nil
}
