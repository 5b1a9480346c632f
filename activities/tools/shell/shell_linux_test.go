package shell

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/tools/files"
)

// workspace makes a workspace beside a secret. Without a kernel that can confine commands, it checks that the tool is
// refused, and skips the test.
func workspace(t *testing.T) Options {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "workspace")
	for name, text := range map[string]string{"main.go": "package main\n", ".git/config": "canary", ".env": "canary",
		".everturn/journal.db": "canary", "sub/f": "x", "build/old": "x", "../secret": "canary"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	require.NoError(t, os.Symlink("../secret", filepath.Join(dir, "link")))
	o := Options{Workspace: dir, Write: []string{"build"}, Timeout: time.Minute,
		Hidden: files.Options{Deny: []string{".env*"}}.Hidden}
	if err := supported(); err != nil {
		require.ErrorContains(t, Register(nil, o), "not offered")
		t.Skip(err)
	}
	return o
}

func TestACommandRunsInTheWorkspace(t *testing.T) {
	o := workspace(t)
	t.Setenv("EVERTURN_TEST_SECRET", "canary")
	run := func(command string) string {
		out, err := o.run(t.Context(), input{Command: command})
		require.NoError(t, err)
		return out
	}
	assert.Equal(t, "[exit code 0]\npackage main\n", run("cat main.go"))
	assert.Equal(t, "[exit code 3]\nout\nerr\n", run("echo out; echo err >&2; exit 3"))
	assert.Equal(t, "[exit code 0]\n", run("echo new > build/new && echo x > $TMPDIR/y && cat $TMPDIR/y > /dev/null"))
	assert.FileExists(t, filepath.Join(o.Workspace, "build/new"))
	assert.NotContains(t, run("env"), "canary")
	assert.NotContains(t, run("env"), confinementVariable)
	assert.Contains(t, run("kill -9 $$"), "signal 9")
	long := run("yes | head -c 20000000")
	assert.Less(t, len(long), maxOutput+100)
	assert.Contains(t, long, "[cut:")
}

// TestACommandCannotLeave tries to read, write and connect to what is out of reach, and to outlive its timeout.
func TestACommandCannotLeave(t *testing.T) {
	o := workspace(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	outside := filepath.Dir(o.Workspace)
	for _, command := range []string{
		"cat ../secret", "cat " + outside + "/secret", "cat link", "cat .git/config", "cat .env", "cat .everturn/journal.db",
		"cat /proc/self/environ", "cat /proc/$PPID/environ", "cat /etc/shadow", "ls " + outside, "cat /root/.bashrc",
		"echo gone > main.go", "echo gone > new", "echo gone > sub/f", "rm main.go", "rm -r sub", "mv main.go build/",
		"echo gone > .git/config", "echo gone > .git/hooks", "mkdir .git/hooks", "ln ../secret build/hard", "echo gone > ../secret",
		"echo gone > " + outside + "/new", "ln -s ../../secret build/soft && cat build/soft", "echo gone > /tmp/everturn-evasion",
		"echo gone > /usr/bin/everturn-evasion", "chroot / cat /root/.bashrc", "mount -t tmpfs x build",
		fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%s", port),
		fmt.Sprintf("bash -c 'exec 3<>/dev/udp/127.0.0.1/%s'", port),
		`perl -e 'use Socket; socket(S, AF_INET, SOCK_DGRAM, 0) || die; print "sent"'`,
		`perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0) || die; print "made"'`,
		fmt.Sprintf("bash -c 'exec 3<>/dev/tcp/127.0.0.1/%s'", port),
	} {
		out, err := o.run(t.Context(), input{Command: command})
		require.NoError(t, err, command)
		assert.NotContains(t, out, "[exit code 0]", command)
		assert.NotContains(t, out, "canary", command)
	}
	for _, name := range []string{"main.go", "sub/f", ".git/config", "../secret"} {
		b, err := os.ReadFile(filepath.Join(o.Workspace, name))
		require.NoError(t, err)
		assert.NotContains(t, string(b), "gone")
	}
	for _, name := range []string{"new", ".git/hooks", "../new", "/tmp/everturn-evasion"} {
		p := name
		if !filepath.IsAbs(p) {
			p = filepath.Join(o.Workspace, name)
		}
		assert.NoFileExists(t, p)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = o.run(ctx, input{Command: "sleep 4242 & set -m; sleep 4242 & setsid -f sleep 4242; " +
		"setsid sleep 4242 & sleep 4242"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	left, _ := exec.Command("pgrep", "-f", "sleep 4242").Output() // its exit code says that there is none
	assert.Empty(t, strings.TrimSpace(string(left)))
	for _, wrong := range []string{".", "..", "/tmp", ".git", "sub/.git", "none", "main.go", "a/../.."} {
		bad := o
		bad.Write = []string{wrong}
		assert.Error(t, bad.check(), wrong)
	}
	for deny, wrong := range map[string]string{"sub/keys/": "sub/keys", "sub/": "sub/keys", "SUB/k*": "sub/keys/x"} {
		require.NoError(t, os.MkdirAll(filepath.Join(o.Workspace, "sub/keys/x"), 0o755))
		bad := o
		bad.Write = []string{wrong}
		require.NoError(t, bad.check())
		bad.Hidden = files.Options{Deny: []string{deny}}.Hidden
		assert.ErrorContains(t, bad.check(), "out of the tools' reach", deny)
	}
}

// TestACommandDoesNotReachWhatTheConfigurationNames tries to read the journal in a directory of the workspace, and to
// have the program of a server in a directory that commands may write.
func TestACommandDoesNotReachWhatTheConfigurationNames(t *testing.T) {
	o := workspace(t)
	data := filepath.Join(o.Workspace, "data")
	require.NoError(t, os.Mkdir(data, 0o755))
	for name, text := range map[string]string{"j.db": "canary", "rows.csv": "plain\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(data, name), []byte(text), 0o644))
	}
	o.Protected = []files.Protected{{Path: filepath.Join(data, "j.db"), Unread: true},
		{Path: filepath.Join(o.Workspace, "main.go"), Unread: true}, {Path: filepath.Join(o.Workspace, "sub/f")}}
	require.NoError(t, o.check())
	out, err := o.run(t.Context(), input{Command: "cat data/rows.csv sub/f; cat main.go data/j.db"})
	require.NoError(t, err)
	assert.Contains(t, out, "plain\nx")
	assert.NotContains(t, out, "canary")
	assert.NotContains(t, out, "package main")
	for _, named := range []string{"build/server", "build", "."} {
		o.Protected = []files.Protected{{Path: filepath.Join(o.Workspace, named)}}
		assert.Error(t, o.check(), named)
	}
}
