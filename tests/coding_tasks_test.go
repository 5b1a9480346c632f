package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/fakellm"
)

// task is what the scripted model does in a repository. In each round it adds a function with a test of it, at first
// with a mistake.
type task struct {
	check  func(n int) string // the command line that runs the repository's own tests
	source func(n int) file   // in the n-th round
	test   func(n int) file   // a file without a path: there is none
	wrong  string             // in the source, once
	right  string             // which it should be
	readme string
	tool   string // of npm, that the tests need
}

type file struct{ path, text string }

// ledger is a file to which a command appends one line in each round: it shows if a command ran twice.
const ledger = "effects.log"

// step is a call of the model, and how it knows that the call has done what it should.
type step struct {
	tool string
	args toolArgs
	done string // the result of the call has this text
	// look is a command line that succeeds if the call has had its effect, for an outcome that is unknown. Without it, the
	// model makes the call again.
	look string
}

type toolArgs = map[string]any

func overwritten(path, text string) toolArgs {
	return toolArgs{"path": path, "content": text, "overwrite": true}
}

func shellStep(done, line string) step {
	return step{tool: "local_shell", args: toolArgs{"command": line}, done: done}
}

// steps returns what the model does in a round.
func (k task) steps(n int) []step {
	source, test, line := k.source(n), k.test(n), fmt.Sprintf("round %d.", n)
	list := []step{
		{tool: "local_list_files", args: toolArgs{"path": "."}, done: "README.md"},
		{tool: "local_read_file", args: toolArgs{"path": "README.md"}},
		{tool: "local_write_file", args: overwritten("README.md", k.files(n)["README.md"])},
		{tool: "local_write_file", args: overwritten(source.path, strings.Replace(source.text, k.right, k.wrong, 1))},
	}
	if test.path != "" {
		list = append(list, step{tool: "local_write_file", args: overwritten(test.path, test.text)})
	}
	effect := shellStep("[exit code 0]", "echo "+line+" >> "+ledger)
	effect.look = "grep -x '" + line + "' " + ledger
	return append(list,
		shellStep("[exit code 1]", k.check(n)),
		step{tool: "local_edit_file", args: toolArgs{"path": source.path, "old_string": k.wrong, "new_string": k.right}},
		shellStep("[exit code 0]", k.check(n)),
		effect,
		shellStep("[exit code 0]", "git add -A && { git diff --cached --quiet || git commit -qm 'Round "+fmt.Sprint(n)+
			"'; } && git log -1 --format=%s"),
		step{tool: "local_canvas_diff", args: toolArgs{"path": source.path}, done: "[commit "},
	)
}

// files returns the files that there must be after n rounds.
func (k task) files(n int) map[string]string {
	out := map[string]string{"README.md": k.readme}
	for i := 1; i <= n; i++ {
		out["README.md"] += fmt.Sprintf("\nRound %d.\n", i)
		out[ledger] += fmt.Sprintf("round %d.\n", i)
		for _, f := range []file{k.source(i), k.test(i)} {
			if f.path != "" {
				out[f.path] = f.text
			}
		}
	}
	return out
}

// reply is the script of the model: it reads what has happened in the turn, and makes the next call.
func (k task) reply(q fakellm.Request) fakellm.Reply {
	asked := q.Chat.Asked()
	results := resultsAfter(q.Chat, asked)
	if asked == "Merge" {
		return mergeReply(results)
	}
	var n int
	if _, err := fmt.Sscanf(asked, "Round %d", &n); err != nil {
		return fakellm.Status(400, "script_ended", "there is no such task: "+asked)
	}
	looking, tries := false, 0
	for _, s := range k.steps(n) {
		for {
			if len(results) == 0 {
				if looking {
					s = shellStep("", s.look)
				}
				return s.call()
			}
			result := results[0]
			results = results[1:]
			unknown := strings.Contains(strings.ToLower(result), "outcome unknown")
			if looking && !unknown {
				looking = false
				if strings.Contains(result, "[exit code 0]") {
					break
				}
				continue
			}
			if !unknown && strings.Contains(result, s.done) {
				break
			}
			looking = s.look != "" && unknown
			if !unknown {
				return fakellm.Status(400, "script_ended", fmt.Sprintf("%+v had the result %s", s, result))
			}
			if tries++; s.look == "" { // the same call again and again would end the turn
				s.args = toolArgs{"command": fmt.Sprintf("%s # try %d", s.args["command"], tries)}
			}
		}
	}
	return fakellm.Text("Done.")
}

func (s step) call() fakellm.Reply {
	b, _ := json.Marshal(s.args) // strings always marshal
	return fakellm.Call(s.tool, string(b))
}

// resultsAfter returns the results of tools since the user's last message.
func resultsAfter(c fakellm.Chat, asked string) (results []string) {
	for _, m := range c.Messages {
		switch {
		case m.Role == "user" && m.Content == asked:
			results = nil
		case m.Role == "tool":
			results = append(results, m.Content)
		}
	}
	return results
}

var (
	diffHeader = regexp.MustCompile(`(?m)^diff --git a/(\S+) b/`)
	diffCommit = regexp.MustCompile(`\[commit ([0-9a-f]+)\]`)
)

// mergeReply looks at the diff and merges what it shows into a branch that the user has made for it.
func mergeReply(results []string) fakellm.Reply {
	if len(results) == 0 {
		return fakellm.Call("local_canvas_diff", "{}")
	}
	commit := diffCommit.FindStringSubmatch(results[0])
	if len(results) > 1 || commit == nil {
		return fakellm.Text("Merged: " + results[len(results)-1])
	}
	var names []string
	for _, m := range diffHeader.FindAllStringSubmatch(results[0], -1) {
		names = append(names, m[1])
	}
	b, _ := json.Marshal(map[string]any{"into": "reviewed", "commit": commit[1], "files": names, "title": "Add functions"})
	return fakellm.Call("local_canvas_merge", string(b))
}

// taskFor returns the task for a repository: a Go module, a package of npm whose tests have describe and it, or one
// with pages as in tldr-pages/tldr, which checks their titles with a script.
func taskFor(t *testing.T, dir string) task {
	t.Helper()
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(dir, name)) // which of the files there are says the kind
		return string(b)
	}
	k := task{readme: read("README.md"), test: func(int) file { return file{} }}
	sources, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	switch {
	case read("go.mod") != "" && len(sources) > 0:
		k.goTask(regexp.MustCompile(`(?m)^package (\w+)`).FindStringSubmatch(read(filepath.Base(sources[0])))[1])
	case read("scripts/wrong-filename.py") != "":
		k.pagesTask()
	case read("package.json") != "" && read("test.js") != "":
		k.npmTask(read("test.js"), read("package.json"))
	default:
		require.Fail(t, "there is no task for the repository "+dir)
	}
	return k
}

func (k *task) goTask(pkg string) {
	k.check = func(int) string { return "go test ./..." }
	k.wrong, k.right = "x < high", "x > high"
	k.source = func(n int) file {
		return file{fmt.Sprintf("clamp%d.go", n), fmt.Sprintf("package %s\n\nfunc clamp%d(x, low, high int) int {\n\tif x < low {\n"+
			"\t\treturn low\n\t}\n\tif x > high {\n\t\treturn high\n\t}\n\treturn x\n}\n", pkg, n)}
	}
	k.test = func(n int) file {
		return file{fmt.Sprintf("clamp%d_test.go", n), fmt.Sprintf("package %s\n\nimport \"testing\"\n\n"+
			"func TestClamp%[2]d(t *testing.T) {\n\tif got := clamp%[2]d(5, 0, 3); got != 3 {\n\t\tt.Error(got)\n\t}\n}\n", pkg, n)}
	}
}

func (k *task) npmTask(tests, manifest string) {
	k.check = func(int) string { return "npm test" }
	k.wrong, k.right = "x < high", "x > high"
	k.source = func(n int) file {
		return file{fmt.Sprintf("clamp%d.js", n),
			"module.exports = function(x, low, high) {\n  return x < low ? low : x > high ? high : x;\n};\n"}
	}
	k.test = func(n int) file {
		text := tests
		for i := 1; i <= n; i++ {
			text += fmt.Sprintf("\ndescribe('clamp%[1]d', function() {\n  it('limits', function() {\n"+
				"    assert.equal(require('./clamp%[1]d')(5, 0, 3), 3);\n  });\n});\n", i)
		}
		return file{"test.js", text}
	}
	var m struct {
		Scripts         map[string]string
		DevDependencies map[string]string
	}
	_ = json.Unmarshal([]byte(manifest), &m) // npm says what is wrong
	if version := m.DevDependencies[m.Scripts["test"]]; version != "" {
		k.tool = m.Scripts["test"] + "@" + version
	}
}

func (k *task) pagesTask() {
	k.check = func(n int) string {
		return fmt.Sprintf("python3 scripts/wrong-filename.py && ! grep clamp-%d.md inconsistent-filenames.txt", n)
	}
	k.wrong, k.right = "# clump", "# clamp"
	k.source = func(n int) file {
		return file{fmt.Sprintf("pages/common/clamp-%d.md", n),
			fmt.Sprintf("# clamp %[1]d\n\n> Limit a number.\n\n- Limit 5 to 3:\n\n`clamp-%[1]d 5 0 3`\n", n)}
	}
}

// prepare installs what the tests of a repository need, as a user has it, and returns the environment with it.
func (k task) prepare(t *testing.T, environ []string) []string {
	t.Helper()
	if k.tool == "" {
		return environ
	}
	dir := t.TempDir()
	out, err := exec.Command("npm", "install", "--silent", "--global", "--prefix", dir, k.tool).CombinedOutput()
	require.NoError(t, err, "%s", out)
	environ = append(environ, "NODE_PATH="+filepath.Join(dir, "lib/node_modules"))
	environ[0] = "PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")
	return environ
}
