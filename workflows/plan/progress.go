package plan

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/everturn/everturn/internal/printable"
)

// StepState is the state of a plan step.
type StepState string

// The states of steps.
const (
	StatePending StepState = "pending"
	StateCurrent StepState = "current"
	StateDone    StepState = "done"
	StateDropped StepState = "dropped" // the plan ended without it
)

// StepProgress is a step and its state.
type StepProgress struct {
	Description string    `json:"description"`
	Tool        string    `json:"tool,omitempty"`
	Independent bool      `json:"independent,omitempty"`
	State       StepState `json:"state"`
	Reflection  string    `json:"reflection,omitempty"`

	args  json.RawMessage
	patch string
}

// Progress is the state of a turn's plan. The zero value is that of a turn without a plan.
type Progress struct {
	Steps     []StepProgress `json:"steps"`
	Edited    bool           `json:"edited,omitempty"`    // the user changed the model's plan
	Revisions int            `json:"revisions,omitempty"` // how often the plan was replaced
	Revising  bool           `json:"revising,omitempty"`  // the model must replace the steps that are not done
	Ended     bool           `json:"ended,omitempty"`     // all steps are done or dropped
	// began is the number of the inference at which the current steps became current.
	began int
}

// After returns the progress after a call of Tool or StepTool that was accepted: the policy, and the user if necessary,
// allowed it. inference is the number of the inference that requested the call, and edit is the user's version of the
// plan, empty if the user has not changed it. After returns p if the call was not possible. It does not change p.
func (p Progress) After(inference int, tool, arguments string, edit json.RawMessage) Progress {
	if tool == Tool {
		return p.propose(inference, arguments, edit)
	}
	r, err := parseReflection(arguments)
	if err != nil || p.refuseReflection(arguments) != "" {
		return p
	}
	steps := append([]StepProgress(nil), p.Steps...) // a copy: the caller may still use p
	p.Steps, p.began = steps, inference
	s := &steps[r.Step-1]
	s.Reflection = printable.Head(r.Text, maxReflection)
	switch r.Assessment {
	case Done:
		s.State = StateDone
	case Revise:
		p.Revising = true
	case Conclude:
		for i := range steps {
			if steps[i].State != StateDone {
				steps[i].State = StateDropped
			}
		}
	}
	return p.advance()
}

// propose returns the progress after a proposed plan: the steps that are done stay, and the plan's steps replace all
// others. It returns p if the plan is invalid.
func (p Progress) propose(inference int, arguments string, edit json.RawMessage) Progress {
	if len(edit) > 0 {
		arguments = string(edit)
	}
	proposed, err := Parse(arguments)
	if err != nil {
		return p
	}
	next := Progress{Edited: len(edit) > 0, began: inference}
	for _, s := range p.Steps {
		if s.State == StateDone {
			next.Steps = append(next.Steps, s)
		}
	}
	if len(p.Steps) > 0 {
		next.Revisions = p.Revisions + 1
	}
	next.Steps = append(next.Steps, unstarted(proposed).Steps...)
	return next.advance()
}

// unstarted returns the progress of a plan whose steps are all pending.
func unstarted(p Plan) (out Progress) {
	for _, s := range p.Steps {
		out.Steps = append(out.Steps, StepProgress{Description: s.Description, Tool: s.Tool, Independent: s.Independent,
			State: StatePending, args: s.Args, patch: s.Patch})
	}
	return out
}

// advance makes the first step that is not finished current. If it is independent, the independent steps that
// directly follow it become current, too, so that they can run in parallel. If all steps are finished, the plan has
// ended.
func (p Progress) advance() Progress {
	p.Ended = true    // until an unfinished step is found
	together := false // all steps since the first current one are independent
	for i := range p.Steps {
		s := &p.Steps[i]
		switch {
		case s.State == StateDone || s.State == StateDropped:
		case p.Ended:
			p.Ended, s.State, together = false, StateCurrent, s.Independent
		case together && s.Independent:
			s.State = StateCurrent
		default:
			together = false
			s.State = StatePending
		}
	}
	return p
}

// Active reports whether there is a plan with unfinished steps.
func (p Progress) Active() bool { return len(p.Steps) > 0 && !p.Ended }

// Next describes the step that follows if a reflection with these arguments says that its step is done. It is "" for
// another assessment, or if no step follows. While several steps are current, it is the first step after all of them,
// because one completion can reflect on all of them.
func (p Progress) Next(arguments string) string {
	r, err := parseReflection(arguments)
	if err != nil || r.Assessment != Done {
		return ""
	}
	for i, s := range p.Steps {
		if s.State == StatePending {
			return fmt.Sprintf("step %d is next: %s", i+1, describe(s))
		}
	}
	return ""
}

// Turn is what Refuse must know of the turn whose model proposes a call.
type Turn struct {
	Inference int  // the number of the inference that proposes the call
	Reflects  bool // its completion reflects on a step
	Proposals int  // how many plans the model has proposed earlier in the turn
	// MaxInferences and MaxCalls are the turn's limits, and Calls is how many calls the turn has made.
	MaxInferences, MaxCalls, Calls int
}

// Refuse returns why a call must not run now, or "" if it may. The reason is written for the model. readOnly means that
// the call changes nothing, and starts no agent.
func (p Progress) Refuse(t Turn, tool, arguments string, readOnly bool) string {
	switch {
	case tool == Tool:
		return p.refuseProposal(t, arguments)
	case tool == StepTool:
		return p.refuseReflection(arguments)
	case readOnly:
		return ""
	case len(p.Steps) == 0:
		return "there is no plan yet: propose one with local/plan first"
	case p.Ended:
		return "the plan has ended: give the final answer, or propose another plan with local/plan first"
	case p.Revising:
		return "the plan is being revised: propose the remaining steps with local/plan first"
	case t.Reflects:
		return "the same answer reflects on a step: call this tool in the next one, when the reflection has counted"
	case t.Inference-p.began > p.stepInferences(t):
		return fmt.Sprintf("the step has used its part of the turn's max_steps, which is %d: reflect on it with "+
			"local/plan_step", p.stepInferences(t)+1)
	}
	return ""
}

// stepInferences returns how many inferences the current step may spend on its work, at least 1. The inferences that
// the turn had left when the step began, without one for the final answer, are divided equally between the unfinished
// steps. One of each step's part is for its reflection.
func (p Progress) stepInferences(t Turn) int {
	unfinished := 0
	for _, s := range p.Steps {
		if s.State == StateCurrent || s.State == StatePending {
			unfinished++
		}
	}
	return max((t.MaxInferences-p.began-1)/max(unfinished, 1)-1, 1)
}

// refuseProposal returns why a call of Tool must not run, or "" if it may.
func (p Progress) refuseProposal(t Turn, arguments string) string {
	proposed, err := Parse(arguments)
	if err != nil {
		return err.Error()
	}
	if t.Proposals > MaxRevisions {
		return fmt.Sprintf("the plan was revised %d times, which is the maximum: answer with what was done", MaxRevisions)
	}
	// Each step needs at least two inferences and two calls: its work and its reflection. One inference is for the final
	// answer, and one call is this proposal.
	room := min(t.MaxInferences-t.Inference-1, t.MaxCalls-t.Calls-1) / 2
	if len(proposed.Steps) > room {
		return fmt.Sprintf("the plan has %d steps, and the turn's max_steps and max_tool_calls leave room for %d: propose "+
			"fewer", len(proposed.Steps), max(room, 0))
	}
	return ""
}

// refuseReflection returns why a call of StepTool with these arguments must not run, or "" if it may.
func (p Progress) refuseReflection(arguments string) string {
	r, err := parseReflection(arguments)
	switch {
	case err != nil:
		return "the reflection is not valid: " + err.Error()
	case !p.Active() || p.Revising:
		return "there is no plan to carry out: propose one with local/plan first"
	case r.Step < 1 || r.Step > len(p.Steps):
		return fmt.Sprintf("the plan has no step %d; its steps are 1 to %d", r.Step, len(p.Steps))
	case p.Steps[r.Step-1].State != StateCurrent:
		return fmt.Sprintf("step %d is %s; reflect on %s", r.Step, p.Steps[r.Step-1].State, p.current())
	}
	return ""
}

// current returns the numbers of the current steps for display, such as "step 2" or "steps 2, 3".
func (p Progress) current() string {
	var list []string
	for i, s := range p.Steps {
		if s.State == StateCurrent {
			list = append(list, fmt.Sprint(i+1))
		}
	}
	if len(list) == 1 {
		return "step " + list[0]
	}
	return "steps " + strings.Join(list, ", ")
}

// Instruction returns the text that tells the model the state of the plan and what to do next.
func (p Progress) Instruction() string {
	head := "The plan"
	if p.Edited {
		head += ", as the user has changed it"
	}
	out := head + ":\n" + p.String() + "\n\n"
	switch {
	case p.Revising:
		return out + "Propose the remaining steps with local/plan; those that are done stay."
	case p.Ended:
		return out + "The plan has ended. Give the final answer."
	case strings.HasPrefix(p.current(), "steps"): // several are current
		return out + "Do " + p.current() + ". They do not depend on each other: give those that name an agent to their " +
			"agents in one answer, and take their canvases in the order of the plan. Then reflect on each with local/plan_step." +
			p.details()
	}
	return out + "Do " + p.current() + " now, and reflect on it with local/plan_step." + p.details()
}

// details returns the arguments and patches of the current steps, as text for the model.
func (p Progress) details() (out string) {
	for i, s := range p.Steps {
		if s.State == StateCurrent && len(s.args) > 0 {
			out += fmt.Sprintf("\nArguments of step %d: %s", i+1, s.args)
		}
		if s.State == StateCurrent && s.patch != "" {
			out += fmt.Sprintf("\nPatch of step %d:\n%s", i+1, s.patch)
		}
	}
	return out
}

// marks are the signs of the states in Progress.String.
var marks = map[StepState]string{StateDone: "x", StateCurrent: ">", StatePending: " ", StateDropped: "-"}

// String returns the plan for display, one line per step with a mark for its state.
func (p Progress) String() string {
	lines := make([]string, len(p.Steps))
	for i, s := range p.Steps {
		lines[i] = fmt.Sprintf("[%s] %d. %s", marks[s.State], i+1, describe(s))
		if s.Reflection != "" {
			lines[i] += " — " + oneLine(s.Reflection)
		}
	}
	return strings.Join(lines, "\n")
}

// describe returns a step's description and its tool, in one line.
func describe(s StepProgress) string {
	out := oneLine(s.Description)
	if s.Tool != "" {
		out += " (" + oneLine(s.Tool) + ")"
	}
	return out
}

// oneLine replaces each run of white space, line breaks included, by one space.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
