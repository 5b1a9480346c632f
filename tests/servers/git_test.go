package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/loopback"
	"github.com/everturn/everturn/tests/servers/npm"
	"github.com/everturn/everturn/workflows/turn"
)

const gitPackage = "@cyanheads/git-mcp-server"

// gitSettings are the variables of the Git server, with a separate home folder.
func gitSettings(t *testing.T) map[string]string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		npm.Missing(t, err)
	}
	home := t.TempDir()
	settings := "[user]\n\tname = Ottoline\n\temail = ottoline@example.org\n[init]\n\tdefaultBranch = main\n"
	require.NoError(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(settings), 0o600))
	return map[string]string{"HOME": home, "GIT_SIGN_COMMITS": "false", "MCP_LOG_LEVEL": "error",
		"LOGS_DIR": filepath.Join(home, "logs")}
}

func gitOverStdio(t *testing.T) config.MCPServer {
	t.Helper()
	server := stdioServer(t, "git", gitPackage)
	server.Env = map[string]config.Secret{}
	for name, value := range gitSettings(t) {
		server.Env[name] = config.Secret(value)
	}
	return server
}

func TestGitOverStdio(t *testing.T) {
	t.Parallel()
	tellOfGit(t, newRig(t, gitOverStdio(t)))
}

// The server has a working folder, which one call sets and others use: one turn's folder is not another turn's.
func TestGitKeepsItsFolderForATurn(t *testing.T) {
	t.Parallel()
	server := gitOverStdio(t)
	server.SessionAffinity = config.AffinityTurn
	r := newRig(t, server)
	dir := t.TempDir()
	results := r.turn(
		ask("git_init", `{"path":%q,"initialBranch":"trunk"}`, dir),
		ask("git_set_working_dir", `{"path":%q}`, dir),
		ask("git_status", ""),
	)
	assert.Contains(t, results[2], "trunk")
	r.turn(call{tool: "git_status", ends: turn.OutcomeError})
}

func TestGitOverHTTP(t *testing.T) {
	t.Parallel()
	tree := npm.Need(t)
	port, err := loopback.Port()
	require.NoError(t, err)
	environ := []string{"MCP_TRANSPORT_TYPE=http", fmt.Sprintf("MCP_HTTP_PORT=%d", port), "MCP_HTTP_HOST=127.0.0.1"}
	for name, value := range gitSettings(t) {
		environ = append(environ, name+"="+value)
	}
	listening(t, port, t.TempDir(), environ, tree.Node, tree.Bin(t, gitPackage))
	tellOfGit(t, newRig(t, httpServer("git", port)))
}

// repository is the repository that the tests work on.
type repository struct {
	t         *testing.T
	work, hub string
}

func (g repository) write(name, content string) {
	g.t.Helper()
	require.NoError(g.t, os.WriteFile(filepath.Join(g.work, name), []byte(content), 0o600))
}

// git runs Git itself.
func (g repository) git(dir string, args ...string) string {
	g.t.Helper()
	out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
	require.NoError(g.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// ask returns a call in the repository.
func (g repository) ask(tool, more string) call {
	if more != "" {
		more = "," + more
	}
	return ask("git_"+tool, fmt.Sprintf(`{"path":%q%s}`, g.work, more))
}

// tellOfGit calls every tool of the server during the life of a small repository, and checks Git's state after each
// turn.
func tellOfGit(t *testing.T, r *rig) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	g := repository{t: t, work: filepath.Join(dir, "work"), hub: filepath.Join(dir, "hub.git")}
	r.turn(
		ask("git_init", `{"path":%q,"bare":true,"initialBranch":"main"}`, g.hub),
		ask("git_clone", `{"url":%q,"path":%q}`, g.hub, g.work),
		ask("git_set_working_dir", `{"path":%q}`, g.work),
	)
	assert.Equal(t, "true", g.git(g.hub, "rev-parse", "--is-bare-repository"))
	g.begins(r)
	g.branches(r)
	g.mends(r)
	r.offersOnlyWhatWasCalled()
}

// begins makes the first commit and publishes it.
func (g repository) begins(r *rig) {
	g.write("a.txt", "one\n")
	results := r.turn(
		g.ask("status", ""),
		g.ask("add", `"paths":["a.txt"]`),
		g.ask("diff", `"staged":true`),
		g.ask("commit", `"message":"begin"`),
		g.ask("push", `"remote":"origin","branch":"main","setUpstream":true`),
		g.ask("log", ""),
		g.ask("show", `"object":"HEAD"`),
		g.ask("blame", `"filePath":"a.txt"`),
		g.ask("reflog", ""),
		g.ask("remote", ""),
		g.ask("tag", `"mode":"create","tagName":"v1","message":"the first"`),
		g.ask("fetch", ""),
		g.ask("pull", ""),
	)
	assert.Contains(g.t, results[0], "a.txt")
	assert.Contains(g.t, results[2], "+one")
	assert.Contains(g.t, results[9], g.hub)
	head := g.git(g.work, "rev-parse", "HEAD")
	assert.Equal(g.t, head, g.git(g.hub, "rev-parse", "main"), "it was pushed")
	assert.Equal(g.t, head, g.git(g.work, "rev-parse", "v1^{commit}"))
	assert.Contains(g.t, results[5], head)
	assert.Contains(g.t, results[7], head)
}

// branches merges, picks and rebases.
func (g repository) branches(r *rig) {
	r.turn(g.ask("checkout", `"target":"feature","createBranch":true`))
	g.write("b.txt", "two\n")
	r.turn(
		g.ask("commit", `"message":"feature","filesToStage":["b.txt"]`),
		g.ask("checkout", `"target":"main"`),
		g.ask("merge", `"branch":"feature","noFastForward":true,"message":"bring it in"`),
		g.ask("branch", `"mode":"create","branchName":"late","startPoint":"v1"`),
		g.ask("checkout", `"target":"late"`),
	)
	assert.Len(g.t, strings.Fields(g.git(g.work, "rev-list", "--parents", "-1", "main")), 3, "a merge has two parents")
	g.write("c.txt", "three\n")
	r.turn(
		g.ask("commit", `"message":"late","filesToStage":["c.txt"]`),
		g.ask("rebase", `"upstream":"main"`),
	)
	assert.Equal(g.t, "late", g.git(g.work, "log", "-1", "--format=%s", "late"))
	assert.Equal(g.t, g.git(g.work, "rev-parse", "main"), g.git(g.work, "rev-parse", "late~1"))
	r.turn(
		g.ask("checkout", `"target":"main"`),
		g.ask("cherry_pick", `"commits":["late"]`),
	)
	assert.Equal(g.t, "late", g.git(g.work, "log", "-1", "--format=%s", "main"))
	assert.FileExists(g.t, filepath.Join(g.work, "c.txt"))
}

// mends stashes, resets and cleans up.
func (g repository) mends(r *rig) {
	g.write("a.txt", "changed\n")
	r.turn(g.ask("stash", `"mode":"push","message":"later"`))
	assert.Equal(g.t, "one\n", read(g.t, g.work, "a.txt"))
	r.turn(g.ask("stash", `"mode":"pop"`))
	assert.Equal(g.t, "changed\n", read(g.t, g.work, "a.txt"))
	g.write("junk.txt", "junk\n")
	aside := filepath.Join(filepath.Dir(g.work), "aside")
	r.turn(
		g.ask("reset", `"mode":"hard","confirmed":true`),
		g.ask("clean", `"force":true`),
		g.ask("worktree", fmt.Sprintf(`"mode":"add","worktreePath":%q,"commitish":"feature"`, aside)),
		g.ask("changelog_analyze", `"reviewTypes":["features"]`),
		ask("git_wrapup_instructions", `{"acknowledgement":"Y"}`),
		ask("git_clear_working_dir", `{"confirm":"Y"}`),
	)
	assert.Equal(g.t, "one\n", read(g.t, g.work, "a.txt"))
	assert.NoFileExists(g.t, filepath.Join(g.work, "junk.txt"))
	assert.FileExists(g.t, filepath.Join(aside, "b.txt"))
	assert.Equal(g.t, "feature", g.git(aside, "branch", "--show-current"))
}
