package plan

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// event is an accepted call.
type event struct {
	tool, arguments string
	edit            json.RawMessage
	inference       int
}

// fold returns the progress after the events.
func fold(events ...event) (p Progress) {
	for _, e := range events {
		p = after(p, e)
	}
	return p
}

func after(p Progress, e event) Progress {
	return p.After(Call{ID: "x", Inference: e.inference, Tool: e.tool, Arguments: e.arguments, Outcome: OK, Edit: e.edit})
}

// change is a call that changes something.
const change = "local/write_file"

func proposal(inference int, steps ...string) event {
	list := make([]string, len(steps))
	for i, s := range steps {
		list[i] = s
		if !strings.HasPrefix(s, "{") {
			list[i] = fmt.Sprintf(`{"description":%q}`, s)
		}
	}
	return event{tool: Tool, arguments: `{"steps":[` + strings.Join(list, ",") + `]}`, inference: inference}
}

func reflected(inference, step int, v Assessment) event {
	raw, _ := json.Marshal(Reflection{Step: step, Assessment: v, Text: "because"})
	return event{tool: StepTool, arguments: string(raw), inference: inference}
}

func independent(name string) string {
	return fmt.Sprintf(`{"description":%q,"tool":"local/%s","independent":true}`, name, name)
}

func TestAPlanAdvancesStepByStep(t *testing.T) {
	p := fold(proposal(1, "read", "write"), reflected(3, 1, Done))
	assert.Equal(t, "[x] 1. read — because\n[>] 2. write", p.String())
	assert.True(t, p.Active())
	assert.Contains(t, p.Instruction(), "Do step 2 now")
	beside := Turn{Inference: 4, MaxInferences: 20, Reflects: true}
	assert.NotEmpty(t, p.Refuse(beside, change, "", false), "a change beside a reflection is of no step")
	assert.Empty(t, p.Refuse(beside, change, "", true))
	p = after(p, reflected(5, 2, Done))
	assert.True(t, p.Ended)
	assert.Contains(t, p.Instruction(), "Give the final answer")
}

func TestAReflectionRevisesOrConcludes(t *testing.T) {
	p := fold(proposal(1, "a", "b", "c"), reflected(3, 1, Done), reflected(5, 2, Revise))
	assert.True(t, p.Revising)
	assert.NotEmpty(t, p.Refuse(Turn{Inference: 6, MaxInferences: 20}, change, "", false),
		"only a new plan goes on")
	revised := after(p, proposal(6, "d", "e"))
	assert.Equal(t, "[x] 1. a — because\n[>] 2. d\n[ ] 3. e", revised.String(), "what is done stays")
	assert.Equal(t, 1, revised.Revisions)
	assert.False(t, revised.Revising)
	concluded := after(revised, reflected(8, 2, Conclude))
	assert.Equal(t, "[x] 1. a — because\n[-] 2. d — because\n[-] 3. e", concluded.String())
	assert.True(t, concluded.Ended)
}

func TestIndependentStepsAreCurrentTogether(t *testing.T) {
	p := fold(proposal(1, independent("a"), independent("b"), "join", independent("c")))
	assert.Equal(t, "[>] 1. a (local/a)\n[>] 2. b (local/b)\n[ ] 3. join\n[ ] 4. c (local/c)", p.String())
	p = after(p, reflected(3, 2, Done))
	assert.Equal(t, "[>] 1. a (local/a)\n[x] 2. b (local/b) — because\n[ ] 3. join\n[ ] 4. c (local/c)", p.String())
	assert.NotEmpty(t, p.Refuse(Turn{}, StepTool, reflected(4, 3, Done).arguments, false), "step 3 has not begun")
	p = after(p, reflected(3, 1, Done))
	assert.Contains(t, p.Instruction(), "Do step 3 now")
}

// TestNoStepBeginsUnseen reflects on two independent steps in one completion: each reflection names the step after
// them.
func TestNoStepBeginsUnseen(t *testing.T) {
	p := fold(proposal(1, independent("a"), independent("b"), "join"))
	for step := range 2 {
		assert.Equal(t, "step 3 is next: join", p.Next(reflected(2, step+1, Done).arguments))
	}
	assert.Empty(t, p.Next(reflected(2, 1, Conclude).arguments))
	p = after(after(p, reflected(2, 1, Done)), reflected(2, 2, Done))
	assert.Empty(t, p.Next(reflected(3, 3, Done).arguments), "it is the last one")
}

func TestAUsersPlanReplacesTheModels(t *testing.T) {
	e := proposal(1, "delete everything")
	e.edit = json.RawMessage(`{"steps":[{"description":"look","tool":"local/read_file"}]}`)
	p := fold(e)
	assert.True(t, p.Edited)
	output := p.Instruction()
	assert.Contains(t, output, "as the user has changed it")
	assert.Contains(t, output, "[>] 1. look (local/read_file)")
	assert.NotContains(t, output, "delete")
}

func TestCallsThatDoNotFitThePlanAreRefused(t *testing.T) {
	at := Turn{Inference: 2, MaxInferences: 12, MaxCalls: 8}
	none := Progress{}
	assert.NotEmpty(t, none.Refuse(at, change, "", false), "nothing changes before there is a plan")
	assert.Empty(t, none.Refuse(at, "local/read_file", "", true))
	assert.NotEmpty(t, none.Refuse(at, StepTool, reflected(2, 1, Done).arguments, false))
	p := fold(proposal(1, "a", "b"))
	assert.Empty(t, p.Refuse(at, change, "", false))
	for _, bad := range []string{`{"step":3,"assessment":"done"}`, `{"step":0,"assessment":"done"}`, `{"step":2,"assessment":"done"}`,
		`[]`} {
		assert.NotEmpty(t, p.Refuse(at, StepTool, bad, false), bad)
		assert.Equal(t, p, after(p, event{tool: StepTool, arguments: bad, inference: 2}), bad)
	}
	ended := after(p, reflected(3, 1, Conclude))
	assert.NotEmpty(t, ended.Refuse(at, change, "", false))
}

func TestAStepHasItsPartOfTheInferences(t *testing.T) {
	p := fold(proposal(1, "a", "b"))
	refuse := func(inference int) string {
		return p.Refuse(Turn{Inference: inference, MaxInferences: 12, MaxCalls: 100}, change, "", false)
	}
	for inference := 2; inference <= 5; inference++ { // 12 less the plan and the answer, halved, less the reflection
		assert.Empty(t, refuse(inference), inference)
	}
	assert.NotEmpty(t, refuse(6))
	p = after(p, reflected(3, 1, Done))
	for inference := 4; inference <= 10; inference++ { // what step 1 has left is step 2's
		assert.Empty(t, refuse(inference), inference)
	}
	assert.NotEmpty(t, refuse(11))
}

func TestPlansAreBounded(t *testing.T) {
	first := Turn{Inference: 1, MaxInferences: 12, MaxCalls: 8}
	refuse := func(arguments string) string { return Progress{}.Refuse(first, Tool, arguments, false) }
	for reason, raw := range map[string]string{
		"has no steps":    `{"steps":[]}`,
		"no description":  `{"steps":[{"description":" "}]}`,
		"the maximum":     `{"steps":[{"description":"` + strings.Repeat("x", maxDescription+1) + `"}]}`,
		"not valid":       `{"steps":[{"description":"a","surprise":1}]}`,
		"text follows":    `{"steps":[{"description":"a"}]}}`,
		"maximum is 3276": `{"steps":[{"description":"a","tool":"` + strings.Repeat("x", MaxBytes) + `"}]}`,
		"has 33 steps":    proposal(1, make([]string, 33)...).arguments,
		"propose fewer":   proposal(1, "a", "b", "c", "d").arguments, // of 8 calls, 7 are left: 3 steps and their reflections
	} {
		assert.Contains(t, refuse(raw), reason)
	}
	fits := proposal(1, "a", "b", "c").arguments
	assert.Empty(t, refuse(fits))
	first.Proposals = MaxRevisions
	assert.Empty(t, refuse(fits))
	first.Proposals++
	assert.Contains(t, refuse(fits), "revised 3 times")
}

// TestRandomPlansKeepTheirOrder checks 10,000 random sequences of events: no step is current before those that it
// needs, none that is done is undone, and a plan that has ended has no current step.
func TestRandomPlansKeepTheirOrder(t *testing.T) {
	for seed := range uint64(10_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var p Progress
		for n := range 12 {
			before := p
			if r.IntN(4) == 0 {
				var steps []string
				for range 1 + r.IntN(4) {
					steps = append(steps, []string{"plain", independent("i")}[r.IntN(2)])
				}
				p = after(p, proposal(n, steps...))
			} else {
				p = after(p, reflected(n, r.IntN(6), []Assessment{Done, Done, Done, Revise, Conclude}[r.IntN(5)]))
			}
			current, blocked := 0, false
			for i, s := range p.Steps {
				switch s.State {
				case StateCurrent:
					current++
					require.Falsef(t, blocked, "seed %d: step %d is current too early\n%s", seed, i+1, p)
					blocked = !s.Independent
				case StatePending:
					blocked = true
				}
			}
			require.Equal(t, p.Active(), current > 0, "seed %d", seed)
			kept := 0
			for _, s := range p.Steps {
				if s.State == StateDone {
					kept++
				}
			}
			for _, s := range before.Steps {
				if s.State == StateDone {
					kept--
				}
			}
			require.GreaterOrEqual(t, kept, 0, "seed %d: what is done stays done", seed)
		}
	}
}
