package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// TestATurnGetsTheSkillsThatFitItsRequest runs turns in a workspace with two skills and an AGENTS.md, as a user would.
func TestATurnGetsTheSkillsThatFitItsRequest(t *testing.T) {
	t.Parallel()
	model := fakellm.Start(t, fakellm.Cases(
		fakellm.When("style", fakellm.Steps(fakellm.Call("local_activate_skill", `{"name":"go-style"}`),
			fakellm.Text("Tabs."))),
		fakellm.When("", fakellm.Text("Released."))))
	h := newUserFolder(t, asking(model)+"[[skills.sources]]\npath = \"team\"\n")
	h.write("AGENTS.md", "Answer in one word.")
	h.write(".agents/skills/release/SKILL.md", "---\nname: release\ndescription: Publish a new version\n"+
		"allowed-tools: local/list_files\n---\nCount the files first.")
	h.write("team/go-style/SKILL.md", "---\nname: go-style\ndescription: Write Go well\n---\nUse tabs.")
	h.write("team/broken/SKILL.md", "Nothing.")
	h.worker()

	released := decoded[workflows.Result](h.everturn("run", "-s", "released", "-o", "json", "Make a release").exits(0))
	first := model.Requests()[0]
	system := first.Chat.Messages[0].Content
	for _, part := range []string{"Answer in one word.", "Count the files first.", "| release | Publish a new version |"} {
		assert.Contains(t, system, part)
	}
	assert.NotContains(t, system, "Use tabs.")
	assert.Contains(t, system, "\n\nToday's date: ")
	assert.Contains(t, system, "\nWorking directory: "+h.dir+"\n")
	assert.ElementsMatch(t, []string{"local_list_files", "local_read_artifact", "local_activate_skill", "ask_user"},
		first.Chat.ToolNames(),
		"the skill's list narrows the tools")

	events := decodedLines[turn.Event](h.everturn("attach", "released", "-o", "jsonl").exits(0))
	require.Equal(t, released.Turn, events[0].Turn)
	assert.Equal(t, turn.EventSkillsSelected, events[2].Kind)
	assert.Equal(t, "skills: release", selected(t, events[2]).String())
	assert.InDelta(t, 1, selected(t, events[2]).Skills[0].Score, 0.001)

	assert.Contains(t, h.everturn("show", "released").exits(0).out.String(), "skills: release")
	h.everturn("run", "-s", "styled", "What is our style?").exits(0)
	requests := model.Requests()
	last := requests[len(requests)-1].Chat
	assert.NotContains(t, last.Messages[0].Content, "Count the files first.")
	assert.Contains(t, last.Messages[len(last.Messages)-1].Content, "Use tabs.", "the model has read the skill")

	explained := decoded[[]struct {
		Name   string
		Points float64
		Part   string
	}](h.everturn("skills", "explain", "-o", "json", "Make a release").exits(0))
	require.Len(t, explained, 2)
	assert.Equal(t, "release", explained[0].Name)
	assert.Equal(t, "whole", explained[0].Part)
	h.everturn("skills", "check", "team").exits(1)
	h.everturn("skills", "check", ".agents").exits(0)
	h.everturn("skills", "show", "go-style").exits(0)
	h.everturn("skills", "show", "nothing").exits(3)
	untrusted := h.everturn("skills", "list", "--set", "runtime.trust_workspace=false", "-o", "json").exits(0)
	assert.NotContains(t, untrusted.out.String(), `"release"`)
}

// TestChangedSkillsAreReadAgain changes a skill and AGENTS.md and adds a skill while a turn runs.
func TestChangedSkillsAreReadAgain(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	defer gate.Release()
	e := newEnv(t, fakellm.Cases(
		fakellm.When("early", fakellm.Steps(fakellm.Call("local_activate_skill", `{"name":"release"}`).Hold(0, gate),
			fakellm.Text("Done."))),
		fakellm.When("", fakellm.Text("Done."))),
		func(c *config.Config) { c.Runtime.TrustWorkspace = ptr(true) })
	write := func(name, content string) {
		name = filepath.Join(e.cfg.Runtime.Workspace, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	}
	write("AGENTS.md", "Answer in one word.")
	write(".agents/skills/release/SKILL.md", "---\nname: release\ndescription: Publish a version\n---\nCount once.")
	e.work()
	early := e.begin(session(t)+"-early", "Begin early.", nil)
	<-gate.Reached()

	write("AGENTS.md", "Answer in two words.")
	write(".agents/skills/release/SKILL.md", "---\nname: release\ndescription: Publish a version\n---\nCount twice.")
	write(".agents/skills/deploy/SKILL.md", "---\nname: deploy\ndescription: Deploy a version\n---\nKnock first.")
	require.Eventually(t, func() bool { // until the worker has published the changed list of skills
		catalogues, err := e.journal.Catalogues(t.Context())
		require.NoError(t, err)
		return slices.ContainsFunc(catalogues[0].Tools, func(d turn.Descriptor) bool {
			return d.ID == turn.ActivateSkill && strings.Contains(string(d.Schema), `"deploy"`)
		})
	}, within, 10*time.Millisecond)

	e.ask(session(t)+"-late", "Make a release and deploy it.")
	requests := e.model.Requests()
	system := requests[len(requests)-1].Chat.Messages[0].Content
	for _, part := range []string{"Answer in two words.", "Count twice.", "Knock first."} {
		assert.Contains(t, system, part)
	}
	gate.Release()
	require.Equal(t, turn.FinishAnswered, e.result(early).FinishReason)
	first, last := requests[0].Chat, e.model.Requests()[2].Chat
	assert.Equal(t, first.Messages[0], last.Messages[0], "the system prompt")
	assert.Contains(t, first.Messages[0].Content, "Answer in one word.")
	assert.Equal(t, first.Tools, last.Tools)
	assert.Contains(t, last.Last("tool").Content, "Count twice.", "the tool reads a skill as it is now")
}

func selected(t *testing.T, e turn.Event) (out turn.SkillsEvent) {
	t.Helper()
	require.NoError(t, json.Unmarshal(e.Data, &out))
	return out
}
