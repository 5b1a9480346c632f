package workspace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// attempts are command lines of an agent in its tree, which want git on the host to run something, or the host to read or
// change what is outside of the tree. RUN is a program that tells that it ran, USER the user's repository, and OUT a
// directory outside of the tree with file and dir/file. The commands themselves run without isolation, so none of them
// writes there: see the evasions of package sandbox.
var attempts = map[string][]string{
	"links": {
		"rm -r d; ln -s OUT/dir d", "rm a.txt; ln -s OUT/file a.txt", "ln OUT/file hard", "ln OUT/file a.txt -f", "ln -s OUT new; ln -s OUT/dir/file d/new",
		"rm -r d; ln -s USER/.git d", "ln -s loop loop; rm -r d; ln -s d d", "ln -s /proc/self/environ e; ln -s /proc/self/fd/3 f",
		"rm -r d; ln -s . d", "mkdir -p x/y; ln -s ../../../../.. x/y/up", "rm .gitignore; ln -s OUT/file .gitignore; echo x >new",
		"ln -s OUT/file .gitattributes; echo x >new",
	},
	"git directories": {
		"rm -rf .git; ln -s USER/.git .git", "rm -rf .git; echo 'gitdir: USER/.git' >.git", "rm -rf .git; mkdir .git; echo USER/.git >.git/commondir",
		"mkdir n; echo 'gitdir: USER/.git' >n/.git; echo x >n/f", "mkdir -p d/.git/hooks; cp .git/config d/.git; cp RUN d/.git/hooks/post-commit",
		"mkdir -p .GIT/hooks '.git ' .git. 'git~1' ..git; for n in .GIT '.git ' .git. 'git~1'; do echo x >\"$n/config\"; done",
		"rm .git/HEAD; ln -s USER/.git/HEAD .git/HEAD", "rm .git/index; ln -s USER/.git/index .git/index", "rm -rf .git",
		"echo USER/.git/objects >>.git/objects/info/alternates; rm -rf .git/objects/pack; ln -s USER/.git/objects/pack .git/objects/pack",
		"mkdir -p .everturn/workspace; echo x >.everturn/journal.db", "chmod 000 .git",
	},
	"configuration": {
		"for k in core.fsmonitor core.sshCommand core.pager core.editor sequence.editor diff.external gpg.program credential.helper core.askPass; do " +
			"git config $k RUN; done; git config commit.gpgSign true; echo x >>a.txt",
		"git config core.worktree USER; echo x >>a.txt", "git config include.path RUN; echo x >>a.txt", "git config core.bare true; echo x >>a.txt",
		"git config extensions.worktreeConfig true; printf '[core]\\nfsmonitor=RUN\\n' >.git/config.worktree; echo x >a.txt",
		"git config alias.log '!RUN'; git config alias.fast-import '!RUN'; git config pager.log RUN; echo x >a.txt",
		"git config core.autocrlf true; git config core.eol crlf; echo x >>a.txt", "git config core.excludesFile a.txt; echo '*' >.git/info/exclude; echo x >new",
		"git config uploadpack.packObjectsHook RUN; git config protocol.allow always; git config remote.origin.url 'ext::RUN'; echo x >a.txt",
		"git update-index --skip-worktree a.txt; git update-index --assume-unchanged d/f; echo x >a.txt; echo x >d/f",
		"git sparse-checkout set none 2>/dev/null; echo x >new", "git replace -f HEAD:a.txt HEAD:d/f; git rev-parse HEAD >.git/shallow; echo x >new",
	},
	"nested repositories": {
		"git init -q n; git -C n config core.fsmonitor RUN; cp RUN n/.git/hooks/post-commit 2>/dev/null; echo x >n/f",
		"git init -q --bare n.git; git -C n.git config core.hooksPath RUN; cp RUN n.git/post-receive", "git init -q n; git -C n config core.worktree USER; echo x >n/f",
		"git init -q n; (cd n; git commit -q --allow-empty -m x); git add n 2>/dev/null; echo x >n/f", "git clone -q . n; echo x >n/a.txt",
	},
	"filters and attributes": {
		"echo '* filter=x' >.gitattributes; git config filter.x.clean RUN; git config filter.x.smudge RUN; git config filter.x.required true; echo x >new",
		"echo '* filter=x' >.gitattributes; git config filter.x.process RUN; echo x >new", "echo '* filter=x' >.git/info/attributes; git config filter.x.clean RUN; echo x >new",
		"echo '* filter=x' >at; git config core.attributesFile at; git config filter.x.clean RUN; echo x >new",
		"echo '* ident text=auto eol=crlf working-tree-encoding=UTF-16 export-subst' >.gitattributes; printf '$Id$\\n' >new",
		"echo '[attr]y filter=x' >.gitattributes; echo '* y' >>.gitattributes; git config filter.x.clean RUN; echo x >new",
		"head -c 5000000 /dev/zero | tr '\\0' 'x' >.gitattributes; echo x >new", "mkdir .gitattributes; echo x >new",
	},
	"merge and diff drivers": {
		"echo '* merge=x' >.gitattributes; git config merge.x.driver RUN; echo mine >a.txt", "echo '* merge=x' >.git/info/attributes; git config merge.x.driver RUN; echo mine >a.txt",
		"git config merge.default x; git config merge.x.driver RUN; git config merge.tool x; git config mergetool.x.cmd RUN; echo mine >a.txt",
		"echo '* diff=x' >.gitattributes; git config diff.x.command RUN; git config diff.x.textconv RUN; echo mine >>a.txt",
		"echo 'a.txt -diff -merge -text' >.gitattributes; printf 'mine\\0' >a.txt", "git config merge.renormalize true; echo '* filter=x' >.gitattributes; git config filter.x.clean RUN; echo mine >a.txt",
	},
	"submodules": {
		"printf '[submodule \"x\"]\\npath = x\\nurl = ext::RUN\\nupdate = !RUN\\n' >.gitmodules; mkdir x; echo x >x/f",
		"printf '[submodule \"../../x\"]\\npath = ../../x\\nurl = USER\\n' >.gitmodules",
		"git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub; mkdir sub; echo 'gitdir: USER/.git' >sub/.git; echo x >sub/f",
	},
	"hooks": {
		"for h in reference-transaction post-checkout post-commit pre-commit commit-msg pre-auto-gc post-index-change post-merge post-rewrite; do " +
			"mkdir -p .git/hooks; cp RUN .git/hooks/$h; done; echo x >a.txt",
		"mkdir hooks; cp RUN hooks/reference-transaction; git config core.hooksPath hooks; echo x >a.txt",
		"git config hook.x.command RUN; git config hook.x.event reference-transaction; echo x >a.txt", "cp RUN fsmonitor-watchman; cp RUN git; cp RUN sh; echo x >a.txt",
	},
	"files that are none": {
		"mkfifo fifo a.fifo; rm a.txt; mkfifo a.txt", "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'", "rm d/f; mkdir d/f; echo x >d/f/f",
		"rm -r d; echo x >d", "rm .gitignore; mkfifo .gitignore; echo x >new",
	},
	"background processes": {
		"(for i in $(seq 300); do rm -rf d; ln -s OUT/dir d; rm d; mkdir d; echo x >d/f; done) >/dev/null 2>&1 &",
		"(for i in $(seq 300); do rm -f a.txt; ln -s OUT/file a.txt; rm a.txt; echo $i >a.txt; done) >/dev/null 2>&1 &",
		"(for i in $(seq 300); do mv d e; mv e d; done) >/dev/null 2>&1 &", "(for i in $(seq 100); do git add -A; git commit -qm $i; echo $i >new; done) >/dev/null 2>&1 &",
	},
	"modes, times and limits": {
		"chmod 000 d a.txt", "chmod 4777 a.txt; chmod 1777 d", "chmod 500 d; chmod 400 a.txt", "touch -d 1970-01-01 a.txt d; touch -d 2100-01-01 d/f; echo x >a.txt",
		"truncate -s 70000000 big; truncate -s 900000000 bigger", "p=.; for i in $(seq 150); do p=$p/dir; done; mkdir -p $p; echo x >$p/f",
		"n=$(printf 'x%.0s' $(seq 250)); mkdir -p $n/$n/$n/$n/$n; echo x >$n/$n/$n/$n/$n/f", "for i in $(seq 9000); do echo \"p$i/**/[a-z]*\"; done >.gitignore; echo x >new",
		"printf x >\"$(printf 'a\\nb')\"; printf x >-option; printf x >'\"quoted\"'; printf x >\"$(printf '\\377')\"; mkdir -- --git-dir=x; echo x >'--git-dir=x/f'",
		"for i in $(seq 3000); do echo x >f$i; done",
	},
}

// TestAttemptsToLeaveATree makes each attempt in a tree of its own. After each, the host commits, shows, merges, undoes,
// makes the tree again and drops it.
func TestAttemptsToLeaveATree(t *testing.T) {
	n := 0
	for class, lines := range attempts {
		n += len(lines)
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			attemptAll(t, lines)
		})
	}
	t.Logf("%d attempts", n)
}

func attemptAll(t *testing.T, lines []string) {
	dir, out := repository(t, map[string]string{"a.txt": "one\n", "d/f": "one\n", ".gitignore": "*.o\n"}), t.TempDir()
	ran, program := filepath.Join(out, "RAN"), filepath.Join(t.TempDir(), "run")
	syscall.ForkLock.RLock() // see repository
	err := os.WriteFile(program, []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o755)
	syscall.ForkLock.RUnlock()
	require.NoError(t, errors.Join(err, put(out, "file", "canary\n"), put(out, "dir/file", "canary\n")))
	userGit(t, dir, "checkout", "-q", "-b", "theirs")
	require.NoError(t, errors.Join(put(dir, "a.txt", "theirs\n"), put(dir, "d/theirs", "theirs\n")))
	userGit(t, dir, "add", "-A")
	userGit(t, dir, "commit", "-qm", "theirs")
	userGit(t, dir, "checkout", "-q", "main")
	require.NoError(t, os.Remove(filepath.Join(dir, "HOOKED")))
	s, words := opened(t, dir), strings.NewReplacer("RUN", program, "USER", dir, "OUT", out)
	before, outside := users(t, dir, "refs/heads/theirs"), users(t, out)
	for i, line := range lines {
		ended := attempt(t, s, fmt.Sprint("s", i), words.Replace(line))
		assert.Equal(t, before, users(t, dir, "refs/heads/theirs"), line)
		assert.Equal(t, outside, users(t, out), line) // also that nothing ran
		ended()
		if t.Failed() {
			return
		}
	}
}

// attempt runs a line in the tree of a session, and lets the host do everything to it. The returned function drops the
// canvas and waits for what runs in the background.
func attempt(t *testing.T, s *Store, session, line string) (ended func()) {
	t.Helper()
	var cmd *exec.Cmd
	// The errors are those of trees that cannot be read, and of conflicts.
	_, _ = s.Change(t.Context(), call(session, 1), nil, Change{Title: "run", Run: func(dir string) ([]string, error) {
		cmd = exec.Command("sh", "-c", line)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
		_ = cmd.Run() // what an attempt cannot do here, it has not done
		return nil, nil
	}})
	_, _ = s.Change(t.Context(), call(session, 2), nil, Change{Title: "edit", Run: func(string) ([]string, error) {
		return []string{"a.txt", "d/f", "d/file"}, nil
	}})
	shown, _ := s.Show(t.Context(), "", session)
	for _, f := range shown.Files {
		assert.True(t, isFilePath(f.Path), "%s: %s", line, f.Path)
	}
	text, _, _ := s.Diff(t.Context(), "", session, "")
	assert.NotContains(t, text, "+canary", "what is outside is not committed: %s", line)
	_, _ = s.Merge(t.Context(), MergeInput{Action: call(session, 3), Into: "theirs", Title: "merge", Squash: true})
	_, _ = s.Undo(t.Context(), "", session)
	return func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		time.Sleep(time.Millisecond)
		tree := s.Path("", session)
		_ = exec.Command("chmod", "-R", "u+rwX", tree).Run() // for the end of the test
		if os.RemoveAll(tree) == nil {
			_, _, err := s.Read(t.Context(), call(session, 4), nil)
			assert.NoError(t, err, line)
			_, err = s.Drop(t.Context(), "", session)
			assert.NoError(t, err, line)
		}
	}
}
