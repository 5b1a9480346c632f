package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/fakellm"
)

// The tests of this file run the real chat in real terminals and look at them.

// named returns a session ID that no other run of the test has used, because all runs share the server.
func named(session string) string { return fmt.Sprintf("%s-%d", session, time.Now().UnixNano()%1e9) }

const styledAnswer = "# Report\n\nIt is **good** \x1b[2Jand &#27;[31mred\x1b]0;title\x07.\n\n- one\n- " +
	"two\n\n```go\nfmt.Println(\"\\*\")\n```\n"

func TestChatAnswers(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, asking(fakellm.Start(t, lookAndAnswer(fakellm.Text(styledAnswer).Usage(20, 5, 0)))))
	h.worker()
	id := named("talk")
	s := h.chat(80, 40, nil, "-s", id)
	s.ready()
	s.says("What is this?")
	s.shows("2 steps · 1 tool call · 30 tokens in, 8 out · cost unknown")
	s.ready()
	s.fits()
	s.shows("new session "+id, "› What is this?", "I look.", "✓ list .", "· ok ·", "Report",
		"[2Jand &#27;[31mred]0;title.", "• one • two", `fmt.Println("\*")`)
	s.press("C-d")
	s.leaves(0)
	s.shows("resume with `everturn chat -s " + id + "`")
	again := h.chat(80, 40, nil, "-c")
	again.shows(`fmt.Println("\*")`)
	again.ready()
	again.says("/quit")
	again.leaves(0)
}

// approving returns a home whose ledger tool needs an approval. The model calls it with arguments that could mislead
// the operator.
func approving(t *testing.T, effects string) (*userFolder, *fakellm.Server) {
	t.Helper()
	arguments := "{\"text\":\"one \\u001b[2J \u202etwo\u009b31m \u200b" + strings.Repeat("and so on ", 60) + "the end\"}"
	model := fakellm.Start(t, fakellm.Steps(fakellm.Call("mcp_ledger_append", arguments).WithText("I write."),
		fakellm.Text("Done with it.")))
	h := newUserFolder(t, asking(model)+"[policy]\nask = [\"mcp/ledger/append\"]\n"+hosting(t, "ledger", "", "-ledger",
		effects))
	h.worker()
	return h, model
}

func TestChatAsksBeforeACall(t *testing.T) {
	t.Parallel()
	effects := t.TempDir() + "/effects"
	h, _ := approving(t, effects)
	s := h.chat(60, 15, nil)
	s.ready()
	s.says("Write it.")
	s.shows("Allow mcp/ledger/append?", "y")
	s.shows(`\u202e`)
	s.awaitKeys()
	s.press("End")
	s.shows(`the end"}`)
	s.press("Home")
	s.shows(`{"text":"one \u001b[2J`)
	s.shows("Allow mcp/ledger/append?")
	require.NoFileExists(t, effects)
	s.allows()
	s.shows("Done with it.")
	s.shows("allowed by")
	s.ready()
	b, err := os.ReadFile(effects)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(b), "effect"), "%s", b)
}

func TestChatStopsATurn(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	model := fakellm.Start(t, fakellm.Cases(fakellm.When("again", fakellm.Text("Gladly.")),
		fakellm.When("", fakellm.Text("It takes its time.").Hold(3, gate))))
	h := newUserFolder(t, asking(model))
	h.worker()
	s := h.chat(60, 15, nil)
	s.ready()
	s.says("Slowly.")
	s.shows("It takes")
	s.press("C-c")
	s.shows("press Ctrl-C again")
	s.press("C-c")
	s.shows("cancelled")
	s.ready()
	s.shows("It takes")
	s.says("And again.")
	s.shows("Gladly.")
	s.ready()
	s.press("C-c")
	s.shows("press Ctrl-C again")
	s.press("C-c")
	s.leaves(0)
}

func TestChatSteersAndQueues(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	model := fakellm.Start(t, fakellm.Cases(
		fakellm.When("later", fakellm.Text("Now to the later one.")),
		fakellm.When("steer", fakellm.Text("Steered.")),
		fakellm.When("", fakellm.Steps(fakellm.Call("local_list_files", `{}`).WithText("I look around.").Hold(3, gate),
			fakellm.Text("Unsteered."))),
	))
	h := newUserFolder(t, asking(model))
	h.worker()
	s := h.chat(80, 24, nil)
	s.ready()
	s.says("Begin.")
	s.shows("I look")
	s.says("/queue the later one")
	s.shows("the later one · queued")
	s.says("please steer left")
	s.shows("please steer left · accepted")
	gate.Release()
	s.shows("Steered.")
	s.shows("Now to the later one.")
	s.ready()
	all := s.visible()
	assert.Less(t, strings.Index(all, "› please steer left"), strings.Index(all, "Steered."))
	assert.Less(t, strings.Index(all, "Steered."), strings.Index(all, "› the later one"))
	assert.NotContains(t, all, "Unsteered.")
}

func TestChatNeedsATerminal(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, "")
	c := h.everturn("chat").exits(3)
	assert.Contains(t, c.err.String(), "use `everturn run")
	both := h.everturn("chat", "-c", "-s", "x").exits(3)
	assert.Contains(t, both.err.String(), "use one of them")
	s := h.chat(80, 24, []string{"TERM=dumb"})
	s.leaves(3)
	s.shows("move its cursor", "use `everturn run")
}

func TestChatRunsWithItsOwnWorker(t *testing.T) {
	t.Parallel()
	h := newDevUserFolder(t)
	s := h.chat(80, 24, nil, "--dev")
	s.ready()
	s.says("Who is the lighthouse keeper?")
	s.shows("The lighthouse keeper is called Ottoline.")
	s.ready()
	s.press("C-d")
	s.leaves(0)
	s.shows("everturn chat --dev -s")
}

// TestChatChangesFiles edits a file in a real terminal: the bell tells of the approval, which shows the change with the
// lines around it, and so does the result.
func TestChatChangesFiles(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t,
		"[llm]\nprovider = \"demo\"\n[local_files]\nwrite = true\n[policy]\nask = [\"local/edit_file\"]\n")
	h.write("story.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
	h.worker()
	s := h.chat(80, 40, nil)
	rung := s.bell()
	s.ready()
	s.says("!ls; exit 3")
	s.shows("! ls; exit 3 · exit status 3", "│ story.txt")
	s.says(`call local/edit_file {"path":"story.txt","old_string":"five","new_string":"5"}`)
	s.shows("Allow local/edit_file?", "@@ -2,6 +2,6 @@", "│ four", "│ -five", "│ +5", "│ six")
	rung()
	s.allows()
	s.shows("· ok ·", "@@ -2,6 +2,6 @@", "│ four", "│ -five")
	s.ready()
	s.press("C-d")
	s.leaves(0)
}

// TestChatShowsAndMergesATree follows a user through a session with a tree: what the turn has changed, its diff, and a
// merge of what was shown. In between, the chat is suspended.
func TestChatShowsAndMergesATree(t *testing.T) {
	t.Parallel()
	h := newCanvasUserFolder(t)
	h.worker()
	s := h.chat(80, 40, []string{"VISUAL=printf ' and more' >>"})
	s.ready()
	s.says(`call local/write_file {"path":"docs/new.md","content":"new\n"}`)
	s.shows("docs/new.md +1 · /diff")
	s.ready()
	s.says("/diff")
	s.shows("diff · commit", "│ +++ b/docs/new.md", "│ +new")
	s.says("!ls; ls $EVERTURN_TREE")
	s.shows("in your folder, not in $EVERTURN_TREE · ok", "│ agent.toml", "│ docs")
	s.press("C-z")
	s.shows("suspended")
	s.press("Enter")
	s.ready()
	s.says("/merge")
	s.shows("merge into main: 1 file, 1 commit", "│ docs/new.md +1", "> merge into main")
	assert.Equal(t, "begin", h.git("log", "-1", "--format=%s"))
	s.press("Enter")
	s.shows("merged into main as commit")
	assert.Equal(t, "new", h.git("show", "HEAD:docs/new.md"))
	assert.Empty(t, h.git("status", "--porcelain"))
	s.says("/merge")
	s.shows("no changes that are not merged")
	s.types("Some text")
	s.press("C-g")
	s.shows("> Some text and more")
	s.press("C-u")
	s.press("C-d")
	s.leaves(0)
}

// TestChatWithoutTemporal sends a message while Temporal is away, and starts another chat then.
func TestChatWithoutTemporal(t *testing.T) {
	t.Parallel()
	temporal := newRestartableTemporal(t, filepath.Join(t.TempDir(), "temporal.db"), 0)
	h := newUserFolder(t, asking(fakellm.Start(t, fakellm.Cases(fakellm.When("anybody", fakellm.Text("I am.")),
		fakellm.When("", fakellm.Text("Hello."))))))
	h.write("agent.toml", strings.Replace(h.read("agent.toml"), stack.Address, temporal.address, 1))
	h.worker()
	s := h.chat(80, 24, nil)
	s.ready()
	s.says("Hello?")
	s.shows("Hello.", "1 step")
	s.ready()
	temporal.kill()
	s.says("Is anybody there?")
	s.shows("no Temporal answers at " + temporal.address)
	without := h.chat(120, 24, nil)
	without.shows("everturn chat --dev` brings its own")
	without.leaves(5)
	temporal.start()
	s.shows("I am.")
	s.ready()
}

// TestChatWithoutAWorker sends a message before a worker runs.
func TestChatWithoutAWorker(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, "[llm]\nprovider = \"demo\"\n")
	s := h.chat(80, 24, nil)
	s.ready()
	s.says("Is anybody there?")
	s.shows("waiting for a worker of task queue cli-")
	h.worker()
	s.shows("built-in demo", "steps ·")
	s.ready()
}

// TestChatWaitsForItsModel: while a provider is away, the status line says so, too.
func TestChatWaitsForItsModel(t *testing.T) {
	t.Parallel()
	model := fakellm.Start(t, fakellm.Always(fakellm.Status(503, "overloaded", "come back later")))
	h := newUserFolder(t, asking(model))
	h.worker()
	s := h.chat(120, 24, nil)
	s.ready()
	s.says("Is anybody there?")
	require.Eventually(t, func() bool {
		rows := strings.Split(strings.TrimRight(s.visible(), "\n"), "\n")
		return strings.Contains(rows[max(0, len(rows)-2)], "come back later")
	}, within, 20*time.Millisecond, "the status does not say why")
	model.SetScript(fakellm.Always(fakellm.Text("Here.")))
	s.shows("Here.", "1 step")
	s.ready()
}

func TestEscStopsATurnOfTheChat(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, asking(fakellm.Start(t, fakellm.Text("It takes its time.").Hold(3, fakellm.NewGate()))))
	h.worker()
	s := h.chat(60, 15, nil)
	s.ready()
	s.says("Slowly.")
	s.shows("It takes")
	s.press("Escape")
	s.shows("cancelled")
	s.ready()
}
