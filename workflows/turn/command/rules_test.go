package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// coding are rules as a programmer has them.
var coding = Rules{
	Allow: []string{"go test *", "go vet *", "git status", "git diff *", "npm test", "npm run build", "make *", "ls *",
		"grep *",
		"gofmt -l *", "cargo test *", "./build.sh"},
	Ask:  []string{"git commit", "rm -rf"},
	Deny: []string{"git push", "curl", "sudo"},
}

func TestPlainLinesAreAllowed(t *testing.T) {
	for _, line := range []string{
		"go test ./...", "go test", "go test -run 'TestA|TestB' -count=1 ./...", "git status", "cd sub && go test ./...",
		"go vet ./... && go test ./... 2>&1", "go test ./... > out.txt", "go test ./... | grep FAIL",
		"npm test; npm run build", "timeout 60 go test ./...", "timeout --foreground 5m go test ./...", "time go test ./...",
		"nice -n 10 make all", "nohup go test ./...", "CGO_ENABLED=0 go test ./...", "go test ./... || true",
		"ls -la \"my dir\"", "ls my\\ dir", "g\\o test", "'go' \"test\" ./...", "go test ./... 2>/dev/null", "ls ./*.go",
		"echo done && git status", "go test \\\n ./...", "git diff HEAD~1 -- main.go", "make test\nmake lint", "./build.sh",
		"grep -rn 'git push' .", "go test ./... # a comment", "git diff --stat", "go test -v -race -coverprofile=c.out ./...",
		"pwd", "true", "cargo test --release",
	} {
		d := coding.Decide(line)
		assert.Equal(t, Allowed, d.Verdict, "%s: %s", line, d.Why)
	}
}

// TestNothingElseIsAllowed tries to start what no rule allows.
func TestNothingElseIsAllowed(t *testing.T) {
	for _, line := range []string{
		// other calls beside an allowed one
		"go test; touch x", "go test && touch x", "go test || touch x", "go test | tee x", "go test & touch x",
		"go test\ntouch x", "touch x; go test", "go test $(touch x)", "go test `touch x`", "go test \"$(touch x)\"",
		"go test <(touch x)", "(go test; touch x)", "{ go test; touch x; }", "if go test; then touch x; fi",
		"while touch x; do go test; done", "go test |& tee x", "go() { touch x; }; go test",
		"function go { touch x; }; go test", "alias go=touch\ngo test", "! go test", "go test &",
		// redirections
		"go test > /etc/passwd", "go test > ../x", "go test > ~/x", "go test > .git/hooks/pre-commit", "go test > $HOME/x",
		"go test >> /x", "make < /etc/shadow", "make <<EOF\nall:\nEOF", "make <<< all", "go test >| ../x", "go test &> x",
		"go test 2> ../x", "go test >&/tmp/x", "go test <> x", "go test > \"$(touch x)\"", "go test > sub/.GIT/x",
		// words that the shell expands
		"go $X", "$GO test", "go test $X", "go test *", "ls *", "ls ?", "ls [a-z]", "ls ~", "ls ~root", "ls {a,b}",
		"go test ${X:-touch}", "go test $((1))", "go test $'a'", "go test $\"a\"", "g$@o test", "go test !x", "IFS=x go test",
		// variables
		"PATH=. go test", "LD_PRELOAD=./x.so go test", "GOFLAGS=-toolexec=./x go test", "GIT_EXTERNAL_DIFF=./x git diff",
		"X=1", "X=1; go test", "NODE_OPTIONS=--require=./x npm test", "CGO_ENABLED=$(touch x) go test",
		"GIT_PAGER=./x git diff", "BASH_ENV=x make", "CC=./x go test",
		// other programs of the name, and other calls of the program
		"./go test", "/tmp/go test", "sub/go test", "go run x", "go generate", "go testx", "gotest", "git status -s",
		"npm run other", "npm test --", "Go test", "git", "go", "./build.sh x", "gofmt -w x.go",
		// options that start others, read another configuration or write elsewhere
		"go test -exec ./x ./...", "go test -exec=./x", "go test --exec=./x", "go test -toolexec ./x",
		"go test --toolexec=./x", "go vet -vettool=./x", "go test -overlay o.json", "go test -modfile=x.mod",
		"go test -o ../x", "go test -C .. ./...", "go test -ldflags=-extld=./x", "git diff --ext-diff",
		"git diff --output=../x", "git diff --out=x", "git -c core.pager=./x status", "git diff -O./x", "make SHELL=./x",
		"make -f ../Makefile", "make -C ..", "make --eval=x", "make CC=./x", "cargo test --config x",
		// builtins of bash that do more
		"printf -v PATH . && go test", "test -v 'a[$(touch x)]'", "[ -v 'a[$(touch x)]' ]", "read PATH && go test",
		"getopts x PATH", "wait -p PATH",
		// wrappers
		"env go test", "env X=1 go test", "xargs go test", "sudo go test", "sh -c 'go test'", "bash -c 'go test'",
		"eval go test", "exec go test", "command -p go test", "timeout -s KILL 5 go test", "timeout 5 touch x",
		"nice --adjustment=5 go test", "nice touch x", "nohup touch x", "time touch x", "find . -exec go test ;",
		"watch go test", "setsid go test", "stdbuf -oL go test", "busybox sh", "command touch x", "builtin cd ..",
		"cd .. && go test", "cd / && ls", "cd && ls", "cd - && ls", "cd $X && ls", "echo x | sh", "ls | xargs touch",
		"ls | bash", ". ./x", "source x", "trap 'touch x' EXIT", "set -- touch x", "export PATH=.", "printf x > /etc/x",
		"unset PATH; go test",
		// what is no command line, or too much of one
		"", " ", "'", "go test '", "go test (", "if", "go test \x00", "go test ;;", strings.Repeat("go test;", 60),
		"go test " + strings.Repeat("x", 20_000), "[[ -f x ]] && go test", "time -p touch x", "coproc touch x",
		"select x in a; do touch x; done", "go test )",
	} {
		d := coding.Decide(line)
		assert.NotEqual(t, Allowed, d.Verdict, line)
	}
}

func TestDenialsSeeThrough(t *testing.T) {
	for _, line := range []string{
		"git push", "git push origin main", "git  push", "git 'push'", "g\"i\"t p\\ush", "/usr/bin/git push",
		"git -C dir push", "git -c a=b push", "git --git-dir=x push", "git --no-pager push", "env git push",
		"env -i A=b git push", "timeout 5 git push", "timeout -k 1 5 git push", "nice -n 5 git push", "nohup git push",
		"command git push", "xargs git push", "xargs -n 1 git push", "sh -c 'git push'", "bash -lc \"git push\"",
		"sh -c 'sh -c \"git push\"'", "eval git push", "eval 'git push'", "exec git push", "find . -exec git push ;",
		"find . -execdir git push {} +", "echo $(git push)", "echo `git push`", "echo \"$(git push)\"",
		"cat <<EOF\n$(git push)\nEOF", "true && git push", "false || git push", "git push &", "(git push)", "{ git push; }",
		"if git push; then :; fi", "for x in 1; do git push; done", "while :; do git push; done", "f() { git push; }; f",
		"case x in x) git push;; esac", "! git push", "git status | git push", "X=$(git push)", "go test > $(git push)",
		"X=1 git push", "GIT_DIR=x git push", "setsid git push", "watch 'git push'", "flock f git push",
		"flock f -c 'git push'", "sudo ls", "sudo -u x ls", "stdbuf -oL git push", "strace git push",
		"busybox sh -c 'git push'", "su -c 'git push'", "trap 'git push' EXIT", "Git PUSH", "curl x", "/bin/curl x",
		"env curl x", "go test; curl x", "npx -c 'git push'", "ssh host 'git push'", "parallel git push ::: a",
		"git pu\\\nsh",
	} {
		d := coding.Decide(line)
		assert.Equal(t, Denied, d.Verdict, "%s: %s", line, d.Why)
	}
}

// TestWhatMayHideARestrictedCallAsks checks lines of which it is unclear whether they make a call that is denied.
func TestWhatMayHideARestrictedCallAsks(t *testing.T) {
	for _, line := range []string{
		"git $X", "$X push", "git pu$X", "`echo git` push", "git ${X}", "echo push | xargs git", "echo 'git push' | sh",
		"sh < script", "eval \"$X\"", "sh -c \"$X\"", "alias g=git; g push", ". ./x", "source x",
		"f() { git \"$@\"; }; f push", "git {push,}", "git p*", "export X=git; $X push", "'", "git push '", "env $X push",
		strings.Repeat("ls;", 80), "bash", "set -- git push; \"$@\"", "rm -rf build", "git commit -m x", "env git commit",
		"sh -c 'git commit'",
	} {
		d := coding.Decide(line)
		assert.Equal(t, Asked, d.Verdict, "%s: %s", line, d.Why)
	}
	for _, line := range []string{"ls -la | sort", "for f in a b; do echo x; done", "git log", "python3 x.py",
		"node -e 'git push'", "go build $X", "git fetch"} {
		assert.Empty(t, coding.Decide(line).Verdict, line)
	}
}

func TestPrefixesOfCalls(t *testing.T) {
	for line, want := range map[string][]string{
		"go test ./...": {"go test"}, "go build ./... && go test ./...": {"go build", "go test"},
		"git log --oneline": {"git log"}, "npm run build -- --watch": {"npm run build"}, "npm ci": {"npm ci"},
		"make all": {"make"}, "./x.sh a b": {"./x.sh"}, "timeout 5 go test": {"go test"},
		"python3 -m pytest -q": {"python3 -m pytest"}, "cd sub && cargo build": {"cargo build"}, "rm -rf build": {"rm"},
		"git stash pop": {"git stash pop"}, "ls | wc -l": {"ls", "wc"},
		// no beginning bounds what these start
		"python3 x.py": nil, "python3 -c 'x'": nil, "sh x.sh": nil, "bash -c ls": nil, "env ls": nil, "xargs ls": nil,
		"sudo ls": nil, "node x.js": nil, "npx x": nil, "go": nil, "git": nil, "git -c a=b log": nil, "go test -exec x": nil,
		"find . -name x": nil, "docker run x": nil, "ls $X": nil, "ls; sh x": nil, "git log > ../x": nil, "eval ls": nil,
		"awk 1": nil, "curl x": nil, "cd ..": nil,
	} {
		assert.Equal(t, want, Prefixes(line), line)
	}
}

func TestCheck(t *testing.T) {
	for _, rule := range []string{"go test *", "git status", "*", "npm run build", "./x.sh *", "grep 'a b' *",
		"python3 -m pytest *"} {
		assert.NoError(t, Check(rule), rule)
	}
	for _, rule := range []string{"", " *", "go test; ls", "go $X", "a | b", "sh *", "env *", "python3 *", "git *", "'",
		"X=1 go"} {
		assert.Error(t, Check(rule), rule)
	}
}

// TestDecisionsOfGeneratedLines checks that any text is decided, that a denial stands whatever is around it, and that
// nothing is allowed which has more calls than rules name.
func TestDecisionsOfGeneratedLines(t *testing.T) {
	part := rapid.SampledFrom([]string{"go test", "git push", "ls", "touch x", " ", ";", "&&", "|", "$(", ")", "'", "\"",
		"`", "\\", "\n", ">", "<", "x", "$X", "#", "{", "}", "(", "*", "env", "sh -c", "xargs", "=", "~", "!"})
	rapid.Check(t, func(t *rapid.T) {
		line := strings.Join(rapid.SliceOfN(part, 0, 12).Draw(t, "line"),
			rapid.SampledFrom([]string{"", " "}).Draw(t, "between"))
		d := Rules{Allow: []string{"go test *", "ls *"}, Deny: []string{"git push"}}.Decide(line)
		if d.Verdict == Allowed {
			l := parse(line)
			for _, c := range l.all {
				name := c.words[0].text
				if !slices.Contains([]string{"go", "ls"}, name) && !c.isHarmless() {
					t.Fatalf("%q starts %s", line, name)
				}
			}
		}
	})
}

func FuzzDecide(f *testing.F) {
	for _, seed := range []string{"go test ./...", "git push", "sh -c 'a b'", "`", "a <<b\nc\nb"} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, line string) { coding.Decide(line) })
}
