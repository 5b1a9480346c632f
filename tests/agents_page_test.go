package tests

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// agentsPage is docs/agents.md for a reader who follows it in a folder.
type agentsPage struct {
	*userFolder
	before, recipe []string // the lines before and after the heading of the recipe with a killed worker
}

// newAgentsPage returns a folder with the page's agent.toml and its repository. It has a Temporal server of its own,
// because the page names its sessions.
func newAgentsPage(t *testing.T) agentsPage {
	t.Helper()
	h := newDevUserFolder(t)
	ports, _, _ := strings.Cut(h.read("agent.toml"), "[llm]")
	h.write("agent.toml", ports)
	text := strings.ReplaceAll(read(t, "../docs/agents.md"), "/tmp/page", h.path("page"))
	for _, block := range regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(text, -1) {
		h.extend(block[1])
	}
	before, recipe, found := strings.Cut(text, "\n## Try it")
	require.True(t, found)
	p := agentsPage{h, strings.Split(before, "\n"), strings.Split(recipe, "\n")}
	for _, line := range p.before {
		if strings.HasPrefix(line, "mkdir ") || strings.HasPrefix(line, "git ") {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s\n%s", line, out)
		}
	}
	return p
}

// arguments returns the arguments of the lines that run ./everturn and then begin like this.
func arguments(lines []string, beginning string) (list [][]string) {
	word := regexp.MustCompile(`"([^"]*)"|'([^']*)'|([^\s"']+)`)
	for _, line := range lines {
		line, found := strings.CutPrefix(line, "./everturn ")
		if !found || !strings.HasPrefix(line, beginning) {
			continue
		}
		line, _, _ = strings.Cut(line, "  #")
		var args []string
		for _, m := range word.FindAllStringSubmatch(line, -1) {
			args = append(args, m[1]+m[2]+m[3])
		}
		list = append(list, args)
	}
	return list
}

// runs runs the recipe's only command that begins like this.
func (p agentsPage) runs(beginning string) *command {
	p.t.Helper()
	return p.everturn(p.only(beginning)...).exits(0)
}

// only returns the arguments of the recipe's only command that begins like this.
func (p agentsPage) only(beginning string) []string {
	p.t.Helper()
	list := arguments(p.recipe, beginning)
	require.Len(p.t, list, 1, beginning)
	return list[0]
}

// show returns what show prints of a session that has one turn.
func (p agentsPage) show(session string) shown {
	p.t.Helper()
	s := decoded[shown](p.everturn("show", session, "-o", "json").exits(0))
	require.Len(p.t, s.Turns, 1, session)
	return s
}

// begun waits until a session's inference of this step has begun.
func (p agentsPage) begun(session string, step int) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		c := p.everturn("show", session, "-o", "json")
		if c.code() != 0 { // the session is not there yet
			return false
		}
		turns := decoded[shown](c).Turns
		return len(turns) > 0 && len(turns[0].Inferences) >= step
	}, within, 200*time.Millisecond)
}

// checkDoneOnce checks that a session's only turn was answered, made these calls, each once, and asked again only the
// interrupted inference. It returns the ID of the turn.
func (p agentsPage) checkDoneOnce(session string, interrupted int, tools ...string) string {
	p.t.Helper()
	s := p.show(session).Turns[0]
	assert.Equal(p.t, turn.FinishAnswered, s.Turn.Reason, session)
	var called []string
	for _, c := range s.Calls {
		called = append(called, c.Call.Tool)
		assert.Equal(p.t, turn.OutcomeOK, c.Outcome, "call %s of %s", c.Call.ID, session)
		assert.Equal(p.t, 1, c.Runs, "runs of call %s of %s", c.Call.ID, session)
	}
	assert.Equal(p.t, tools, called, session)
	for _, inf := range s.Inferences {
		want := 1
		if inf.Key.Step == interrupted {
			want = 2
		}
		assert.Equal(p.t, want, inf.Attempt, "attempts of step %d of %s", inf.Key.Step, session)
	}
	return s.Turn.ID
}

// TestTheRecipeOfTheAgentsPage does what docs/agents.md says: a slow worker is killed while an agent that another one
// has called is at work and a plan is carried out, and another worker takes over.
func TestTheRecipeOfTheAgentsPage(t *testing.T) {
	t.Parallel()
	p := newAgentsPage(t)
	p.environ = append(p.environ, "EDITOR=sed -i s/First/Changed/")
	p.begin(nil, p.only("dev")...).says("press Ctrl-C to exit")
	first := p.worker("-slow")
	p.runs("run --detach")
	c, keys := p.onTerminal(p.only("run --plan")...)
	answers := func(nth int, keysTyped string) {
		require.Eventually(t, func() bool { return strings.Count(c.out.String(), "[y] allow") == nth }, within,
			5*time.Millisecond, "question %d", nth)
		typeIn(t, keys, keysTyped)
	}
	answers(1, "e\n")
	p.begun("page", 2)
	called := turn.SubagentSession(p.show("killed").Turns[0].Turn.ID, "1.0")
	p.begun(called, 1)
	first.signal(syscall.SIGKILL)
	first.wait()
	p.worker()
	answers(2, "y\n")
	answers(3, "y\n")
	c.exits(0)
	result := decoded[workflows.Result](p.everturn(append(p.only("attach"), "-o", "json")...).exits(0))
	assert.Equal(t, turn.FinishAnswered, result.FinishReason)
	assert.Equal(t, 1, result.ToolCalls)

	p.checkDoneOnce("killed", 0, "agent/reviewer")
	p.checkDoneOnce(called, 1, "local/list_files", "local/read_file")
	p.checkDoneOnce("page", 0, plan.Tool, "local/write_file", "local/write_file", "local/write_file")
	changes := decoded[workspace.Summary](p.everturn("canvas", "show", "page", "-o", "json").exits(0))
	assert.Len(t, changes.Commits, 3)
	sessions := decoded[[]journal.SessionRecord](p.everturn("list", "-o", "json").exits(0))
	assert.Len(t, sessions, 3)
	p.runs("canvas merge")
	for name, content := range map[string]string{"one": "Changed\n", "two": "Second\n", "three": "Third\n"} {
		assert.Equal(t, content, p.read("page/"+name+".md"))
	}
}

// TestTheCommandsOfTheAgentsPage runs the commands before the recipe, one after the other.
func TestTheCommandsOfTheAgentsPage(t *testing.T) {
	t.Parallel()
	p := newAgentsPage(t)
	for _, args := range arguments(p.before, "") {
		plans := slices.Contains(args, "--plan") || slices.Contains(args, "careful")
		switch c := p.begin(nil, args...); {
		case args[0] == "trust": // the folder is trusted before each command
		case args[0] == "dev":
			c.says("press Ctrl-C to exit")
		case plans && !slices.Contains(args, "never"):
			c.exits(6) // it asks, and there is no terminal
		default:
			c.exits(0)
		}
	}
	review := decoded[shown](p.everturn("show", "review", "-o", "json").exits(0)).Turns
	require.Len(t, review, 3)
	assert.Equal(t, []string{"reviewer", "reviewer", "default"},
		[]string{review[0].Turn.Agent, review[1].Turn.Agent, review[2].Turn.Agent})
	p.checkDoneOnce("errand", 0, "agent/reviewer")
	its := p.show(turn.SubagentSession(p.show("errand").Turns[0].Turn.ID, "1.0"))
	assert.Equal(t, turn.FinishAnswered, its.Turns[0].Turn.Reason)
	assert.Contains(t, its.Turns[0].Turn.Answer, "Ottoline")
	assert.Empty(t, review[2].Calls)
	var last journal.TurnRecord
	require.Eventually(t, func() bool {
		turns := decoded[shown](p.everturn("show", "aside", "-o", "json").exits(0)).Turns
		last = turns[len(turns)-1].Turn
		return len(turns) == 2 && last.State.Terminal()
	}, within, 200*time.Millisecond)
	assert.Equal(t, turn.FinishAnswered, last.Reason)
	assert.Contains(t, last.Answer, "Ottoline", "it has the reviewer's answer")
	pending := decoded[[]turn.Request](p.everturn("approvals", "-o", "json").exits(0))
	assert.Len(t, pending, 2, "two plans wait")
}
