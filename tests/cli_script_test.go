package tests

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/fakellm"
)

// update rewrites the expected outputs that the scripts compare with cmp.
var update = flag.Bool("update", false, "rewrite the expected outputs of testdata/cli")

// TestCLIScripts runs testdata/cli: what a user types on the built binary, and the exit code of each command. The
// scripts share a worker, a journal and the model returned by scripted; each uses its own sessions.
func TestCLIScripts(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, "")
	h.write("notes/a.txt", "alpha\n")
	h.write("notes/b.txt", "beta\n")
	h.extend(asking(fakellm.Start(t, scripted())) +
		fmt.Sprintf("workspace = %q\n[policy]\nask = [\"local/read_file\"]\n[journal]\npath = %q\n",
			h.dir, h.path("journal.db")) + hosting(t, "ledger", ""))
	h.worker()
	settings, err := os.ReadFile(h.path("agent.toml"))
	require.NoError(t, err)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "cli"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(binary(t, "./starter"))+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, ".state"))
			here := &userFolder{t: t, dir: env.WorkDir, environ: env.Vars}
			here.write("agent.toml", string(settings))
			here.trust()
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// extend appends settings to agent.toml that depend on the folder's path.
func (h *userFolder) extend(more string) {
	h.t.Helper()
	settings, err := os.ReadFile(h.path("agent.toml"))
	require.NoError(h.t, err)
	h.write("agent.toml", string(settings)+more)
}

// exits CODE PROGRAM ARGS... runs a program and checks its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("%v exits with %d, not with %d", args[1:], got, want)
	}
}

// scripted is the model of the scripts. The user's message selects its completions.
func scripted() fakellm.Script {
	read := func(name string) fakellm.ToolCall {
		return fakellm.ToolCall{Name: "local_read_file", Arguments: fmt.Sprintf(`{"path":"notes/%s.txt"}`, name)}
	}
	confirm := func(arguments string) fakellm.Script {
		return fakellm.Steps(fakellm.Call("mcp_ledger_confirm", arguments), fakellm.Text("It is confirmed."))
	}
	return fakellm.Cases(
		fakellm.When("confirm one", confirm(`{"text":"one"}`)),
		fakellm.When("confirm two", confirm(`{"text":"two"}`)),
		fakellm.When("confirm three", confirm(`{"text":"three"}`)),
		fakellm.When("confirm four", confirm(`{"text":"four"}`)),
		fakellm.When("confirm five", confirm(`{"text":"five"}`)),
		fakellm.When("confirm there", confirm(`{"text":"six","url":"http://example.org:8080/login?x=1"}`)),
		fakellm.When("refuse", fakellm.Status(400, "invalid_request", "no such thing")),
		fakellm.When("let me in", fakellm.Status(401, "invalid_api_key", "Incorrect API key provided")),
		fakellm.When("hang", fakellm.Text("never").StallAfter(0)),
		fakellm.When("tell it all", fakellm.Text("It began when").Finish("length")),
		fakellm.When("be bad", refuses("I cannot do that.")),
		fakellm.When("run away", fakellm.Always(fakellm.Call("local_list_files", `{}`))),
		fakellm.When("read one", fakellm.Steps(fakellm.Calls(read("a")), fakellm.Text("It says alpha."))),
		fakellm.When("read two", fakellm.Steps(fakellm.Calls(read("a"), read("b")), fakellm.Text("Both are read."))),
		fakellm.When("sneak", fakellm.Steps(fakellm.Call("local_read_file",
			"{\"path\":\n\"notes/\u202etxt.a\u200b\\u001b[2J\"}"), fakellm.Text("Done."))),
		fakellm.When("ask me", fakellm.Call("ask_user", `{"question":"Which colour, red or blue?"}`)),
		fakellm.When("red", fakellm.Text("Red it is.")),
		fakellm.When("hello", fakellm.Text("Hello back.")),
		fakellm.When("look around", lookAndAnswer(fakellm.Text("Two files."))),
		fakellm.When("", fakellm.Text("Yes.")),
	)
}
