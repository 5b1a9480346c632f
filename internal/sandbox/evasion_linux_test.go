package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// outside is what is around a tree: files, sockets and a port that a command must not reach.
type outside struct {
	dir      string // contains file, secret, program, the socket s, and the tree
	place    Place
	port     string
	abstract string
	received chan string // gets what reaches a socket or the port
}

// surroundings makes a tree with things around it.
func surroundings(t *testing.T) outside {
	t.Helper()
	p := tree(t, map[string]string{"f": "inside", "sub/g": "inside", ".env": "canary", "hidden/key": "canary"})
	o := outside{dir: filepath.Dir(p.Root), place: p, received: make(chan string, 100)}
	o.place.Hidden = []string{filepath.Join(p.Root, ".env"), filepath.Join(p.Root, "hidden")}
	o.place.Write = []string{filepath.Join(p.Root, "sub")}
	for name, mode := range map[string]os.FileMode{"file": 0o600, "secret": 0o600, "program": 0o755} {
		require.NoError(t, os.WriteFile(filepath.Join(o.dir, name), []byte("canary\n"), mode))
	}
	require.NoError(t, os.Symlink("../file", filepath.Join(p.Root, "sub/link")))
	accept := func(network, address string) net.Addr {
		l, err := net.Listen(network, address)
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				o.received <- "a connection to " + l.Addr().String()
				c.Close()
			}
		}()
		return l.Addr()
	}
	packets, err := net.ListenPacket("unixgram", filepath.Join(o.dir, "d"))
	require.NoError(t, err)
	t.Cleanup(func() { packets.Close() })
	go func() {
		buffer := make([]byte, 100)
		for {
			if _, _, err := packets.ReadFrom(buffer); err != nil {
				return
			}
			o.received <- "a datagram"
		}
	}()
	accept("unix", filepath.Join(o.dir, "s"))
	o.abstract = fmt.Sprintf("everturn-evasion-%d-%d", os.Getpid(), time.Now().UnixNano())
	accept("unix", "@"+o.abstract)
	_, o.port, err = net.SplitHostPort(accept("tcp", "127.0.0.1:0").String())
	require.NoError(t, err)
	return o
}

// state describes all files outside of what a command may write: names, modes, owners, times and content.
func (o outside) state(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(o.dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if path == filepath.Join(o.place.Root, "sub") {
			return fs.SkipDir
		}
		info, err := d.Info()
		require.NoError(t, err)
		st := info.Sys().(*syscall.Stat_t)
		fmt.Fprintln(&out, path, info.Mode(), st.Uid, st.Gid, st.Nlink, info.Size())
		if !d.IsDir() {
			fmt.Fprintln(&out, info.ModTime().UnixNano())
		}
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			out.Write(text)
		}
		return nil
	})
	require.NoError(t, err)
	return out.String()
}

// evasions are attempts to read, change or reach what is outside. %[1]s is the directory around the tree, %[2]s the
// port, %[3]s the abstract socket and %[4]d the process of the test.
var evasions = []string{
	// files
	"cat ../secret", "cat %[1]s/secret", "cat sub/link", "cat .env", "cat hidden/key", "cp .env sub/", "cat < hidden/key",
	"head /proc/self/root%[1]s/secret", "cat /proc/1/root%[1]s/secret", "cat /proc/%[4]d/environ",
	"cat /proc/%[4]d/root%[1]s/secret", "cat /proc/1/environ | tr '\\0' '\\n' | grep EVERTURN_", "cat /etc/shadow",
	"ls /root/.ssh", "ls /home/*/.ssh", "ln %[1]s/secret sub/hard && cat sub/hard", "ln .env sub/hard && cat sub/hard",
	"ln -s %[1]s/secret sub/soft && cat sub/soft", "echo gone > f", "echo gone >> f", "rm f", "mv f sub/",
	"mv sub ../taken", "mkdir made", "ln -s x made", "truncate -s 0 f", "cp sub/g /usr/bin/everturn-evasion",
	"echo x > /etc/everturn-evasion", "echo x > /everturn-evasion",
	"install -m 4755 sub/g sub/setuid && test -u sub/setuid", "find sub -name g -exec chmod 4755 {} + && test -u sub/g",

	// modes, owners, times, attributes
	"chmod 777 %[1]s/file", "chmod 777 f", "chmod 777 sub/link", "touch -d 2001-01-01 f", "chown 1:1 f",
	"chgrp 1 %[1]s/file", "setfattr -n user.x -v y %[1]s/file", "chattr +A %[1]s/file", "chmod u+s sub/g && test -u sub/g",
	"chmod 2755 sub/g && test -g sub/g", "mkdir -m 2777 sub/d && test -g sub/d",
	"python3 -c 'import os; os.setxattr(\"%[1]s/file\", \"user.x\", b\"y\")'",
	"python3 -c 'import os; os.utime(\"%[1]s/file\", (1, 1))'",
	"python3 -c 'import os; os.open(\"sub/o\", os.O_CREAT | os.O_WRONLY, 0o4755)' && test -u sub/o",
	"mknod sub/null c 1 3 && cat sub/null",
	// the worker and other processes
	"kill -9 %[4]d", "kill -STOP %[4]d", "kill -9 -%[4]d", "kill $PPID; kill -0 %[4]d", "prlimit --pid %[4]d --cpu=1:1",
	"prlimit --pid $PPID --nofile=1:1 && false", "renice 19 %[4]d", "ionice -c 3 -p %[4]d", "taskset -p 1 %[4]d",
	"chrt -i -p 0 %[4]d", "strace -p %[4]d", "gdb -p %[4]d -batch",
	"python3 -c 'import os; os.setpriority(os.PRIO_USER, 0, 19)' && false", "echo 1000 > /proc/%[4]d/oom_score_adj",
	"echo x > /proc/sys/kernel/core_pattern", "echo b > /proc/sysrq-trigger", "echo 1 > /proc/sys/vm/drop_caches",
	"nsenter -t %[4]d -m true",
	// the network
	"exec 3<>/dev/tcp/127.0.0.1/%[2]s", "bash -c 'exec 3<>/dev/tcp/127.0.0.1/%[2]s'",
	"bash -c 'exec 3<>/dev/tcp/localhost/%[2]s'", "curl -s --max-time 2 http://127.0.0.1:%[2]s/",
	"curl -s --max-time 2 http://[::1]:%[2]s/", "curl -s --max-time 2 http://1.1.1.1/",
	"curl -s --max-time 2 --unix-socket %[1]s/s http://x/", "curl -s --max-time 2 --abstract-unix-socket %[3]s http://x/",
	"python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"%[1]s/s\")'",
	"python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0%[3]s\")'",
	"python3 -c 'import socket; a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); " +
		"a.sendto(b\"x\", \"%[1]s/d\")'",
	"python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'",
	"python3 -c 'import socket; socket.socket(40, 1).connect((2, 1))'", "python3 -c 'import socket; socket.socket(16, 3)'",
	"ip link add x type dummy", "ping -c 1 -W 1 127.0.0.1 > /dev/null && false",
	"ln -s %[1]s/s sub/s && curl -s --unix-socket sub/s http://x/",
	// namespaces and mounts
	"unshare -U true", "unshare -Ur mount -t tmpfs x sub", "mount -t tmpfs x sub", "mount -o remount,rw /", "umount /proc",
	"chroot / true", "bwrap --bind / / cat %[1]s/secret", "mount --bind / sub",
	"python3 -c 'import ctypes, os; libc = ctypes.CDLL(None); " +
		"os._exit(0 if libc.syscall(56, 0x10000000, 0, 0, 0, 0) >= 0 else 1)'",
	"python3 -c 'import ctypes; l = ctypes.CDLL(None); exit(0 if l.syscall(425, 8, 0) >= 0 else 1)'", // io_uring_setup
	"python3 -c 'import ctypes; l = ctypes.CDLL(None); exit(0 if l.syscall(321, 0, 0, 0) >= 0 else 1)'",
	"python3 -c 'import ctypes; l = ctypes.CDLL(None); exit(0 if l.syscall(0x40000000 + 39) >= 0 else 1)'", // x32
	"env EVERTURN_COMMAND_STAGE=supervise /.everturn", "EVERTURN_COMMAND_STAGE=confine /.everturn", "cat <&3", "cat <&4",
	"echo x >&4",
}

// harmless are attempts that may seem to succeed: the tree's parents exist in the command's own temporary directory.
var harmless = []string{"tee %[1]s/file < sub/g", "echo gone > %[1]s/file",
	"echo gone > sub/link",
	"rm -rf %[1]s/file",
	"mkdir ../made",
	"dd if=sub/g of=%[1]s/file",
	"rm -rf %[1]s/*",
	"tar cf - f | tar xf - -C ..",
	"git init -q .. && ls ../.git/config",
	"chmod 777 ..",
	"touch %[1]s/file",
	"mkfifo ../pipe",
	"kill -9 -1 && sleep 5"}

func TestEvasions(t *testing.T) {
	t.Logf("%d attempts", len(evasions)+len(harmless))
	for _, level := range []Level{LevelNamespace, LevelLandlock} {
		t.Run(string(level), func(t *testing.T) {
			s, o := open(t, level, NetworkLoopback), surroundings(t)
			priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
			require.NoError(t, err)
			before := o.state(t)
			for _, e := range slices.Concat(evasions, harmless) {
				line := e
				if strings.Contains(e, "%[") {
					line = strings.NewReplacer("%[1]s", o.dir, "%[2]s", o.port, "%[3]s", o.abstract,
						"%[4]d", fmt.Sprint(os.Getpid())).Replace(e)
				}
				exit, out := run(t, s, o.place, line)
				assert.True(t, exit.Code != 0 || slices.Contains(harmless, e), "%s\n%s", line, out)
				assert.NotContains(t, out, "canary", line)
				if after := o.state(t); !assert.Equal(t, before, after, line) {
					before = after
				}
				run(t, s, o.place, "rm -rf sub/[a-fh-z]*; echo inside > sub/g")
				select {
				case what := <-o.received:
					t.Errorf("%s reached %s", line, what)
				default:
				}
			}
			now, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
			require.NoError(t, err)
			assert.Equal(t, priority, now)
			for _, f := range []string{"/usr/bin/everturn-evasion", "/etc/everturn-evasion", "/everturn-evasion",
				"/tmp/everturn-evasion"} {
				assert.NoFileExists(t, f)
			}
		})
	}
}

// TestNoProcessOutlivesItsCommand starts processes that try to leave their command, and ends the command in four ways.
func TestNoProcessOutlivesItsCommand(t *testing.T) {
	const leave = "sleep 4242 & setsid sleep 4242 & (setsid sleep 4242 &) ; nohup sleep 4242 >/dev/null 2>&1 & " +
		"set -m; sleep 4242 & " +
		"(trap '' TERM HUP INT; sleep 4242) & for i in 1 2 3; do (setsid sh -c 'sleep 4242 & exit' &); done; sleep 0.3; "
	for _, level := range []Level{LevelNamespace, LevelLandlock, LevelNone} {
		t.Run(string(level), func(t *testing.T) {
			s, p := open(t, level, NetworkLoopback), tree(t, nil)
			marked := func(line string) string { return strings.ReplaceAll(line, "4242", fmt.Sprint(50_000+os.Getpid())) }
			left := func() string {
				out, _ := exec.Command("pgrep", "-f", marked("sleep 4242")).Output() // its exit code says that there is none
				return strings.TrimSpace(string(out))
			}
			exit, _ := run(t, s, p, marked(leave+"exit 5"))
			assert.Equal(t, 5, exit.Code)
			assert.Empty(t, left(), "it ended by itself")
			exit, _ = run(t, s, p, marked(leave+"kill -9 $$"))
			assert.Equal(t, 137, exit.Code)
			assert.Empty(t, left(), "it was killed")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var out bytes.Buffer
			_, err := s.Run(ctx, Command{Line: marked("echo begun; " + leave + "sleep 4242"), Place: p, Output: &out})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Contains(t, out.String(), "begun\n", "a timeout keeps the output")
			assert.Empty(t, left(), "it timed out")
		})
	}
}

// TestACommandDiesWithItsWorker kills a process that runs a command.
func TestACommandDiesWithItsWorker(t *testing.T) {
	if level := os.Getenv("EVERTURN_TEST_WORKER"); level != "" {
		s := open(t, Level(level), NetworkLoopback)
		run(t, s, tree(t, nil), os.Getenv("EVERTURN_TEST_LINE"))
		return
	}
	for _, level := range []Level{LevelNamespace, LevelLandlock} {
		t.Run(string(level), func(t *testing.T) {
			open(t, level, NetworkLoopback)
			mark := fmt.Sprint(60_000 + os.Getpid())
			worker := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^TestACommandDiesWithItsWorker$")
			worker.Env = append(os.Environ(), "EVERTURN_TEST_WORKER="+string(level),
				"EVERTURN_TEST_LINE=setsid sleep "+mark+" & (sleep "+mark+" &) ; sleep "+mark)
			require.NoError(t, worker.Start())
			running := func() int {
				out, _ := exec.Command("pgrep", "-f", "^sleep "+mark).Output()
				return len(strings.Fields(string(out)))
			}
			require.Eventually(t, func() bool { return running() == 3 }, 30*time.Second, 10*time.Millisecond)
			require.NoError(t, worker.Process.Kill())
			_ = worker.Wait()
			assert.Eventually(t, func() bool { return running() == 0 }, 5*time.Second, 10*time.Millisecond)
		})
	}
}

// TestLimits runs commands that use too much.
func TestLimits(t *testing.T) {
	for _, level := range []Level{LevelNamespace, LevelLandlock} {
		t.Run(string(level), func(t *testing.T) {
			s, p := open(t, level, NetworkLoopback), tree(t, nil)
			exit, out := run(t, s, p, "i=0; while [ $i -lt 400 ]; do sleep 20 & i=$((i+1)); done; wait")
			assert.True(t, exit.Limit != "" || strings.Contains(out, "fork") || strings.Contains(out, "Cannot"),
				"%+v %s", exit, out)
			exit, out = run(t, s, p, "for i in 1 2 3; do python3 -c 'x = bytearray(900 << 20); import time; "+
				"time.sleep(20)' & done; wait")
			assert.Contains(t, exit.Limit, "memory", out)
			exit, out = run(t, s, p, "python3 -c 'x = bytearray(3 << 30)'")
			assert.NotZero(t, exit.Code, out)
			exit, _ = run(t, s, p, "head -c 80000000 /dev/zero > big")
			assert.NotZero(t, exit.Code)
		})
	}
}
