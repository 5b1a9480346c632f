package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/bench/cookbook"
	"github.com/everturn/everturn/tests/bench/floor"
	"github.com/everturn/everturn/tests/bench/proc"
	"github.com/everturn/everturn/workflows"
)

// subject is an arm with its running worker.
type subject struct {
	arm
	harness *harness
	name    string // of its task queue and files
	shared  bool   // all turns belong to one session
	workers []*proc.Process
	carried []openai.ChatCompletionMessage // the transcript, which the cookbook passes from turn to turn
}

// subject starts an arm's worker. It does not wait until the worker polls: the first turn does.
func (r *harness) subject(ctx context.Context, sc scenario, a arm, p *provider) (*subject, error) {
	r.subjects++
	name := strings.NewReplacer(" ", "-", ",", "", ".", "").Replace(fmt.Sprintf("%d %s %s", r.subjects, sc.name, a))
	s := &subject{arm: a, harness: r, name: name, shared: sc.context > 0}
	if err := s.seed(ctx, sc.context); err != nil {
		return nil, err
	}
	argv, err := s.command(ctx, p)
	if err != nil {
		return nil, err
	}
	for i := range max(a.workers, 1) {
		w, err := proc.Start(proc.Command{Name: fmt.Sprintf("%s-%d", s.name, i), Argv: argv, Dir: r.dir, Env: os.Environ()})
		if err != nil {
			return nil, err
		}
		s.workers = append(s.workers, w)
	}
	return s, nil
}

func (s *subject) command(ctx context.Context, p *provider) ([]string, error) {
	r := s.harness
	if s.kind == everturn {
		file, err := r.agent(ctx, s.name, s.arm, p.url)
		if r.profile != "" {
			return []string{r.self, "engine", file, filepath.Join(r.profile, s.name)}, err
		}
		return []string{r.folder("worker"), "--config", file}, err
	}
	d := config.Default().Worker // the numbers of turns are those of package engine
	text, err := json.Marshal(baseline{
		Address: r.address, TaskQueue: s.name, BaseURL: p.url, Server: []string{r.folder("mcpserver")},
		Workspace: r.folder("workspace"), Tools: r.tools,
		Turns: 100, Activities: d.MaxConcurrentActivities, StickyCache: 100, Tuned: s.tuned,
	})
	if err != nil {
		return nil, err
	}
	path := r.folder(s.name + ".json")
	return []string{r.self, string(s.kind), path}, os.WriteFile(path, text, 0o600)
}

// session returns the workflow ID of turn i.
func (s *subject) session(i int) string {
	if s.shared {
		i = 0
	}
	return fmt.Sprintf("%s-%d", s.name, i)
}

// start starts turn i.
func (s *subject) start(ctx context.Context, i int, sp spec) (client.WorkflowRun, error) {
	o := client.StartWorkflowOptions{ID: s.session(i), TaskQueue: s.name, WorkflowExecutionTimeout: within}
	sp.Tool = s.lane.wire()
	c := s.harness.client
	switch s.kind {
	case everturn:
		steps, calls, timeout := sp.Hops+10, sp.Hops*sp.Calls+10, within.String()
		return c.ExecuteWorkflow(ctx, o, workflows.TurnWorkflow, workflows.Input{
			Message: &workflows.Message{Text: sp.message()},
			Limits:  &workflows.LimitsRequest{MaxSteps: &steps, MaxToolCalls: &calls, TurnTimeout: &timeout},
		})
	case cookbk:
		messages := []openai.ChatCompletionMessage{
			{Role: openai.ChatMessageRoleSystem, Content: config.Default().Runtime.SystemPrompt}}
		messages = append(messages, s.carried...)
		messages = append(messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: sp.message()})
		return c.ExecuteWorkflow(ctx, o, cookbook.Turn,
			cookbook.Input{Model: s.String(), Messages: messages, MaxSteps: sp.Hops + 10})
	}
	activities := sp.Hops
	if sp.Bad {
		activities++ // the hop with the invalid answer; one call more than the turn has
	}
	return c.ExecuteWorkflow(ctx, o, floor.Turn, floor.Input{Hops: activities, Calls: sp.Calls, Local: s.lane != laneMCP})
}

// one runs a turn to its end.
func (s *subject) one(ctx context.Context, sp spec, i int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	began := time.Now()
	run, err := s.start(ctx, i, sp)
	if err == nil {
		err = await(ctx, run)
	}
	return time.Since(began), err
}

// askAgain is the interval at which await asks again whether a turn has ended. About one long poll in a thousand misses
// the end and returns only after its 20 s, which says nothing about the turn.
const askAgain = 2 * time.Second

// await waits for a turn's end.
func await(ctx context.Context, run client.WorkflowRun) error {
	for {
		once, cancel := context.WithTimeout(ctx, askAgain)
		err := run.Get(once, nil)
		cancel()
		var late *serviceerror.DeadlineExceeded
		if ctx.Err() != nil || !errors.As(err, &late) && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}
