package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// inTree makes a git repository with a commit and returns it, with the change that gives each session a tree of it.
func inTree(t *testing.T) (repo string, change func(*config.Config)) {
	repo = t.TempDir()
	git := gitIn(t, repo)
	git("init", "-q", "-b", "main")
	git("commit", "-q", "--allow-empty", "-m", "begin")
	return repo, func(c *config.Config) {
		c.Runtime.Workspace, c.Workspace.Mode = repo, config.WorkspaceTree
		c.Runtime.MaxSteps, c.Runtime.MaxToolCalls = 40, 40
	}
}

// writes is an independent step that names no agent and may write in one folder.
func writes(description, folder string) plan.Step {
	return plan.Step{Description: description, Tool: "local/write_file", Paths: []string{folder}, Independent: true}
}

// TestIndependentStepsNeedNoAgent confirms a plan of two independent steps that name no agent. Each is done by an agent
// of its own in a tree of its own, and the plan merges them in its order, although the second ends first. What a step
// does not name is asked for in the session of its agent.
func TestIndependentStepsNeedNoAgent(t *testing.T) {
	t.Parallel()
	repo, tree := inTree(t)
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Cases(
		fakellm.When("errand of the user", fakellm.Steps(proposeSteps(writes("task one", "one"), writes("task two", "two"),
			plan.Step{Description: "look at both", Tool: plan.Reflect}), reflects(3, plan.Done), fakellm.Text("All done."))),
		fakellm.When("task one", fakellm.Steps(write("one/a.md", "x\n").Hold(0, gate), fakellm.Text("One."))),
		fakellm.When("task two", fakellm.Steps(write("two/b.md", "x\n"), write("one/b.md", "x\n"), fakellm.Text("Two."))),
	), tree)
	e.work()
	id := e.say(session(t), workflows.Message{Text: "errand of the user", Plan: plan.ConfirmPlan}).ID
	e.allow(session(t), e.waits(id, 1)[0], "")
	second := e.taken(turn.SubagentSession(id, "2.1"), turn.SubagentSession(id, "2.1"))
	request := e.waits(second, 1)[0]
	assert.Contains(t, request.Arguments, "one/b.md")
	assert.Contains(t, request.Why, "may change only two")
	_, err := e.people().Deny(t.Context(), client.DecideInput{Session: request.Session, Request: request.ID,
		ArgumentsHash: request.ArgumentsHash, By: "ann"})
	require.NoError(t, err)
	assert.Equal(t, "Two.", e.ended(second).Answer)
	gate.Release()
	require.Equal(t, "All done.", e.ended(id).Answer)
	calls, err := e.journal.Calls(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, "agent/default", calls[1].Call.Tool)
	assert.JSONEq(t, `{"task":"task one","tools":["local/write_file"],"paths":["one"]}`, calls[1].Call.Arguments)
	stored, branch := gitIn(t, e.store(repo)), "everturn/"+session(t)
	assert.Equal(t, "one/a.md\ntwo/b.md", stored("ls-tree", "-r", "--name-only", branch))
	assert.Equal(t, "take the changes of "+turn.SubagentSession(id, "2.1"), stored("log", "-1", "--format=%s", branch))
	assert.Contains(t, e.drawn(id)[3], "[x] 1. task one (local/write_file, one)\n[x] 2. task two")
	requests, err := e.journal.Requests(t.Context(), id)
	require.NoError(t, err)
	assert.Len(t, requests, 1, "the plan")
	history, err := client.ReadHistory(t.Context(), e.journal, session(t))
	require.NoError(t, err)
	assert.True(t, history.Turns[0].Plan.Ended)
}

// TestAConflictOfIndependentStepsAsks lets both agents of a confirmed plan write the same file. The model is told
// which, its own solution is asked for, and the tree that was not merged keeps its commit.
func TestAConflictOfIndependentStepsAsks(t *testing.T) {
	t.Parallel()
	repo, tree := inTree(t)
	const both = `{"path":"same.md","content":"both\n","overwrite":true}`
	e := newEnv(t, fakellm.Cases(
		fakellm.When("errand of the user", fakellm.Steps(proposeSteps(writes("task one", "."), writes("task two", ".")),
			fakellm.Call("local_write_file", both), reflects(2, plan.Done), fakellm.Text("Both."))),
		fakellm.When("task one", fakellm.Steps(write("same.md", "one\n"), fakellm.Text("One."))),
		fakellm.When("task two", fakellm.Steps(write("same.md", "two\n"), fakellm.Text("Two."))),
	), tree)
	e.work()
	id := e.say(session(t), workflows.Message{Text: "errand of the user", Plan: plan.ConfirmPlan}).ID
	e.allow(session(t), e.waits(id, 1)[0], "")
	request := e.waits(id, 2)[1]
	assert.JSONEq(t, both, request.Arguments)
	assert.Contains(t, e.toldOf(id), "same.md")
	stored := gitIn(t, e.store(repo))
	assert.Equal(t, "two", stored("show", workspace.Branch("", turn.SubagentSession(id, "2.1"))+":same.md"),
		"nothing is lost")
	e.allow(session(t), request, "")
	assert.Equal(t, "Both.", e.ended(id).Answer)
	assert.Equal(t, "both", stored("show", "everturn/"+session(t)+":same.md"))
}

// TestIndependentStepsInAFolderAreTheModels checks that agents do not work side by side in the user's own folder.
func TestIndependentStepsInAFolderAreTheModels(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Steps(proposeSteps(writes("task one", "one"), writes("task two", "two")),
		write("one/a.md", "x\n").And(write("two/b.md", "x\n")), reflects(1, plan.Done).And(reflects(2, plan.Done)),
		fakellm.Text("All done.")), func(c *config.Config) { c.LocalFiles.Write = true })
	e.work()
	id := e.say(session(t), workflows.Message{Text: "errand of the user", Plan: plan.ConfirmPlan}).ID
	e.allow(session(t), e.waits(id, 1)[0], "")
	assert.Equal(t, "All done.", e.ended(id).Answer)
	calls, err := e.journal.Calls(t.Context(), id)
	require.NoError(t, err)
	for _, c := range calls {
		assert.Equal(t, turn.OutcomeOK, c.Outcome, "%s %s", c.Call.Tool, c.Text)
	}
}
