package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
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

	"github.com/everturn/everturn/workflows/turn"
)

// open returns a sandbox with this level, or skips the test if the machine cannot hold it.
func open(t *testing.T, level Level, network Network) *Sandbox {
	t.Helper()
	s, err := Open(t.Context(), Options{Level: level, Network: network, Environ: os.Environ(),
		Limits: Limits{Processes: 200, Memory: 2 << 30, File: 64 << 20}})
	if err != nil && os.Getenv("EVERTURN_BWRAP_REQUIRED") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	return s
}

// tree makes a directory with these files, as a place that commands may write.
func tree(t *testing.T, files map[string]string) Place {
	t.Helper()
	base := realPath(t.TempDir())
	// Compilers fill the cache once for all tests of the user: empty, it costs a minute.
	p := Place{Root: filepath.Join(base, "tree"),
		Cache: filepath.Join(realPath(os.TempDir()), fmt.Sprintf("everturn-sandbox-cache-%d", os.Geteuid()))}
	require.NoError(t, os.MkdirAll(p.Cache, 0o700))
	p.Write = []string{p.Root}
	require.NoError(t, os.MkdirAll(p.Root, 0o755))
	for name, text := range files {
		path := filepath.Join(p.Root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return p
}

// run runs a command and returns how it ended, with its output.
func run(t *testing.T, s *Sandbox, p Place, line string) (Exit, string) {
	t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	exit, err := s.Run(ctx, Command{Line: line, Place: p, Output: &out})
	require.NoError(t, err, line)
	return exit, out.String()
}

// TestAsAnOrdinaryUser runs the other tests again as another user than root.
func TestAsAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this is an ordinary user")
	}
	dir, err := os.MkdirTemp("", "everturn-user-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	const nobody = 65534
	program, home := filepath.Join(dir, "sandbox.test"), filepath.Join(dir, "home")
	self, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, self, 0o755))
	require.NoError(t, os.Mkdir(home, 0o755))
	for path, mode := range map[string]os.FileMode{dir: 0o755, home: 0o755, program: 0o755} {
		require.NoError(t, os.Chmod(path, mode))
	}
	require.NoError(t, os.Chown(home, nobody, nobody))
	cmd := exec.CommandContext(t.Context(), program, "-test.v", fmt.Sprintf("-test.short=%v", testing.Short()),
		"-test.run", "^Test", "-test.skip", "^(TestAsAnOrdinaryUser|TestTheTableOfCommands)$")
	cmd.Dir = home
	cmd.Env = []string{"PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin", "HOME=" + home, "TMPDIR=/tmp",
		"EVERTURN_BWRAP_REQUIRED=" + os.Getenv("EVERTURN_BWRAP_REQUIRED")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	t.Log(string(out))
	assert.NoError(t, err)
}

// TestAProxyNeedsANamespace asks for a proxy without a network of the command's own.
func TestAProxyNeedsANamespace(t *testing.T) {
	s := open(t, LevelLandlock, NetworkProxy)
	assert.Equal(t, NetworkNone, s.Network())
	assert.Contains(t, s.String(), noProxy)
	s = open(t, LevelNamespace, NetworkProxy)
	assert.Equal(t, NetworkProxy, s.Network())
	assert.True(t, s.Isolated())
	for line, code := range map[string]int{"exit 3": 3, "kill -9 $$": 137, "cat /proc/$PPID/environ || exit 4": 4,
		"echo x > /proc/$PPID/mem || exit 5": 5, "! curl -s http://example.org/": 0} {
		exit, out := run(t, s, tree(t, nil), line)
		assert.Equal(t, code, exit.Code, "%s\n%s", line, out)
	}
}

const goMain = "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(Twice(2)) }\n\n" +
	"func Twice(n int) int { return 2 * n }\n"

const goTest = `package main

import (
	"net"
	"testing"
)

func TestTwice(t *testing.T) {
	if Twice(2) != 4 {
		t.Fatal("wrong")
	}
}

func TestListen(t *testing.T) {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
`

const nodeServer = `const s = require("http").createServer((q, r) => r.end("served\n"));
s.listen(0, "127.0.0.1", () => require("http").get({port: s.address().port, host: "127.0.0.1"}, r => {
  r.pipe(process.stdout); s.close();
}));
`

// project are the files of a small project in four languages.
var project = map[string]string{
	"go.mod": "module example.com/project\n\ngo 1.21\n", "main.go": goMain, "main_test.go": goTest,
	"ugly.go":      "package main\nvar  x=1\n",
	"package.json": `{"name": "project", "version": "1.0.0", "scripts": {"test": "node test.js"}}`,
	"test.js":      "require('assert').equal(require('child_process').execSync('echo child').toString(), 'child\\n')\n",
	"server.js":    nodeServer,
	"test_it.py": "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_it(self):\n" +
		"        self.assertEqual(1, 1)\n",
	"Makefile":    "all:\n\tcc -o c/hello c/hello.c\n\t./c/hello\n",
	"c/hello.c":   "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n",
	"Cargo.toml":  "[package]\nname = \"project\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
	"src/main.rs": "fn main() {}\n\n#[test]\nfn it_works() {}\n",
}

// everyday are commands of a programmer's day, in this order. Each works in a namespace, unless refused says how the
// output explains that it does not. landlock says the same for LevelLandlock, and "" means that it works there. The
// table in docs/shell.md comes from here.
var everyday = []struct{ program, line, refused, landlock string }{
	{"git", "git init -q .", "", "Operation not permitted"},
	{"git", "git status", "", "not a git repository"},
	{"git", "git add -A && git commit -qm 'first change' && git log --oneline", "", "not a git repository"},
	{"git", "git checkout -q -b topic && echo x > topic && git add topic && git commit -qm topic && " +
		"git checkout -q main && git merge topic", "", "not a git repository"},
	{"git", "git stash list && git diff HEAD~1 --stat && git worktree list", "", "not a git repository"},
	{"git", "git clone https://github.com/example/example x", "Could not resolve host", "Operation not permitted"},
	{"go", "go version && go env GOCACHE", "", ""},
	{"go", "go build ./...", "", ""},
	{"go", "go test ./...", "", "permission denied"},
	{"go", "go test -run Twice ./... && go vet ./...", "", ""},
	{"gofmt", "gofmt -l . && gofmt -w ugly.go && grep 'var x = 1' ugly.go", "", ""},
	{"go", "go run .", "", ""},
	{"go", "go mod tidy", "", ""},
	{"go", "go get example.com/missing@v1.0.0", "GOPROXY=off", "GOPROXY=off"},
	{"node", "node -e 'console.log(1 + 1)'", "", ""},
	{"node", "node server.js | grep served", "", "EACCES"},
	{"npm", "npm test", "", ""},
	{"npm", "npm install --no-package-lock", "", ""},
	{"npm", "npm install left-pad", "ENOTCACHED", "ENOTCACHED"},
	{"python3", "python3 -c 'print(1)'", "", ""},
	{"python3", "python3 -m unittest", "", ""},
	{"pip", "pip install --break-system-packages not-a-package", "No matching distribution", "PermissionError"},
	{"cc", "make", "", "Permission denied"},
	{"cargo", "cargo test --offline", "", ""},
	{"curl", "python3 -m http.server 8123 -b 127.0.0.1 >/dev/null 2>&1 & for i in 1 2 3 4 5 6 7 8 9; do " +
		"curl -s http://127.0.0.1:8123/go.mod && exit; sleep 0.3; done; echo no server; exit 7", "", "no server"},
	{"curl", "curl -sS --max-time 5 https://example.com/", "Could not resolve host", "Could not resolve host"},
	{"sed", "sed -i s/hello/world/ c/hello.c && grep world c/hello.c", "", ""},
	{"chmod", "echo 'echo ran' > run.sh && chmod +x run.sh && ./run.sh", "", "Operation not permitted"},
	{"find", "find . -name '*.go' | xargs grep -l package | sort", "", ""},
	{"mv", "mkdir -p a/b && mv c/hello.c a/b/ && cp a/b/hello.c . && rm -rf a && ln -s hello.c link && cat link", "", ""},
	{"tar", "tar czf x.tgz main.go && mkdir -p out && tar xzf x.tgz -C out && rm x.tgz", "", "Operation not permitted"},
	{"ps", "sleep 60 & kill $! && wait; ps -e | grep -c .", "", "/proc"},
}

func TestEverydayCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles programs")
	}
	for _, level := range []Level{LevelNamespace, LevelLandlock} {
		t.Run(string(level), func(t *testing.T) {
			s, p := open(t, level, NetworkLoopback), tree(t, project)
			for _, c := range everyday {
				if found(os.Environ(), c.program) == "" {
					t.Logf("skipped, because there is no %s: %s", c.program, c.line)
					continue
				}
				exit, out := run(t, s, p, c.line)
				refused := c.refused
				if level == LevelLandlock {
					refused = c.landlock
				}
				if refused == "" {
					assert.Zero(t, exit.Code, "%s\n%s", c.line, out)
				} else {
					assert.NotZero(t, exit.Code, "%s\n%s", c.line, out)
					assert.Contains(t, out, refused, c.line)
				}
			}
		})
	}
}

// update rewrites the table in docs/shell.md.
var update = flag.Bool("update", false, "rewrite the table of commands in docs/shell.md")

// TestTheTableOfCommands checks the table in docs/shell.md, and that it says which commands need an approval.
func TestTheTableOfCommands(t *testing.T) {
	const file, begin, end = "../../docs/shell.md", "<!-- commands: begin -->\n", "<!-- commands: end -->"
	standard := turn.Policy{Allow: []string{"local/*"}, AskRisk: turn.RiskHigh, IsolatedCommands: turn.Ask}
	coding := standard
	coding.IsolatedCommands = turn.Allow
	offered := func(isolated bool) turn.Tool {
		return turn.Tool{ID: "local/shell", Risk: turn.RiskHigh, Commands: &turn.CommandRule{Isolated: isolated}}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| command | `namespace` | `landlock` | asks, and \"always\" then allows |\n|---|---|---|---|\n")
	for _, c := range everyday {
		arguments, err := json.Marshal(map[string]string{"command": c.line})
		require.NoError(t, err)
		asked := standard.Permit(offered(true), arguments)
		assert.Equal(t, turn.Ask, asked.Permission, c.line)
		assert.Equal(t, turn.Allow, coding.Permit(offered(true), arguments).Permission, c.line)
		assert.Equal(t, turn.Ask, coding.Permit(offered(false), arguments).Permission, c.line)
		always := "nothing"
		if len(asked.Commands) > 0 {
			always = "`" + strings.Join(asked.Commands, "`, `") + "`"
			ruled := standard
			for _, prefix := range asked.Commands {
				ruled.Commands.Allow = append(ruled.Commands.Allow, prefix+" *")
			}
			assert.Equal(t, turn.Allow, ruled.Permit(offered(false), arguments).Permission, c.line)
		}
		line := strings.ReplaceAll(c.line, "|", "\\|")
		if len(line) > 70 {
			line = line[:67] + "…"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", line, outcome(c.refused), outcome(c.landlock), always)
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, _ := strings.Cut(string(text), begin)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "the table has no place in docs/shell.md")
	want := before + begin + table.String() + end + after
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(text), "run go test ./internal/sandbox -run TestTheTableOfCommands -update")
}

// outcome says what becomes of a command, by how it explains a refusal.
func outcome(refused string) string {
	if refused == "" {
		return "works"
	}
	return "refused: " + refused
}

// TestAWorkerWithoutIsolationSaysWhatToDo takes bubblewrap away, and gives one that cannot isolate.
func TestAWorkerWithoutIsolationSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	open := func() error {
		_, err := Open(t.Context(), Options{Level: LevelNamespace, Network: NetworkLoopback, Environ: []string{"PATH=" + dir},
			Limits: Limits{Processes: 200, Memory: 2 << 30, File: 64 << 20}})
		return err
	}
	err := open()
	require.ErrorIs(t, err, ErrUnavailable)
	assert.ErrorContains(t, err, "apt install bubblewrap")
	fake := func(script string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "bwrap"), []byte("#!/bin/sh\n"+script), 0o755))
	}
	fake("echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1")
	err = open()
	require.ErrorIs(t, err, ErrUnavailable)
	assert.ErrorContains(t, err, "bwrap-userns-restrict")
	// A bubblewrap that isolates nothing: the last argument is this program at a path of the namespace.
	fake("exec /proc/self/exe; exit 1")
	require.ErrorIs(t, open(), ErrUnavailable)
}
