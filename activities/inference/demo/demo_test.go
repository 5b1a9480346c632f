package demo_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/activities/inference/chat"
	"github.com/everturn/everturn/activities/inference/demo"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const overview = "Which files are here, and what is this project about?"

// agent sends prompts to the demo as a worker would, and runs the calls in a real directory.
type agent struct {
	t      *testing.T
	chat   *inference.Endpoint
	dir    string
	tools  []turn.Descriptor
	called []string // "tool argument"
	most   int      // calls in one completion
	answer string   // the user's answer to a question
}

type silent struct{}

func (silent) Text(string)      {}
func (silent) Reasoning(string) {}

func newAgent(t *testing.T) *agent {
	t.Helper()
	s, err := demo.Start(t.Context(), demo.Options{})
	require.NoError(t, err)
	endpoint, err := inference.New(inference.Options{BaseURL: s.URL(), APIKey: "none",
		Wire: func(turn.Prompt) inference.Wire { return chat.Wire{} }})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, endpoint.Close())
		require.NoError(t, s.Close())
	})
	a := &agent{t: t, chat: endpoint, dir: t.TempDir()}
	for _, name := range []string{"list_files", "read_file", "search_text"} {
		a.tools = append(a.tools, turn.Descriptor{ID: "local/" + name, Wire: "local_" + name, Description: "a file tool",
			Schema: json.RawMessage(`{"type":"object","required":["query"]}`)})
	}
	return a
}

func (a *agent) write(name, content string) {
	full := filepath.Join(a.dir, name)
	require.NoError(a.t, os.MkdirAll(filepath.Dir(full), 0o755))
	require.NoError(a.t, os.WriteFile(full, []byte(content), 0o600))
}

// ask runs a turn to its answer.
func (a *agent) ask(question string) string {
	a.t.Helper()
	transcript := []turn.Message{{Role: turn.RoleUser, Text: question}}
	pinned := make([]turn.Tool, len(a.tools))
	for i, d := range a.tools {
		pinned[i] = d.Pinned()
	}
	for step := 1; step < 8; step++ {
		p := turn.Render(turn.PromptSpec{Model: demo.Model, Mode: turn.ModeNative},
			turn.PromptConfig{System: "You help.", Descriptors: a.tools}, nil, transcript)
		answer, err := a.chat.Infer(a.t.Context(), p, silent{})
		require.NoError(a.t, err)
		action, err := turn.Parse(turn.ModeNative, step, answer, pinned)
		require.NoError(a.t, err)
		if final, ok := action.(turn.Final); ok {
			return final.Text
		}
		if question, ok := action.(turn.AskUser); ok {
			a.called = append(a.called, "ask_user "+question.Question)
			transcript = append(transcript, turn.Message{Role: turn.RoleAssistant, Text: question.Question},
				turn.Message{Role: turn.RoleUser, Text: a.answer})
			continue
		}
		calls := action.(turn.CallTools).Calls
		a.most = max(a.most, len(calls))
		transcript = append(transcript, turn.Message{Role: turn.RoleAssistant, ToolCalls: calls})
		for _, c := range calls {
			transcript = append(transcript, turn.Message{Role: turn.RoleTool, CallID: c.ID, Outcome: turn.OutcomeOK,
				Text: a.run(c)})
		}
	}
	a.t.Fatal("the demo does not come to an end")
	return ""
}

func (a *agent) run(c turn.ToolCall) string {
	if c.Tool == "mcp/git/commit" {
		a.called = append(a.called, c.Tool+" "+c.Arguments)
		return "committed"
	}
	var args struct{ Path, Query string }
	require.NoError(a.t, json.Unmarshal([]byte(c.Arguments), &args))
	a.called = append(a.called, strings.TrimPrefix(c.Tool, "local/")+" "+args.Path+args.Query)
	var b strings.Builder
	switch c.Tool {
	case "local/read_file":
		content, err := os.ReadFile(filepath.Join(a.dir, args.Path))
		if err != nil {
			return "there is no such file"
		}
		return string(content)
	case "local/list_files", "local/search_text":
		require.NoError(a.t, filepath.WalkDir(a.dir, func(p string, d os.DirEntry, err error) error {
			rel, _ := filepath.Rel(a.dir, p)
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(p)
			if c.Tool == "local/list_files" {
				fmt.Fprintf(&b, "%s\t%d\n", rel, len(content))
			}
			for i, line := range strings.Split(string(content), "\n") {
				if c.Tool == "local/search_text" && strings.Contains(line, args.Query) {
					fmt.Fprintf(&b, "%s:%d: %s\n", rel, i+1, line)
				}
			}
			return err
		}))
		return b.String()
	}
	a.t.Fatalf("the demo called %s", c.Tool)
	return ""
}

func TestItAsksItsUser(t *testing.T) {
	a := newAgent(t)
	a.write("main.go", "package main // the whole of it\n")
	a.write("other.go", "package other\n")
	a.answer = "main.go"
	assert.Contains(t, a.ask("Ask me which file to read."), "the whole of it")
	assert.Equal(t, "ask_user Which file shall I look at?", a.called[0])
	assert.NotContains(t, a.called, "read_file other.go")
}

func TestANamedFileIsReadAndQuoted(t *testing.T) {
	a := newAgent(t)
	name, content := "notes-"+rand.Text()+".txt", rand.Text()
	a.write("deep/"+name, "one\n\n\n\n\n\n\n\ntwo "+content+"\n")
	a.write("README.md", "# Other\n")
	answer := a.ask("What does " + name + " say?")
	assert.Contains(t, answer, content)
	assert.Equal(t, []string{"list_files .", "read_file deep/" + name}, a.called)
}

func TestNothingIsInvented(t *testing.T) {
	a := newAgent(t)
	answer := a.ask("Hello!")
	assert.Contains(t, answer, "not a language model")
	assert.Empty(t, a.called)
	answer = a.ask(overview)
	assert.Contains(t, answer, "(no content)")
	a.tools = nil
	answer = a.ask(overview)
	assert.Contains(t, answer, "not a language model")
	assert.NotContains(t, answer, "> ")
}

// TestTheNamedToolIsCalled shows approvals, MCP and taint without a model: the demo calls any tool that is offered.
func TestTheNamedToolIsCalled(t *testing.T) {
	a := newAgent(t)
	a.tools = append(a.tools, turn.Descriptor{ID: "mcp/git/commit", Wire: "mcp_git_commit", Schema: json.RawMessage(
		`{"type":"object","required":["message","all","mode"],"properties":{
			"message":{"type":"string"},"all":{"type":"boolean"},"mode":{"enum":["quick","full"]},"n":{"type":"integer"}}}`)})
	for question, arguments := range map[string]string{
		`Use mcp/git/commit with "a message".`: `{"all":false,"message":"a message","mode":"quick"}`,
		`Call mcp_git_commit.`:                 `{"all":false,"message":"demo","mode":"quick"}`,
		`mcp/git/commit {"n": 3}`:              `{"n":3}`,
	} {
		a.called = nil
		answer := a.ask(question)
		assert.Equal(t, []string{"mcp/git/commit " + arguments}, a.called, question)
		assert.Contains(t, answer, "committed")
	}
}

func TestTheAnswerOfAnAgentInTheBackgroundIsRepeated(t *testing.T) {
	a := newAgent(t)
	const answer = `local_list_files {"path":"."} returned: find a "quoted word"`
	assert.Equal(t, answer, a.ask(journal.SubagentAnswer("reviewer", answer)))
	assert.Empty(t, a.called)
}

func TestACallIsAnsweredWithItsResultAlone(t *testing.T) {
	a := newAgent(t)
	a.write("main.go", "package main\n")
	assert.Equal(t, "package main", strings.TrimSpace(a.ask(`call local/read_file {"path":"main.go"}`)))
	assert.Equal(t, []string{"read_file main.go"}, a.called)
	assert.Contains(t, a.ask(`call local/read_file {"path":}`), "not a JSON object")
}

func TestItListensOnLoopbackOnly(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "nonsense", "192.0.2.1:0"} {
		_, err := demo.Start(t.Context(), demo.Options{Addr: addr})
		require.Error(t, err, addr)
	}
}

// TestASlowAnswerCanBeInterrupted checks that the slow mode leaves time for an interruption: most of the answer comes
// after the first word, and cancelling the server's context ends it.
func TestASlowAnswerCanBeInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, err := demo.Start(ctx, demo.Options{Slow: true})
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	began := time.Now()
	res, err := client.Post(s.URL()+"/chat/completions", "application/json",
		strings.NewReader(`{"model":"x","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	require.NoError(t, err)
	defer res.Body.Close()
	r := bufio.NewReader(res.Body)
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, line, "I ")
	cancel()
	rest, _ := io.ReadAll(r)
	assert.NotContains(t, string(rest), "[DONE]")
	assert.Less(t, time.Since(began), 5*time.Second)
	require.NoError(t, s.Close())
}
