package canvas

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/activities/tools/files"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/workflows/turn"
)

// maxShown bounds what a tool shows of a diff, in bytes. It leaves room for a note.
const maxShown = 64<<10 - 1024

// Lineage returns the sessions that a session was forked from, the nearest first, and the calls whose results it shares
// with them, as TURN/CALL, the latest first.
type Lineage func(ctx context.Context, tenant, session string) (parents, calls []string, err error)

// Setup is a command that prepares a new tree, with a place and time limits for it.
type Setup struct {
	Command string
	// Run runs the command in the directory of a tree. users means that its content is the user's own: no agent has
	// changed what the command runs. An error means that the command was interrupted.
	Run func(ctx context.Context, dir string, users bool) (workspace.Setup, error)
	// Timeout is how long Run may take.
	Timeout time.Duration
}

// set is the tools for the canvases of one repository. Each method that returns (string, error) is a tool.
type set struct {
	Roots
	secrets *redact.Redactor
	to      *workspace.Publishing
}

// Register adds the tools for canvases, and the file tools, which act in the tree of their call's session. to says where
// canvases are published; nil: nowhere.
func Register(r *tools.Registry, roots Roots, rules files.Options, to *workspace.Publishing) error {
	s := set{roots, r.Secrets(), to}
	rules.Instructions, rules.Protected = true, nil // no agent is configured by a tree
	if roots.Setup != nil {
		rules.Before = roots.Setup.Timeout
	}
	rules.Timeout = roots.timeout()
	return errors.Join(
		s.registerPublish(r),
		files.RegisterIn(r, roots, rules),
		tools.Add(r, "canvas_diff", "Show what this session has changed in the workspace, as a unified diff, and its last "+
			"commit.", s.diff, tools.LocalActivity(), tools.Risk(turn.RiskLow), tools.ReadOnly(), tools.Timeout(rules.Timeout)),
		tools.Add(r, "canvas_take", "Merge what an agent that you have called in this turn has changed into your workspace.",
			s.take, tools.Repeatable(), tools.Risk(turn.RiskMedium), tools.Timeout(rules.Timeout)),
		tools.Add(r, "canvas_merge", "Merge what this session has changed into a branch of the user's repository that is "+
			"not checked out. commit and files are those that canvas_diff shows.", s.merge, tools.Repeatable(),
			tools.Risk(turn.RiskHigh), tools.Timeout(rules.Timeout)),
	)
}

// action returns the call for which a tool runs, and where the canvas of its session begins, from the tool's context.
func (r Roots) action(ctx context.Context) (a workspace.Action, origin workspace.Begins, err error) {
	req, ok := tools.CallInfo(ctx)
	if !ok || req.Session == "" {
		return a, nil, errors.New("a canvas belongs to a session, and this call to none")
	}
	return workspace.Action{Tenant: req.Tenant, Session: req.Session, Turn: req.Turn, Step: req.Step, Call: req.CallID,
			Tool: req.Tool, Model: req.Model, ArgumentsHash: fmt.Sprintf("%x", sha256.Sum256(req.Arguments))},
		func(ctx context.Context) (o workspace.Origin, err error) {
			o.Caller = req.Caller
			if r.Lineage != nil {
				o.Parents, o.Calls, err = r.Lineage(ctx, req.Tenant, req.Session)
			}
			return o, err
		}, nil
}

// Roots gives each call the tree of its session: see files.Roots.
type Roots struct {
	Store   *workspace.Store
	Lineage Lineage // nil: no session is a fork
	Setup   *Setup  // nil: new trees need none
	// QueueOf returns the task queue of a worker that has the tree of the error, or "" if none is known to run. nil: there
	// are no other workers.
	QueueOf func(ctx context.Context, e *workspace.ElsewhereError) string
	// TakeoverAfter is that of the store.
	TakeoverAfter time.Duration
}

// Read implements files.Roots.
func (r Roots) Read(ctx context.Context) (dir, notice string, err error) {
	a, origin, err := r.action(ctx)
	if err != nil {
		return "", "", err
	}
	dir, res, err := r.Store.Read(ctx, a, origin)
	reportMade(ctx, a, res.Made)
	return dir, res.Notice, r.unmade(ctx, err)
}

// report reports what a call does with the tree of its session.
func report(ctx context.Context, e turn.WorkspaceEvent) {
	if req, ok := tools.CallInfo(ctx); ok && req.Workspace != nil {
		req.Workspace(e)
	}
}

// reportMade reports a new tree.
func reportMade(ctx context.Context, a workspace.Action, made workspace.Made) {
	if made.New {
		report(ctx, turn.WorkspaceEvent{Kind: turn.EventWorkspaceCreated, Commit: made.At,
			Branch: workspace.Branch(a.Tenant, a.Session)})
	}
}

// reportCommit reports a commit, unless the call has made none.
func reportCommit(ctx context.Context, a workspace.Action, commit string, paths []string) {
	if commit != "" {
		report(ctx, turn.WorkspaceEvent{Kind: turn.EventWorkspaceCommitted, Commit: commit,
			Branch: workspace.Branch(a.Tenant, a.Session)}.WithFiles(paths))
	}
}

// maxSetupShown bounds what events and a model get of the output of a setup, in bytes.
const maxSetupShown = 4 << 10

// setUp prepares the tree of the session, unless it is prepared, and returns a note for the model.
func (r Roots) setUp(ctx context.Context, a workspace.Action, origin workspace.Begins) (note string, err error) {
	if r.Setup == nil {
		return "", nil
	}
	did, res, done, err := r.Store.SetUp(ctx, a, origin, func(dir string, users bool) (workspace.Setup, error) {
		return r.Setup.Run(ctx, dir, users)
	})
	reportMade(ctx, a, res.Made)
	if err != nil || !done {
		return "", err
	}
	output := strings.ToValidUTF8(did.Output[max(0, len(did.Output)-maxSetupShown):], "")
	report(ctx, turn.WorkspaceEvent{Kind: turn.EventWorkspaceSetup, Command: did.Command, Problem: did.Problem,
		Output: output})
	reportCommit(ctx, a, res.Commit, res.Files)
	if did.Problem == "" {
		return fmt.Sprintf("[the new workspace was prepared with `%s`]", did.Command), nil
	}
	return fmt.Sprintf("[preparing the new workspace with `%s` failed: %s. It is not tried again. The end of its "+
		"output:\n%s]",
		did.Command, did.Problem, output), nil
}

// Change implements files.Roots. The changes become one commit.
func (r Roots) Change(ctx context.Context, title string,
	run func(dir string) (done string, changed []string, err error)) (string, error) {
	return r.change(ctx, workspace.Change{Title: title}, run)
}

// StartJob is like Change for a call that starts a job, which goes on changing the tree until JobEnded is called, for
// atMost at the longest.
func (r Roots) StartJob(ctx context.Context, title string, atMost time.Duration,
	run func(dir string) (done string, changed []string, err error)) (string, error) {
	return r.change(ctx, workspace.Change{Title: title, Job: atMost}, run)
}

// JobEnded commits what the job has changed that the call of the context has started. The note says so, or is empty.
func (r Roots) JobEnded(ctx context.Context) (note string, err error) {
	a, _, err := r.action(ctx)
	if err != nil {
		return "", err
	}
	res, err := r.Store.JobEnded(ctx, a)
	return strings.TrimSpace(noted("", res)), err
}

func (r Roots) change(ctx context.Context, c workspace.Change,
	run func(dir string) (done string, changed []string, err error)) (string, error) {
	a, origin, err := r.action(ctx)
	if err != nil {
		return "", err
	}
	setup, err := r.setUp(ctx, a, origin)
	if err != nil {
		return "", r.unmade(ctx, err)
	}
	req, _ := tools.CallInfo(ctx)
	done, ran := c.Title+" was done before", false // stays if run is not called
	var failed error
	c.Once = !req.Repeatable
	c.Run = func(dir string) (changed []string, err error) {
		ran = true
		done, changed, failed = run(dir)
		return changed, failed
	}
	c.Report = func() (string, error) { return done, failed }
	res, err := r.Store.Change(ctx, a, origin, c)
	reportMade(ctx, a, res.Made)
	if err != nil && (!ran || req.Repeatable) { // it may be made again, unless run failed
		var unmade *turn.Error
		if again := r.unmade(ctx, err); errors.As(again, &unmade) {
			return "", again
		}
	}
	reportCommit(ctx, a, res.Commit, res.Files)
	text := cmp.Or(res.Report, done)
	switch {
	case err != nil && ran && failed == nil: // a command has run, and its commit is not recorded
		text = err.Error() + "\n" + text
	case err != nil:
		text = err.Error()
	}
	if text = noted(text, res); setup != "" {
		text = strings.TrimSuffix(text, "\n") + "\n" + setup
	}
	if err != nil {
		return "", notedError{err, text}
	}
	return text, nil
}

// noted returns what a call says with the commit and what that leaves out, after its first line: that says what was
// done, and output or a diff may follow.
func noted(text string, res workspace.Result) string {
	first, rest, more := strings.Cut(text, "\n")
	if res.Commit != "" {
		first += fmt.Sprintf(" (commit %.10s)", res.Commit)
	}
	if note := res.Note(); note != "" {
		first += "\n" + note
	}
	if more {
		first += "\n" + rest
	}
	return first
}

// notedError is an error of a call that has changed files.
type notedError struct {
	error
	text string
}

func (e notedError) Error() string { return e.text }

func (e notedError) Unwrap() error { return e.error }

type diffInput struct {
	Path string `json:"path,omitempty" jsonschema:"only this file; empty for all"`
	From string `json:"from,omitempty" jsonschema:"the session of an agent that this turn has called, to see its canvas"`
}

// diff implements the tool canvas_diff: it returns the changes of the session's own canvas, or of that of a subagent.
func (s set) diff(ctx context.Context, in diffInput) (string, error) {
	a, _, err := s.action(ctx)
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
	text, head, err := s.Store.Diff(ctx, a.Tenant, session, in.Path)
	if err != nil {
		return "", s.unmade(ctx, err)
	}
	if text = s.secrets.Mask(text); len(text) > maxShown {
		text = turn.Truncate(text, maxShown) + fmt.Sprintf("\n[cut: %d bytes; show one file]\n", len(text))
	}
	return text + "[commit " + head + "]\n", err
}

// checkSubagent returns an error if the session is not that of a subagent which the call's turn has called.
func checkSubagent(a workspace.Action, session string) error {
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
	a, origin, err := s.action(ctx)
	if err != nil {
		return "", err
	}
	if err := checkSubagent(a, in.From); err != nil {
		return "", err
	}
	id, err := s.Store.Take(ctx, a, origin, in.From)
	if err != nil {
		return "", s.unmade(ctx, err)
	}
	paths, err := s.Store.ChangedBy(ctx, id)
	if err != nil {
		return "", err
	}
	reportCommit(ctx, a, id, paths)
	return fmt.Sprintf("took the changes as commit %.10s", id), nil
}

type mergeInput struct {
	Into   string   `json:"into" jsonschema:"the branch to merge into"`
	Commit string   `json:"commit" jsonschema:"the last commit, as canvas_diff shows it"`
	Files  []string `json:"files" jsonschema:"the paths of all files that the session has changed"`
	Squash bool     `json:"squash,omitempty" jsonschema:"make one commit of all changes"`
	Title  string   `json:"title" jsonschema:"what the changes do, in one line"`
}

// merge implements the tool canvas_merge: it merges the session's canvas into a branch of the repository. An approval
// shows the arguments, so the canvas must be what they say.
func (s set) merge(ctx context.Context, in mergeInput) (string, error) {
	a, _, err := s.action(ctx)
	if err != nil {
		return "", err
	}
	if in.Commit == "" {
		return "", errors.New("commit is empty: take it from canvas_diff")
	}
	id, err := s.Store.Merge(ctx, workspace.MergeInput{Action: a, Into: in.Into, Commit: in.Commit, Files: in.Files,
		Squash: in.Squash, Title: in.Title})
	if err != nil {
		return "", s.unmade(ctx, err)
	}
	report(ctx, turn.WorkspaceEvent{Kind: turn.EventWorkspaceMerged, Commit: id, Branch: in.Into}.WithFiles(in.Files))
	return fmt.Sprintf("merged into %s as commit %.10s", in.Into, id), nil
}
