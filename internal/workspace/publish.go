package workspace

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Publishing says where canvases are published, and how.
type Publishing struct {
	Remote string // the address of a repository: see CheckRemote
	// Branch is the name of the branch there; {session} stands for the session.
	Branch string
	// PullRequest is a command that asks for a pull request of the branch, with the folder of the user's repository as its
	// working directory; empty for none. In its words, {branch}, {commit} and {title} stand for what was pushed. Environ is
	// its environment.
	PullRequest []string
	Environ     []string
}

// PublishInput is the input of Publish. Action describes the call that publishes; its Call is empty if a user publishes
// by command.
type PublishInput struct {
	Action
	Publishing
	// Commit and Files are what the canvas must have: see MergeInput.
	Commit string
	Files  []string
	Squash bool // push one commit of all changes instead of the canvas's commits
	// Title is the message of that commit, and the title of the pull request.
	Title string
}

// Published is what Publish has pushed.
type Published struct {
	Commit string // the commit that the branch has now
	Branch string // of the remote repository
	Files  []string
	// Pushed means that the branch has the commit; Earlier that it had it already.
	Pushed, Earlier bool
	// Answer is what the command for the pull request has written.
	Answer string
}

// String says what was done, in one line or, with an answer, more.
func (p Published) String() string {
	done := "pushed"
	if p.Earlier {
		done = "had pushed"
	}
	done = fmt.Sprintf("%s commit %.10s to branch %s", done, p.Commit, p.Branch)
	if p.Answer != "" {
		done += "\npull request: " + p.Answer
	}
	return done
}

// publishedBranch returns the name of the branch to which a session is published. In the pattern, {session} stands for
// the session, with all characters but letters, digits, - and _ as =XX.
func publishedBranch(pattern, tenant, session string) string {
	return strings.ReplaceAll(pattern, "{session}", strings.ReplaceAll(escape(qualified(tenant, session)), "%", "="))
}

// Publish pushes the commits of the canvas to a branch of a remote repository and asks for a pull request. The canvas
// stays as it is. The error may be a *MovedError. If the pull request fails, the result is what was pushed.
func (s *Store) Publish(ctx context.Context, in PublishInput) (out Published, err error) {
	if out, err = s.pushCanvas(ctx, in); err == nil && len(in.PullRequest) > 0 {
		out.Answer, err = s.requestPull(ctx, in, out)
	}
	return out, err
}

// pushCanvas pushes the commits of the canvas. It replaces only what the canvas has pushed before: a branch with another
// commit is an error. The store has a reference to each pushed commit from before the push, so that a push whose end was
// lost is recognized later.
func (s *Store) pushCanvas(ctx context.Context, in PublishInput) (out Published, err error) {
	out.Branch = publishedBranch(in.Publishing.Branch, in.Tenant, in.Session)
	ref := "refs/heads/" + out.Branch
	if _, err := s.git(ctx, nil, "check-ref-format", ref); err != nil {
		return out, fmt.Errorf("%q is no name of a branch", out.Branch)
	}
	if _, err := s.existingState(ctx, in.Tenant, in.Session); err != nil {
		return out, err
	}
	t, err := s.open(ctx, in.Action, nil)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	ctx = t.locked(ctx)
	shown, err := t.approved(ctx, in.Action, in.Commit, in.Files)
	if err != nil {
		return out, err
	}
	out.Commit, out.Files = shown.Head, shown.paths()
	if in.Squash {
		if out.Commit, err = t.squashed(ctx, in); err != nil {
			return out, err
		}
	}
	now, err := s.remoteHead(ctx, in.Remote, ref)
	if err != nil {
		return out, err
	}
	if now == out.Commit {
		out.Pushed, out.Earlier = true, true
		return out, nil
	}
	ours, err := t.published(ctx, in.Action, now)
	if err == nil && !ours {
		err = fmt.Errorf("the remote repository has a branch %s with a commit that is not this canvas's, %.10s, which it "+
			"does "+
			"not replace", out.Branch, now)
	}
	if err == nil {
		_, err = s.git(ctx, nil, "update-ref", publishedRefs(in.Tenant, in.Session)+out.Commit[:16], out.Commit)
	}
	if err != nil {
		return out, err
	}
	if err := s.push(ctx, in.Remote, ref, out.Commit, now); err != nil {
		return out, fmt.Errorf("pushing to branch %s: %w", out.Branch, err)
	}
	out.Pushed = true
	return out, nil
}

// squashed returns a commit of all changes of the canvas, whose parent is its base. It is the same commit for the same
// changes and message.
func (t *tree) squashed(ctx context.Context, in PublishInput) (string, error) {
	at, err := t.store.firstLine(ctx, "log", "-1", "--format=%ct", t.state.head, "--")
	if err != nil {
		return "", err
	}
	args := []string{"commit-tree", t.state.head + "^{tree}", "-F", "-"}
	if t.state.base != "" {
		args = append(args, "-p", t.state.base)
	}
	a := Action{Tenant: in.Tenant, Session: in.Session}
	c := gitCommand{dir: t.store.dir, timeout: gitTimeout,
		environ: []string{"GIT_AUTHOR_DATE=@" + at + " +0000", "GIT_COMMITTER_DATE=@" + at + " +0000"}}
	out := &limitedBuffer{max: maxMessage}
	err = c.run(ctx, strings.NewReader(a.message(in.Title, t.state.base)), out,
		append([]string{"--git-dir=" + t.store.store()}, args...)...)
	return strings.TrimSpace(out.kept.String()), err
}

// published reports whether a commit that a branch of a remote repository has comes from the canvas: it was pushed from
// here, or is a commit of the canvas. It also does if there is no such branch.
func (t *tree) published(ctx context.Context, a Action, id string) (bool, error) {
	if id == "" {
		return true, nil
	}
	refs, err := t.store.git(ctx, nil, "for-each-ref", "--format=%(objectname)",
		strings.TrimSuffix(publishedRefs(a.Tenant, a.Session), "/"))
	if err != nil || slices.Contains(strings.Fields(string(refs)), id) {
		return err == nil, err
	}
	own, err := t.store.git(ctx, nil, "rev-list", t.state.revisions(), "--")
	return slices.Contains(strings.Fields(string(own)), id), err
}

// PublishTimeout bounds Publish. pullTimeout and maxAnswer bound the command for a pull request.
const (
	PublishTimeout = 2*pushTimeout + pullTimeout
	pullTimeout    = 2 * time.Minute
	maxAnswer      = 8 << 10 // bytes
)

// requestPull runs the command for a pull request and returns what it has written.
func (s *Store) requestPull(ctx context.Context, in PublishInput, done Published) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	title := strings.TrimLeft(oneLine(in.Title, 200), "- ") // it could be taken for an option
	words := strings.NewReplacer("{branch}", done.Branch, "{commit}", done.Commit, "{title}", title)
	argv := make([]string, len(in.PullRequest))
	for i, word := range in.PullRequest {
		argv[i] = words.Replace(word)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = s.repo, in.Environ
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	answer := &limitedBuffer{max: maxAnswer}
	cmd.Stdout, cmd.Stderr = answer, answer
	err := cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	text := strings.TrimSpace(answer.kept.String())
	if err != nil {
		return "", fmt.Errorf("%s; the command for the pull request (workspace.publish.pull_request) failed: %w: %s", done,
			err, text)
	}
	return text, nil
}
