package shell

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/activities/tools/files"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/sandbox"
	"github.com/everturn/everturn/workflows/turn"
)

// workspace makes a workspace beside a secret, in which commands run.
func workspace(t *testing.T, level sandbox.Level) (Folder, Options) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "workspace")
	for name, text := range map[string]string{"main.go": "package main\n", ".env": "canary",
		".everturn/journal.db": "canary", "sub/f": "x", "sub/.env": "canary", "sub/.git/config": "canary", "build/old": "x",
		"../secret": "canary",
		".git/HEAD": "ref: refs/heads/main\n", ".git/refs/x": "", ".git/objects/x": "",
		".git/config": "[remote \"origin\"]\n\turl = https://me:canary@example.com/x.git\n" +
			"[credential]\n\thelper = canary\n"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	require.NoError(t, os.Symlink("../secret", filepath.Join(dir, "link")))
	f := Folder{Workspace: dir, Write: []string{"build"}, Git: level == sandbox.LevelNamespace,
		Hidden: files.Options{Deny: []string{".env*"}}.Hidden}
	return f, options(t, f, level)
}

// options returns the options of the tool for a folder, or skips the test if this machine cannot isolate commands.
func options(t *testing.T, f Folder, level sandbox.Level) Options {
	t.Helper()
	box, err := sandbox.Open(t.Context(), sandbox.Options{Level: level, Network: sandbox.NetworkLoopback,
		Environ: os.Environ(), Limits: sandbox.Limits{Processes: 200, Memory: 2 << 30, File: 64 << 20}})
	if err != nil {
		require.ErrorIs(t, err, sandbox.ErrUnavailable)
		t.Skip(err)
	}
	return Options{Sandbox: box, Places: f, Timeout: time.Minute}
}

func TestACommandRunsInTheWorkspace(t *testing.T) {
	for _, level := range []sandbox.Level{sandbox.LevelNamespace, sandbox.LevelLandlock} {
		t.Run(string(level), func(t *testing.T) {
			f, o := workspace(t, level)
			run := func(command string) string {
				out, err := o.run(t.Context(), input{Command: command})
				require.NoError(t, err)
				return out
			}
			assert.Equal(t, "[exit code 0]\npackage main\n", run("cat main.go"))
			_, err := o.run(t.Context(), input{Command: "echo out; echo err >&2; exit 3"})
			assert.EqualError(t, err, "[exit code 3]\nout\nerr\n", "a failure keeps the output")
			assert.Equal(t, "[exit code 0]\n", run("echo new > build/new && echo x > $TMPDIR/y && cat $TMPDIR/y > /dev/null"))
			assert.FileExists(t, filepath.Join(f.Workspace, "build/new"))
			assert.NotContains(t, run("env"), "EVERTURN_")
			long := run("yes 0123456789 | head -c 20000000; echo the end")
			assert.Less(t, len(long), maxOutput+200)
			assert.Contains(t, long, "left out")
			assert.True(t, strings.HasSuffix(long, "the end\n"))
			o.Timeout = 300 * time.Millisecond
			_, err = o.run(t.Context(), input{Command: "echo begun; sleep 60"})
			assert.ErrorContains(t, err, "ended after 300ms")
			assert.ErrorContains(t, err, "begun\n", "a timeout keeps the output")
		})
	}
}

// TestACommandReadsNoCredentials reads what a workspace hides, and writes where it must not.
func TestACommandReadsNoCredentials(t *testing.T) {
	for _, level := range []sandbox.Level{sandbox.LevelNamespace, sandbox.LevelLandlock} {
		t.Run(string(level), func(t *testing.T) {
			f, o := workspace(t, level)
			for _, command := range []string{"cat .env", "cat sub/.env", "cat sub/.git/config", "cat .everturn/journal.db",
				"cat link", "cat ../secret", "grep -r canary . && false", "echo gone > main.go", "echo gone > sub/f",
				"echo gone > new", "mkdir .git/hooks", "echo gone > .git/config", "rm -r .git", "echo gone > .env",
				"mv main.go build/"} {
				out, err := o.run(t.Context(), input{Command: command})
				assert.Error(t, err, command)
				assert.NotContains(t, out, "canary", command)
				if err != nil {
					assert.NotContains(t, strings.ReplaceAll(err.Error(), command, ""), "canary", command)
				}
			}
			for _, name := range []string{"main.go", "sub/f", ".git/config", ".env"} {
				b, err := os.ReadFile(filepath.Join(f.Workspace, name))
				require.NoError(t, err)
				assert.NotContains(t, string(b), "gone")
			}
			if level == sandbox.LevelNamespace {
				out, err := o.run(t.Context(), input{Command: "git status --short && git remote -v"})
				require.NoError(t, err)
				assert.Contains(t, out, "https://example.com/x.git")
			}
		})
	}
}

func TestDirectoriesThatCommandsMayNotWrite(t *testing.T) {
	f, _ := workspace(t, sandbox.LevelNamespace)
	require.NoError(t, f.Check())
	for _, wrong := range []string{".", "..", "/tmp", ".git", "sub/.git", "none", "main.go", "a/../.."} {
		bad := f
		bad.Write = []string{wrong}
		assert.Error(t, bad.Check(), wrong)
	}
	for deny, wrong := range map[string]string{"sub/keys/": "sub/keys", "sub/": "sub/keys", "SUB/k*": "sub/keys/x"} {
		require.NoError(t, os.MkdirAll(filepath.Join(f.Workspace, "sub/keys/x"), 0o755))
		bad := f
		bad.Write = []string{wrong}
		require.NoError(t, bad.Check())
		bad.Hidden = files.Options{Deny: []string{deny}}.Hidden
		assert.ErrorContains(t, bad.Check(), "out of the tools' reach", deny)
	}
}

// TestACommandDoesNotReachWhatTheConfigurationNames tries to read the journal in a directory of the workspace, under
// two names, and to have the program of a server in a directory that commands may write.
func TestACommandDoesNotReachWhatTheConfigurationNames(t *testing.T) {
	for _, level := range []sandbox.Level{sandbox.LevelNamespace, sandbox.LevelLandlock} {
		t.Run(string(level), func(t *testing.T) {
			f, _ := workspace(t, level)
			data := filepath.Join(f.Workspace, "data")
			require.NoError(t, os.Mkdir(data, 0o755))
			for name, text := range map[string]string{"j.db": "canary", "rows.csv": "plain\n"} {
				require.NoError(t, os.WriteFile(filepath.Join(data, name), []byte(text), 0o644))
			}
			require.NoError(t, os.Link(filepath.Join(data, "j.db"), filepath.Join(data, "hard")))
			f.Protected = []files.Protected{{Path: filepath.Join(data, "j.db"), Unread: true},
				{Path: filepath.Join(f.Workspace, "main.go"), Unread: true}, {Path: filepath.Join(f.Workspace, "sub/f")}}
			require.NoError(t, f.Check())
			_, err := options(t, f, level).run(t.Context(),
				input{Command: "cat data/rows.csv sub/f; cat main.go data/j.db data/hard"})
			assert.ErrorContains(t, err, "plain\nx")
			assert.NotContains(t, err.Error(), "canary")
			assert.NotContains(t, err.Error(), "package main")
			for _, named := range []string{"build/server", "build", "."} {
				f.Protected = []files.Protected{{Path: filepath.Join(f.Workspace, named)}}
				assert.Error(t, f.Check(), named)
			}
		})
	}
}

// TestOutputIsReportedWhileACommandRuns lets a command write and wait until its output is reported.
func TestOutputIsReportedWhileACommandRuns(t *testing.T) {
	f, o := workspace(t, sandbox.LevelNamespace)
	secrets := redact.New()
	secrets.Add("secret-value-1")
	r := tools.New(tools.Options{Secrets: secrets}, nil)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	require.NoError(t, Register(r, o))
	offered := r.Catalogues(t.Context())[0].Tools
	i := slices.IndexFunc(offered, func(d turn.Descriptor) bool { return d.ID == "local/shell" })
	var reports []turn.ToolProgress
	released := filepath.Join(f.Workspace, "build/release")
	result, err := r.Call(t.Context(), turn.ToolRequest{Tool: "local/shell", Hash: offered[i].Hash,
		Arguments: json.RawMessage(`{"command":"echo one secret-value-1; ` +
			`while [ ! -f build/release ]; do sleep 0.05; done; echo two; exit 4"}`),
		Progress: func(p turn.ToolProgress) {
			if reports = append(reports, p); len(reports) == 1 {
				assert.NoError(t, os.WriteFile(released, nil, 0o600))
			}
		}})
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeError, result.Outcome)
	assert.Contains(t, result.Text, "[exit code 4]\none")
	require.NotEmpty(t, reports)
	assert.Contains(t, reports[0].Output, "one ")
	assert.NotContains(t, reports[0].Output, "secret-value-1")
	assert.Zero(t, reports[0].Offset)
}

// jobsOf returns a registry with the tools of jobs, and a function that calls one of them for
// a turn, named as session/turn.
func jobsOf(t *testing.T, o Options) func(from, tool, arguments string) turn.ToolResult {
	t.Helper()
	secrets := redact.New()
	secrets.Add("secret-value-1")
	r := tools.New(tools.Options{Secrets: secrets}, nil)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	require.NoError(t, Register(r, o))
	hashes := map[string]string{}
	for _, d := range r.Catalogues(t.Context())[0].Tools {
		hashes[d.ID] = d.Hash
	}
	return func(from, tool, arguments string) turn.ToolResult {
		session, turnID, _ := strings.Cut(from, "/")
		result, err := r.Call(t.Context(), turn.ToolRequest{Tool: "local/" + tool, Hash: hashes["local/"+tool],
			Session: session, Turn: turnID, Arguments: json.RawMessage(arguments)})
		require.NoError(t, err)
		return result
	}
}

func TestJobsRunInTheBackground(t *testing.T) {
	f, o := workspace(t, sandbox.LevelNamespace)
	call := jobsOf(t, o)
	started := call("s1/t1", "job_start", `{"command":"echo begun secret-value-1; `+
		`while [ ! -f build/release ]; do sleep 0.05; done; echo two; exit 3"}`)
	assert.Equal(t, "job-1 started", started.Text)
	read := call("s1/t1", "job_read", `{"id":"job-1","wait":30}`).Text
	assert.Contains(t, read, "[job-1: running; bytes 0 to ")
	assert.Contains(t, read, "begun")
	assert.NotContains(t, read, "secret-value-1")
	assert.Contains(t, call("s1/t1", "job_read", `{}`).Text, "job-1: running")
	assert.Equal(t, turn.OutcomeError, call("s2/t2", "job_read", `{"id":"job-1"}`).Outcome, "a job is its session's own")
	assert.Contains(t, call("s2/t2", "job_read", `{}`).Text, "there are no jobs")
	require.NoError(t, os.WriteFile(filepath.Join(f.Workspace, "build/release"), nil, 0o600))
	require.Eventually(t, func() bool {
		return strings.Contains(call("s1/t1", "job_read", `{"id":"job-1","after":1000,"wait":10}`).Text, "exit code 3")
	}, time.Minute, time.Millisecond)
	assert.Contains(t, call("s1/t1", "job_read", `{"id":"job-1"}`).Text, "two\n")

	call("s1/t1", "job_start", `{"command":"echo second; sleep 600"}`)
	call("s1/t1", "job_read", `{"id":"job-2","wait":30}`)
	stopped := call("s1/t1", "job_stop", `{"id":"job-2"}`).Text
	assert.Contains(t, stopped, "[job-2: stopped")
	assert.Contains(t, stopped, "second\n")
}

// TestAJobEndsWithItsTurnAndItsWorker ends a turn, and closes the registry.
func TestAJobEndsWithItsTurnAndItsWorker(t *testing.T) {
	f, o := workspace(t, sandbox.LevelNamespace)
	var ended atomic.Value
	o.Ended = func(_ context.Context, turnID string) bool { return ended.Load() == turnID }
	const beats = `{"command":"while :; do date +%N > build/beat-$NAME; sleep 0.02; done"}`
	beating := func(name string) bool {
		read := func() string {
			b, _ := os.ReadFile(filepath.Join(f.Workspace, "build/beat-"+name)) // it may not exist yet
			return string(b)
		}
		before := read()
		time.Sleep(500 * time.Millisecond) // many beats
		return read() != before
	}
	t.Run("worker", func(t *testing.T) {
		call := jobsOf(t, o) // closed at the end of this subtest
		call("s1/t1", "job_start", strings.ReplaceAll(beats, "$NAME", "one"))
		call("s2/t2", "job_start", strings.ReplaceAll(beats, "$NAME", "two"))
		require.Eventually(t, func() bool { return beating("one") && beating("two") }, time.Minute, time.Millisecond)
		ended.Store("t1")
		require.Eventually(t, func() bool { return !beating("one") }, time.Minute, time.Millisecond)
		assert.Contains(t, call("s1/t1", "job_read", `{}`).Text, "there are no jobs")
		assert.True(t, beating("two"))
	})
	assert.False(t, beating("two"))
}

// TestAKeptJobServesLaterTurns keeps a job, writes to it in another turn, and reads it after its worker has gone.
func TestAKeptJobServesLaterTurns(t *testing.T) {
	_, o := workspace(t, sandbox.LevelNamespace)
	var ended atomic.Value
	o.Ended = func(_ context.Context, turnID string) bool { return ended.Load() == turnID }
	o.Records = filepath.Join(t.TempDir(), "jobs")
	t.Run("worker", func(t *testing.T) {
		call := jobsOf(t, o) // closed at the end of this subtest
		kept := call("s/t1", "job_start",
			`{"command":"while read -r line; do echo got $line; done; echo the end","keep":true}`)
		assert.Contains(t, kept.Text, "job-1 started")
		call("s/t1", "job_start", `{"command":"cat"}`)
		ended.Store("t1")
		require.Eventually(t, func() bool { return !strings.Contains(call("s/t2", "job_read", `{}`).Text, "job-2") },
			time.Minute, time.Millisecond)
		assert.Contains(t, call("s/t2", "job_read", `{}`).Text, "[job-1: running, kept]")
		assert.Equal(t, turn.OutcomeError, call("other/t3", "job_write", `{"id":"job-1","command":"x\n"}`).Outcome)
		written := call("s/t2", "job_write", `{"id":"job-1","command":"secret-value-1 one\n"}`)
		assert.Contains(t, written.Text, "wrote 19 bytes")
		read := call("s/t2", "job_read", `{"id":"job-1","wait":30}`).Text
		assert.Contains(t, read, "one")
		assert.NotContains(t, read, "secret-value-1")
		call("s/t2", "job_write", `{"id":"job-1","end":true}`)
		require.Eventually(t, func() bool {
			return strings.Contains(call("s/t2", "job_read", `{"id":"job-1","after":1000,"wait":30}`).Text, "exit code 0")
		}, time.Minute, time.Millisecond)
		assert.Equal(t, turn.OutcomeError, call("s/t2", "job_write", `{"id":"job-1","command":"x"}`).Outcome, "it has ended")

		call("s/t2", "job_start", `{"command":"echo ready; sleep 600","keep":true}`)
		require.Eventually(t, func() bool { // the record is written by and by
			file, err := os.ReadFile(recordFile(o.Records, owner{session: "s"}, "job-2"))
			return err == nil && strings.Contains(string(file), "ready")
		}, time.Minute, time.Millisecond)
		assert.Equal(t, turn.OutcomeError, call("s/t2", "job_write",
			`{"id":"job-2","command":"`+strings.Repeat("x", maxJobInput+1)+`"}`).Outcome)
	})
	call := jobsOf(t, o)
	assert.Contains(t, call("s/t3", "job_read", `{}`).Text, "[job-1: exit code 0]: while read")
	read := call("s/t3", "job_read", `{"id":"job-2"}`).Text
	assert.Contains(t, read, "ready\n")
	assert.Contains(t, read, "its worker")
	assert.Equal(t, turn.OutcomeError, call("other/t3", "job_read", `{"id":"job-2"}`).Outcome)
	assert.Contains(t, call("s/t3", "job_start", `{"command":"true"}`).Text, "job-3 started")
}

// TestTooManyJobs starts more jobs than a session may have: those that have ended make room.
func TestTooManyJobs(t *testing.T) {
	_, o := workspace(t, sandbox.LevelNamespace)
	call := jobsOf(t, o)
	for range maxJobs {
		require.Equal(t, turn.OutcomeOK, call("s/t", "job_start", `{"command":"sleep 600"}`).Outcome)
	}
	assert.Contains(t, call("s/t", "job_start", `{"command":"sleep 600"}`).Text, "the maximum")
	call("s/t", "job_stop", `{"id":"job-3"}`)
	assert.Contains(t, call("s/t", "job_start", `{"command":"sleep 600"}`).Text, "job-17 started")
}
