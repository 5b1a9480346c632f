package workspace

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/journal/sqlite"
)

// machines are places that have clones of one repository and share a journal and a remote.
type machines struct {
	*testing.T
	journal *journal.DB
	dir     string
	remote  string
}

func newMachines(t *testing.T, remote bool) *machines {
	t.Helper()
	m := &machines{T: t, dir: repository(t, map[string]string{"a": "1\n", ".gitignore": "out/\n*.o\n"})}
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	m.journal = db
	if remote {
		m.remote = filepath.Join(t.TempDir(), "remote.git")
		userGit(t, m.dir, "clone", "-q", "--bare", m.dir, m.remote)
		for _, hook := range []string{"pre-receive", "update", "post-receive", "post-update", "reference-transaction"} {
			require.NoError(t, os.WriteFile(filepath.Join(m.remote, "hooks", hook),
				[]byte("#!/bin/sh\ntouch "+m.dir+"/HOOKED\nexit 1\n"),
				0o755))
		}
	}
	return m
}

// machine returns the store of a machine, whose clone of the repository is its own.
func (m *machines) machine(name string) *Store {
	m.Helper()
	dir := filepath.Join(m.TempDir(), name)
	userGit(m.T, m.dir, "clone", "-q", m.dir, dir)
	return m.process(name, dir, filepath.Join(m.TempDir(), ".everturn"))
}

func (m *machines) process(name, dir, state string) *Store {
	m.Helper()
	s, err := Open(m.Context(), Options{Repo: dir, State: state, Worker: name, Remote: m.remote,
		TakeoverAfter: time.Hour, Journal: func() Journal { return m.journal }})
	require.NoError(m, err)
	require.NoError(m, m.journal.ReportWorker(m.Context(), fleet.WorkerReport{ID: name, Identity: name, Place: s.Place()}))
	return s
}

// gone lets a machine be away for longer than others wait.
func (m *machines) gone(others ...*Store) {
	for _, s := range others {
		s.o.TakeoverAfter = 0
	}
}

// last returns the last commit of a session at the remote.
func (m *machines) last(session string) string {
	m.Helper()
	return userGit(m.T, m.remote, "for-each-ref", "--format=%(objectname)", remoteRef("", session))
}

// TestAnotherMachineTakesATreeOver has the commits of a machine that dies, and refuses what it does when it comes back.
func TestAnotherMachineTakesATreeOver(t *testing.T) {
	m := newMachines(t, true)
	a, b := m.machine("a"), m.machine("b")
	first := write(t, a, call("s", 1), "b", "2\n")
	assert.Equal(t, first, m.last("s"))
	command(t, a, call("s", 2), "mkdir out; echo x >out/x; echo x >x.o; echo 3 >c")
	_, err := b.Change(t.Context(), call("s", 3), nil, Change{Run: func(string) ([]string, error) {
		t.Error("the call ran on the wrong machine")
		return nil, nil
	}})
	var elsewhere *ElsewhereError
	require.ErrorAs(t, err, &elsewhere)
	assert.Equal(t, a.Place(), elsewhere.Place)
	assert.Equal(t, "a", elsewhere.Worker)

	m.gone(b)
	var kept *TakenError
	_, err = a.Change(t.Context(), call("s", 3), nil, Change{Title: "slow", Run: func(dir string) ([]string, error) {
		res := command(t, b, call("s", 3), "test ! -e out; cat b c; echo b >d") // while the first machine is suspended
		for _, lost := range []string{"out/", "x.o", "worker a"} {
			assert.Contains(t, res.Note(), lost)
		}
		return []string{"d"}, put(dir, "d", "a\n")
	}})
	require.ErrorAs(t, err, &kept)
	assert.Equal(t, "a", inStore(t, a, "show", kept.Kept+":d"), "what it had changed is kept")
	shown, err := b.Show(t.Context(), "", "s")
	require.NoError(t, err)
	assert.Equal(t, shown.Head, m.last("s"), "the commit of the machine that was suspended was not pushed")
	require.Len(t, shown.Commits, 3)
	assert.Equal(t, map[string]string{".gitignore": "out/\n*.o\n", "a": "1\n", "b": "2\n", "c": "3\n", "d": "b\n"},
		files(t, b, "s"))
	assert.Empty(t, command(t, b, call("s", 4), "true").Note(), "once")
	assert.NoDirExists(t, a.Path("", "s"))

	m.gone(a)
	write(t, a, call("s", 5), "e", "5\n")
	assert.Contains(t, files(t, a, "s"), "d", "the first machine takes it back")
	require.NoError(t, b.Release(t.Context()))
	assert.NoDirExists(t, b.Path("", "s"))
	assert.Equal(t, inStore(t, a, "rev-parse", headRef("", "s")), m.last("s"))
	assert.NoFileExists(t, filepath.Join(m.dir, "HOOKED"), "no hook ran")
	userGit(t, m.remote, "fsck", "--strict")
}

// TestChangesOfAMachineThatComesBackAreKept takes over the tree of a machine that died in a call.
func TestChangesOfAMachineThatComesBackAreKept(t *testing.T) {
	m := newMachines(t, true)
	a, b := m.machine("a"), m.machine("b")
	write(t, a, call("s", 1), "b", "2\n")
	assert.Panics(t, func() {
		_, _ = a.Change(t.Context(), call("s", 2), nil, Change{Run: func(dir string) ([]string, error) {
			require.NoError(t, put(dir, "half", "done\n"))
			panic("killed")
		}})
	})
	m.gone(b)
	write(t, b, call("s", 2), "half", "whole\n")
	require.NoError(t, a.Release(t.Context()))
	left := inStore(t, a, "for-each-ref", "--format=%(refname)", "refs/everturn/aside/")
	assert.Equal(t, "done", inStore(t, a, "show", left+":half"))
	assert.NoDirExists(t, a.Path("", "s"))
	require.NoError(t, a.Release(t.Context()))
}

// TestARemoteThatIsAway keeps the commit of a call until the remote is back.
func TestARemoteThatIsAway(t *testing.T) {
	m := newMachines(t, true)
	a := m.machine("a")
	write(t, a, call("s", 1), "b", "2\n")
	away := m.remote + ".away"
	require.NoError(t, os.Rename(m.remote, away))
	run := func(n int, report string) (Result, error) {
		return a.Change(t.Context(), call("s", n), nil, Change{Title: "write", Run: func(dir string) ([]string, error) {
			return []string{"c"}, put(dir, "c", report)
		}, Report: func() (string, error) { return report, nil }})
	}
	var remote *RemoteError
	res, err := run(2, "first")
	require.ErrorAs(t, err, &remote)
	assert.False(t, remote.Refused)
	assert.Equal(t, m.remote, remote.Address)
	row, _, err := m.journal.Tree(t.Context(), "", "s")
	require.NoError(t, err)
	assert.NotEqual(t, res.Commit, row.Head, "no call is done before its commit is at the remote")
	_, err = run(3, "later")
	require.ErrorAs(t, err, &remote, "the next call waits, too")
	require.NoError(t, os.Rename(away, m.remote))
	again, err := run(2, "again")
	require.NoError(t, err)
	assert.Equal(t, Result{Commit: res.Commit, Files: []string{"c"}, Earlier: true, Report: "first"}, again)
	assert.Equal(t, res.Commit, m.last("s"))
	assert.Equal(t, "first", files(t, a, "s")["c"])

	require.NoError(t, os.Rename(m.remote, away))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	back := time.AfterFunc(500*time.Millisecond, func() { assert.NoError(t, os.Rename(away, m.remote)) })
	defer back.Stop()
	res, err = a.Change(ctx, call("s", 4), nil, Change{Once: true, Title: "command",
		Run: func(dir string) ([]string, error) {
			return nil, put(dir, "d", "4\n")
		}})
	require.NoError(t, err, "a command waits for the remote")
	assert.Equal(t, res.Commit, m.last("s"))
}

// TestAPushIsRepeated interrupts a call after each of its effects.
func TestAPushIsRepeated(t *testing.T) {
	m := newMachines(t, true)
	for _, interrupted := range []string{"after the commit", "after the push", "after the journal"} {
		t.Run(interrupted, func(t *testing.T) {
			a, b := m.machine("a "+interrupted), m.machine("b "+interrupted)
			write(t, a, call(interrupted, 1), "b", "2\n")
			tr, err := a.open(t.Context(), call(interrupted, 2), nil)
			require.NoError(t, err)
			require.NoError(t, a.mark(tr.name, unfinished{Action: tr.action}))
			require.NoError(t, put(a.treeDir(tr.name), "c", "3\n"))
			id, _, err := tr.commitSurely(t.Context(), tr.action, "write", []change{{path: "c"}}, nil)
			require.NoError(t, err)
			if interrupted != "after the commit" {
				require.NoError(t, tr.push(t.Context(), id))
				inStore(t, a, "update-ref", "-d", trackRef("", interrupted))
			}
			if interrupted == "after the journal" {
				require.NoError(t, tr.advance(t.Context(), state{head: id, base: tr.state.base}))
			}
			require.NoError(t, tr.close())
			assert.Equal(t, id, write(t, a, call(interrupted, 2), "c", "other\n"), "the same machine finishes it")
			shown, err := a.Show(t.Context(), "", interrupted)
			require.NoError(t, err)
			assert.Len(t, shown.Commits, 2)
			assert.Equal(t, id, m.last(interrupted))
			m.gone(b)
			write(t, b, call(interrupted, 3), "d", "4\n")
			assert.Len(t, files(t, b, interrupted), 5)
		})
	}
}

// TestAMachineThatDiedBeforeTheJournalKnew has pushed a commit that the next machine takes for no part of the tree.
func TestAMachineThatDiedBeforeTheJournalKnew(t *testing.T) {
	m := newMachines(t, true)
	a, b := m.machine("a"), m.machine("b")
	write(t, a, call("s", 1), "b", "2\n")
	tr, err := a.open(t.Context(), call("s", 2), nil)
	require.NoError(t, err)
	require.NoError(t, put(a.treeDir(tr.name), "c", "a\n"))
	lost, _, err := tr.commitSurely(t.Context(), tr.action, "write", []change{{path: "c"}}, nil)
	require.NoError(t, err)
	require.NoError(t, tr.push(t.Context(), lost))
	m.gone(b)
	made := write(t, b, call("s", 2), "c", "b\n")
	assert.Equal(t, made, m.last("s"))
	require.Error(t, tr.record(t.Context(), state{head: lost, base: tr.state.base}, true))
	require.NoError(t, tr.lock.Release())
	assert.Equal(t, made, m.last("s"), "its push is refused")
	assert.Equal(t, lost, userGit(t, m.remote, "for-each-ref", "--format=%(objectname)", leftRefs("", "s")), "it is kept")
}

// TestACommitOfAnotherIsNotOverwritten finds the reference of a session at the remote at a commit of somebody else.
func TestACommitOfAnotherIsNotOverwritten(t *testing.T) {
	m := newMachines(t, true)
	a := m.machine("a")
	write(t, a, call("s", 1), "b", "2\n")
	userGit(t, m.dir, "commit", "-q", "--allow-empty", "-m", "mine")
	require.NoError(t, os.RemoveAll(filepath.Join(m.remote, "hooks")))
	userGit(t, m.dir, "push", "-qf", m.remote, "HEAD:"+remoteRef("", "s"))
	mine := m.last("s")
	var remote *RemoteError
	_, err := a.Change(t.Context(), call("s", 2), nil, Change{Title: "write", Run: func(dir string) ([]string, error) {
		return []string{"c"}, put(dir, "c", "3\n")
	}})
	require.ErrorAs(t, err, &remote)
	assert.True(t, remote.Refused)
	assert.Equal(t, mine, m.last("s"))
	userGit(t, m.remote, "update-ref", "-d", remoteRef("", "s"))
	id := write(t, a, call("s", 2), "c", "3\n")
	assert.Equal(t, id, m.last("s"))
}

// TestUndoMergeAndDropReachTheRemote moves the branch otherwise than by a call.
func TestUndoMergeAndDropReachTheRemote(t *testing.T) {
	m := newMachines(t, true)
	a, b := m.machine("a"), m.machine("b")
	first, second := write(t, a, call("s", 1), "b", "2\n"), write(t, a, call("s", 2), "c", "3\n")
	_, err := a.Undo(t.Context(), "", "s")
	require.NoError(t, err)
	assert.Equal(t, first, m.last("s"))
	assert.Equal(t, second, userGit(t, m.remote, "for-each-ref", "--format=%(objectname)", leftRefs("", "s")),
		"the remote keeps the commit")
	userGit(t, a.repo, "branch", "other")
	merged, err := a.Merge(t.Context(), MergeInput{Action: call("s", 3), Commit: first, Files: []string{"b"},
		Into: "other", Squash: true})
	require.NoError(t, err)
	assert.Equal(t, merged, m.last("s"))
	origin := func(context.Context) (Origin, error) {
		return Origin{Parents: []string{"s"}, Calls: []string{call("s", 1).call()}}, nil
	}
	_, _, err = b.Read(t.Context(), call("fork", 4), origin)
	require.NoError(t, err, "a fork on another machine")
	assert.Contains(t, files(t, b, "fork"), "b")
	assert.NotContains(t, files(t, b, "fork"), "c")
	shown, err := b.Show(t.Context(), "", "s")
	require.NoError(t, err)
	assert.Equal(t, merged, shown.Head)
	_, err = a.Drop(t.Context(), "", "s")
	require.NoError(t, err)
	assert.Empty(t, m.last("s"))
	m.gone(b)
	write(t, b, call("s", 5), "d", "5\n")
	assert.NotContains(t, files(t, b, "s"), "b", "it begins anew")
}

// TestWithoutARemote names the machine that has the tree. A machine with the same state folder takes it over.
func TestWithoutARemote(t *testing.T) {
	m := newMachines(t, false)
	a, b := m.machine("a"), m.machine("b")
	id := write(t, a, call("s", 1), "b", "2\n")
	same := m.process("c", a.repo, filepath.Dir(filepath.Dir(a.dir)))
	assert.Equal(t, a.Place(), same.Place())
	write(t, same, call("s", 2), "c", "3\n")
	_, err := b.Show(t.Context(), "", "s")
	require.ErrorAs(t, err, new(*ElsewhereError))
	m.gone(b)
	_, _, err = b.Read(t.Context(), call("s", 3), nil)
	var lost *LostError
	require.ErrorAs(t, err, &lost)
	assert.Equal(t, "c", lost.Worker)
	userGit(t, b.repo, "fetch", "-q", a.store(), Branch("", "s"))
	_, _, err = b.Read(t.Context(), call("s", 3), nil)
	require.NoError(t, err, "the user has brought the commits")
	assert.NotEqual(t, id, inStore(t, b, "rev-parse", headRef("", "s")))
	assert.Equal(t, "3\n", files(t, b, "s")["c"])
}

// TestTheRemotesTransport runs nothing but the transport that agent.toml names.
func TestTheRemotesTransport(t *testing.T) {
	for address, protocol := range map[string]string{"/srv/x.git": "file", "file:///srv/x.git": "file",
		"ssh://git@h/x":           "ssh",
		"git@example.org:a/b.git": "ssh", "https://example.org/a.git": "https", "https://u:secret@example.org/a": "https"} {
		got, err := remoteProtocol(address)
		require.NoError(t, err)
		assert.Equal(t, protocol, got)
	}
	for _, address := range []string{"ext::sh -c true", "relative.git", "http://example.org/a", "git://example.org/a",
		"-oProxyCommand=x:y", "ssh://-oProxyCommand=x/y", "fd::3", "host:"} {
		require.Error(t, CheckRemote(address), address)
	}
	m := newMachines(t, true)
	a := m.machine("a")
	ran := filepath.Join(t.TempDir(), "ran")
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[url \""+home+"\"]\ninsteadOf = "+m.remote+
		"\n[core]\nsshCommand = touch "+ran+"\n[credential]\nhelper = !touch "+ran+"\n"), 0o600))
	t.Setenv("HOME", home)
	t.Setenv("GIT_SSH_COMMAND", "touch "+ran)
	t.Setenv("GIT_ASKPASS", "touch "+ran)
	for _, setting := range [][2]string{{"core.sshCommand", "touch " + ran}, {"remote.pushDefault", "x"},
		{"url." + home + ".insteadOf", m.remote}, {"credential.helper", "!touch " + ran}} {
		userGit(t, a.repo, "config", setting[0], setting[1])
	}
	id := write(t, a, call("s", 1), "b", "2\n")
	assert.Equal(t, id, m.last("s"))
	for _, address := range []string{"ssh://127.0.0.1:1/x", "https://git:secret-token@127.0.0.1:1/x"} {
		a.o.Remote = address
		_, err := a.Change(t.Context(), call("s", 2), nil, Change{Run: func(dir string) ([]string, error) {
			return []string{"c"}, put(dir, "c", "3\n")
		}})
		var remote *RemoteError
		require.ErrorAs(t, err, &remote, address)
		assert.NotContains(t, err.Error(), "secret-token")
	}
	assert.NoFileExists(t, ran)
}

// TestWhatAnotherMachineDropsIsGone drops a canvas that the first machine has had.
func TestWhatAnotherMachineDropsIsGone(t *testing.T) {
	m := newMachines(t, true)
	a, b := m.machine("a"), m.machine("b")
	kept := map[string]string{}
	for _, session := range []string{"removed", "used"} {
		kept[session] = write(t, a, call(session, 1), "b", "2\n")
	}
	m.gone(a, b)
	for session := range kept {
		write(t, b, call(session, 2), "c", "3\n")
		_, err := b.Drop(t.Context(), "", session)
		require.NoError(t, err)
	}
	_, err := a.Show(t.Context(), "", "used")
	require.ErrorIs(t, err, ErrNoCanvas)
	write(t, a, call("used", 3), "d", "4\n")
	assert.NotContains(t, files(t, a, "used"), "b", "it begins anew")
	require.NoError(t, a.Release(t.Context()))
	assert.NoDirExists(t, a.Path("", "removed"))
	all, err := a.List(t.Context(), "", 0)
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, "used", all[0].Session)
	for session, id := range kept {
		assert.Contains(t, inStore(t, a, "for-each-ref", "--format=%(objectname)", leftRefs("", session)), id)
	}
}

// TestATreeThatWasTakenOverIsSetUp reads in it first, which makes it.
func TestATreeThatWasTakenOverIsSetUp(t *testing.T) {
	m := newMachines(t, true)
	a, b := m.machine("a"), m.machine("b")
	setUp := func(s *Store) (done bool) {
		_, _, done, err := s.SetUp(t.Context(), call("s", 1), nil, func(dir string, _ bool) (Setup, error) {
			return Setup{}, put(dir, "lock", "1\n")
		})
		require.NoError(t, err)
		return done
	}
	assert.True(t, setUp(a))
	m.gone(b)
	_, read, err := b.Read(t.Context(), call("s", 2), nil)
	require.NoError(t, err)
	assert.Contains(t, read.Notice, "made anew")
	assert.True(t, setUp(b))
	assert.False(t, setUp(b))
	shown, err := b.Show(t.Context(), "", "s")
	require.NoError(t, err)
	assert.Len(t, shown.Commits, 1)
}
