package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/bench/cookbook"
	"github.com/everturn/everturn/tests/bench/floor"
	"github.com/everturn/everturn/tests/bench/proc"
	"github.com/everturn/everturn/workflows"
)

// subject is an arm at work: its worker runs.
type subject struct {
	arm
	rig     *rig
	name    string // of its task queue and files
	worker  *proc.Process
	seeded  []openai.ChatCompletionMessage // what the cookbook carries along
	session func(i int) string
}

// subject starts an arm's worker. Nothing is waited for: the first turn does.
func (r *rig) subject(sc scenario, a arm, p *provider) (*subject, error) {
	s := &subject{arm: a, rig: r, name: strings.NewReplacer(" ", "-", ",", "").Replace(sc.name + "-" + a.String())}
	s.session = func(i int) string { return fmt.Sprintf("%s-%d", s.name, i) }
	argv, err := s.command(p)
	if err != nil {
		return nil, err
	}
	s.worker, err = proc.Start(proc.Command{Name: s.name, Argv: argv, Dir: r.dir, Env: os.Environ()})
	return s, err
}

func (s *subject) command(p *provider) ([]string, error) {
	r := s.rig
	if s.kind == everturn {
		file := r.agent(s.name, s.arm, p.url)
		if r.profile != "" {
			return []string{r.self, "engine", file, filepath.Join(r.profile, s.name)}, nil
		}
		return []string{r.folder("worker"), "--config", file}, nil
	}
	d := config.Default().Worker
	text, err := json.Marshal(baseline{
		Address: r.stack.Address, TaskQueue: s.name, BaseURL: p.url, Server: []string{r.folder("mcpserver")},
		Workspace: r.folder("workspace"), Tools: r.tools,
		Turns: d.MaxConcurrentTurns, Activities: d.MaxConcurrentActivities, StickyCache: d.StickyCache,
	})
	if err != nil {
		return nil, err
	}
	path := r.folder(s.name + ".json")
	return []string{r.self, string(s.kind), path}, os.WriteFile(path, text, 0o600)
}

// start begins turn i.
func (s *subject) start(ctx context.Context, i int, sp spec) (client.WorkflowRun, error) {
	o := client.StartWorkflowOptions{ID: s.session(i), TaskQueue: s.name, WorkflowExecutionTimeout: 5 * time.Minute}
	sp.Tool = s.lane.wire()
	c := s.rig.client
	switch s.kind {
	case everturn:
		steps, calls, timeout := sp.Hops+10, sp.Hops*sp.Calls+10, "5m"
		return c.ExecuteWorkflow(ctx, o, workflows.TurnWorkflow, workflows.Input{
			Message: &workflows.Message{Text: sp.message()},
			Limits:  &workflows.LimitsRequest{MaxSteps: &steps, MaxToolCalls: &calls, TurnTimeout: &timeout},
		})
	case cookbk:
		messages := []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleSystem, Content: config.Default().Runtime.SystemPrompt}}
		messages = append(messages, s.seeded...)
		messages = append(messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: sp.message()})
		return c.ExecuteWorkflow(ctx, o, cookbook.Turn, cookbook.Input{Model: s.String(), Messages: messages, MaxSteps: sp.Hops + 10})
	}
	return c.ExecuteWorkflow(ctx, o, floor.Turn, floor.Input{Hops: sp.Hops, Calls: sp.Calls, Local: s.lane != laneMCP})
}
