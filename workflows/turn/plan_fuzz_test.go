package turn_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// FuzzPlan plays sessions of any shape through the phases. Whatever the limits are, each prompt holds the system
// prompt, the turn's own request exactly once, calls with all their results including the newest ones, and no more
// messages than the limits allow. While its window stays, a prompt extends the one before.
func FuzzPlan(f *testing.F) {
	f.Add([]byte{1, 1, 1, 1, 1, 0, 1, 0}, byte(48), `{"path":"a"}`, false)
	f.Add([]byte{5, 5, 5, 5, 5, 5, 0, 5, 5}, byte(0), `{`, false)
	f.Add([]byte{255, 200, 3, 3, 64, 3, 0, 0, 0, 128, 7}, byte(4), "", true)
	f.Add([]byte(strings.Repeat("\x02\x40\x01\x80", 60)), byte(10), "\"\xff\"", true)
	f.Add([]byte(strings.Repeat("\x00", 100)), byte(20), `[1,1]`, false)
	f.Fuzz(func(t *testing.T, script []byte, most byte, arguments string, jsonMode bool) {
		l := turn.DefaultLimits()
		l.MaxHistoryMessages = 2 + int(most)
		require.NoError(t, l.Validate())
		mode := turn.ModeNative
		if jsonMode {
			mode = turn.ModeJSON
		}
		s := &played{t: t, arguments: arguments, profile: turn.PromptConfig{System: "be brief"}}
		for rest := script[:min(len(script), 300)]; len(rest) > 0; {
			rest = s.turn(turn.Config{Mode: mode, Limits: l}, rest)
		}
	})
}

// played is a session with its last prompt.
type played struct {
	t          *testing.T
	arguments  string
	profile    turn.PromptConfig
	transcript []turn.Message
	turns      int

	plan   turn.PromptSpec
	prompt turn.Prompt
	cutAt  int // length of the transcript when the window was last cut
	room   int // the minimum that the window held then
}

// turn plays one turn and returns the rest of the script. A byte is the model's behavior: its calls, an invalid answer
// that causes a reprompt (64 and more), or a failure (128 and more).
func (s *played) turn(cfg turn.Config, script []byte) []byte {
	s.turns++
	s.transcript = append(s.transcript, turn.Message{Role: turn.RoleUser, Text: fmt.Sprintf("request %d", s.turns)})
	s.plan, s.cutAt = turn.PromptSpec{}, 0
	p := &turn.Progress{Config: cfg, Head: s.head(), From: 1, Anchor: s.head().Seq}
	b := turn.Open(p).BuildPrompt()
	for i, does := range script {
		for _, r := range p.Pending {
			s.transcript = append(s.transcript, turn.Message{Role: turn.RoleTool, CallID: r.CallID, Outcome: r.Outcome,
				Text: r.Text})
		}
		infer := b.LlmInfer()
		s.look(infer.Prompt, p)
		if does >= 128 { // the next attempt finds the results already appended, and uses the same head
			s.transcript = s.transcript[:len(s.transcript)-len(p.Pending)]
			b = infer.BuildPrompt("again")
			continue
		}
		calls := s.answer(p.Counters.Step, int(does%64)%12)
		p.Head = s.head()
		parse := infer.ParseAction(turn.Proposal{})
		switch {
		case len(calls) > 0:
			b = parse.CallTool().BuildPrompt(calls)
		case does >= 64:
			b = parse.BuildPrompt(nil, "say it in JSON", false)
		default:
			return script[i+1:]
		}
	}
	return nil
}

func (s *played) head() turn.Head { return turn.Head{Seq: int64(len(s.transcript))} }

// answer appends the model's message with n calls, and returns their results.
func (s *played) answer(step, n int) []turn.CallOutcome {
	m := turn.Message{Role: turn.RoleAssistant, Step: step}
	var results []turn.CallOutcome
	for i := range n {
		id := turn.CallID(step, i)
		m.ToolCalls = append(m.ToolCalls, turn.ToolCall{ID: id, Tool: "local/read_file", Arguments: s.arguments})
		results = append(results, turn.CallOutcome{CallID: id, Outcome: turn.OutcomeOK, Text: "result " + id})
	}
	s.transcript = append(s.transcript, m)
	return results
}

// look renders the plan as the activity does and checks the resulting prompt.
func (s *played) look(plan turn.PromptSpec, p *turn.Progress) {
	var anchor *turn.Message
	if plan.From > plan.Anchor {
		anchor = &s.transcript[plan.Anchor-1]
	}
	window := s.transcript[plan.From-1:]
	prompt := turn.Render(plan, s.profile, anchor, window)
	require.Equal(s.t, prompt, turn.Render(plan, s.profile, anchor, window), "the same plan is the same prompt")
	require.Contains(s.t, prompt.System, s.profile.System)
	require.LessOrEqual(s.t, len(prompt.Messages), max(p.Config.Limits.MaxHistoryMessages, 1+len(p.Pending))+1)
	requests := slices.DeleteFunc(slices.Clone(prompt.Messages),
		func(m turn.Message) bool { return m.Text != fmt.Sprintf("request %d", s.turns) })
	require.Len(s.t, requests, 1, "the turn's own request is there once")
	newest := turn.Render(plan, s.profile, nil, s.transcript[p.Head.Seq-1:]).Messages
	require.Equal(s.t, newest, prompt.Messages[len(prompt.Messages)-len(newest):], "what came last is there")
	if plan.Mode == turn.ModeJSON {
		s.requireTexts(prompt)
	} else {
		requirePairs(s.t, prompt)
	}
	s.requireSteady(plan, prompt, p)
	s.plan, s.prompt = plan, prompt
}

// requireSteady checks that the window only moves forward, and only if it would otherwise be too long.
func (s *played) requireSteady(plan turn.PromptSpec, prompt turn.Prompt, p *turn.Progress) {
	l := p.Config.Limits
	if s.plan.From == plan.From {
		require.Equal(s.t, s.prompt.Messages, prompt.Messages[:len(s.prompt.Messages)], "prompts extend one another")
		return
	}
	require.Greater(s.t, plan.From, s.plan.From)
	if s.cutAt > 0 {
		require.Greater(s.t, len(s.transcript)-s.cutAt+s.room, l.MaxHistoryMessages, "cut again too soon")
	}
	if s.plan.From > 0 || plan.From > 1 {
		s.cutAt, s.room = len(s.transcript), max(l.KeptMessages(), 1+len(p.Pending))
		require.EqualValues(s.t, s.room, int64(len(s.transcript))-plan.From+1, "what a cut leaves")
	}
}

// requirePairs checks that each call is followed by its results in request order, and that there is no result without
// its call.
func requirePairs(t *testing.T, p turn.Prompt) {
	t.Helper()
	var awaited []string
	for _, m := range p.Messages {
		if m.Role == turn.RoleTool {
			require.NotEmpty(t, awaited, "a result without its call: %s", m.CallID)
			require.Equal(t, awaited[0], m.CallID)
			awaited = awaited[1:]
			continue
		}
		require.Empty(t, awaited, "calls without their results")
		for _, c := range m.ToolCalls {
			awaited = append(awaited, c.ID)
		}
		require.True(t, m.Text != "" || len(m.ToolCalls) > 0, "providers refuse a message without content")
	}
	require.Empty(t, awaited, "calls without their results")
}

// requireTexts checks that a model without native tools gets none, and sees each of its calls in the format that it
// should use.
func (s *played) requireTexts(p turn.Prompt) {
	require.Empty(s.t, p.Tools)
	for _, m := range p.Messages {
		require.Contains(s.t, []turn.Role{turn.RoleUser, turn.RoleAssistant}, m.Role)
		require.Empty(s.t, m.ToolCalls)
		require.NotEmpty(s.t, m.Text)
		if call, ok := strings.CutPrefix(m.Text, `{"type":"tool_call"`); ok &&
			!strings.Contains(call, `{"type":"tool_call"`) {
			_, err := turn.Parse(turn.ModeJSON, 3, turn.Completion{Text: m.Text}, tools)
			require.NoError(s.t, err)
		}
	}
}
