package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

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
	Tools       []string  `json:"tools,omitempty"`
	Paths       []string  `json:"paths,omitempty"`
	Independent bool      `json:"independent,omitempty"`
	Written     bool      `json:"written,omitempty"` // the plan makes the step's call, not the model
	State       StepState `json:"state"`
	// Outcome is that of the last call that the plan has made for the step. If it is not OK, the model decides about the
	// step.
	Outcome    string `json:"outcome,omitempty"`
	Reflection string `json:"reflection,omitempty"`

	calls []Due // the calls that the plan makes for the step, in order
	made  int   // how many of them have ended
}

// OK is the Outcome of a call that succeeded.
const OK = "ok"

// Progress is the state of a turn's plan. The zero value is that of a turn without a plan.
type Progress struct {
	Steps     []StepProgress `json:"steps"`
	Edited    bool           `json:"edited,omitempty"`    // the user changed the model's plan
	Revisions int            `json:"revisions,omitempty"` // how often the plan was replaced
	Revising  bool           `json:"revising,omitempty"`  // the model must replace the steps that are not done
	Ended     bool           `json:"ended,omitempty"`     // all steps are done or dropped

	began     int       // the number of the inference at which the current steps became current
	proposed  int       // the number of the inference that proposed the plan
	agent     string    // see For
	since     int       // the number of the inference that proposed the plan, or reflected on it last
	confirmed time.Time // when a user confirmed the plan; zero if no user has
	unasked   bool      // the current steps began without a reflection, about which users can be asked
}

// For returns the progress of a turn without a plan whose plan may give independent steps to agents of their own. agent
// is the ID of the tool that calls such an agent; if it is empty, the model does these steps itself.
func For(agent string) Progress { return Progress{agent: agent} }

// Call is a call of the turn that has ended.
type Call struct {
	ID        string
	Inference int // the number of the inference that requested it
	Tool      string
	Arguments string
	Outcome   string
	// Changed is the session of the agent that the call has run, if the agent has changed its canvas.
	Changed string
	// Edit is the user's version of the plan, empty if the user has not changed it, and Confirmed is when a user allowed
	// the plan. They are set for calls of Tool only.
	Edit      json.RawMessage
	Confirmed time.Time
}

// After returns the progress after a call of the turn. Calls of Tool and StepTool count if they succeeded: the policy,
// and the user if necessary, allowed them. A call that the plan makes for a step ends the step, or shows that it has
// failed. Other calls change nothing. After does not change p.
func (p Progress) After(c Call) Progress {
	switch {
	case !Is(c.Tool) && c.Inference > p.since: // a call beside a proposal or a reflection was not of the step after it
		return p.made(c)
	case !Is(c.Tool):
		return p
	case c.Outcome != OK:
		return p
	case c.Tool == Tool:
		return p.propose(c)
	}
	r, err := parseReflection(c.Arguments)
	if err != nil || p.refuseReflection(c.Arguments) != "" {
		return p
	}
	p.Steps = slices.Clone(p.Steps) // the caller may still use p
	p.began, p.since, p.unasked = c.Inference, c.Inference, false
	s := &p.Steps[r.Step-1]
	s.Reflection = printable.Head(r.Text, maxReflection)
	switch r.Assessment {
	case Done:
		s.State = StateDone
	case Revise:
		p.Revising = true
	case Conclude:
		for i := range p.Steps {
			if p.Steps[i].State != StateDone {
				p.Steps[i].State = StateDropped
			}
		}
	}
	return p.advance()
}

// propose returns the progress after a proposed plan: the steps that are done stay, and the plan's steps replace all
// others. It returns p if the plan is invalid.
func (p Progress) propose(c Call) Progress {
	arguments := c.Arguments
	if len(c.Edit) > 0 {
		arguments = string(c.Edit)
	}
	proposed, err := Parse(arguments)
	if err != nil {
		return p
	}
	next := Progress{Edited: len(c.Edit) > 0, began: c.Inference, proposed: c.Inference, since: c.Inference,
		confirmed: c.Confirmed, agent: p.agent}
	for _, s := range p.Steps {
		if s.State == StateDone {
			next.Steps = append(next.Steps, s)
		}
	}
	if len(p.Steps) > 0 {
		next.Revisions = p.Revisions + 1
	}
	next.Steps = append(next.Steps, unstarted(proposed, p.agent).Steps...)
	return next.advance()
}

// unstarted returns the progress of a plan whose steps are all pending. agent is that of For.
func unstarted(p Plan, agent string) (out Progress) {
	for _, s := range p.Steps {
		calls := s.calls(agent)
		out.Steps = append(out.Steps, StepProgress{Description: s.Description, Tool: s.Tool, Tools: s.Tools, Paths: s.Paths,
			Independent: s.Independent, Written: len(calls) > 0, State: StatePending, calls: calls})
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
		if s.State == StatePending && len(s.calls) > 0 {
			return "" // its call is asked for
		}
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
	Todo      bool // the plan is a list that the model keeps
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
	case p.due(tool, arguments): // the plan itself, or the model in its place
		return ""
	case p.Steps[p.first()].Tool == Reflect || p.Steps[p.first()].Tool == Summarize:
		return fmt.Sprintf("step %d changes nothing: reflect on it with local/plan_step", p.first()+1)
	case t.Inference-p.began > p.stepInferences(t):
		return fmt.Sprintf("the step has used its part of the turn's max_steps, which is %d: reflect on it with "+
			"local/plan_step", p.stepInferences(t)+1)
	}
	return ""
}

// first returns the index of the first current step of an active plan.
func (p Progress) first() int {
	return slices.IndexFunc(p.Steps, func(s StepProgress) bool { return s.State == StateCurrent })
}

// stepInferences returns how many inferences the current step may spend on its work, at least 1. The inferences that
// the turn had left when the step began, without one for the final answer and those of written steps, are divided
// equally between the unfinished steps of the model. One of each step's part is for its reflection.
func (p Progress) stepInferences(t Turn) int {
	unfinished, written := 0, 0
	for _, s := range p.Steps {
		switch {
		case s.State != StateCurrent && s.State != StatePending:
		case len(s.calls) > 0:
			written += s.inferences()
		default:
			unfinished++
		}
	}
	return max((t.MaxInferences-p.began-1-written)/max(unfinished, 1)-1, 1)
}

// inferences returns how many of the turn's steps the plan step needs at least: one for each call that the plan makes,
// or for the model's work, and one for its reflection unless the plan's calls suffice.
func (s StepProgress) inferences() int {
	switch {
	case s.Tool == Reflect:
		return 1
	case s.Tool == Summarize || len(s.calls) == 0 || strings.HasPrefix(s.calls[0].Tool, agentTools): // or takes a canvas
		return 2
	}
	return len(s.calls)
}

// refuseProposal returns why a call of Tool must not run, or "" if it may.
func (p Progress) refuseProposal(t Turn, arguments string) string {
	proposed, err := Parse(arguments)
	if err != nil {
		return err.Error()
	}
	if t.Todo {
		if len(proposed.Calls("")) > 0 {
			return "this is a list of what you do yourself: leave out args and summarize"
		}
		return ""
	}
	if t.Proposals > MaxRevisions {
		return fmt.Sprintf("the plan was revised %d times, which is the maximum: answer with what was done", MaxRevisions)
	}
	// One inference is for the final answer, and one call is this proposal.
	left, needed := min(t.MaxInferences-t.Inference-1, t.MaxCalls-t.Calls-1), 0
	for _, s := range unstarted(proposed, p.agent).Steps {
		needed += s.inferences()
	}
	if needed > left {
		return fmt.Sprintf("the plan's steps need at least %d steps and calls of the turn, and its max_steps and "+
			"max_tool_calls leave %d: propose fewer", needed, max(left, 0))
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
	switch waits := p.Steps[r.Step-1].waits(); {
	case waits && r.Assessment == Done:
		return fmt.Sprintf("step %d is not carried out yet, which the plan does itself: continue, revise or conclude", r.Step)
	case !waits && r.Assessment == Continue:
		return fmt.Sprintf("the plan makes no call for step %d: do it, or say that it is done", r.Step)
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
	}
	return out + strings.Join(p.tasks(), " ")
}

// tasks say for each current step what the model must do.
func (p Progress) tasks() (list []string) {
	for i, s := range p.Steps {
		n := i + 1
		switch {
		case s.State != StateCurrent:
		case s.failed():
			list = append(list, fmt.Sprintf("The call of step %d ended with outcome %s: decide with local/plan_step whether it "+
				"counts as done all the same, or revise or conclude the plan.", n, s.Outcome))
		case s.waits():
			list = append(list, fmt.Sprintf("Step %d is carried out as written, without you; its result is reported.", n))
		case s.Tool == Summarize:
			list = append(list, fmt.Sprintf("Sum up the diff as the reflection on step %d with local/plan_step.", n))
		case s.Tool == Reflect:
			list = append(list, fmt.Sprintf("Look at the results so far, and reflect on step %d with local/plan_step: revise or "+
				"conclude the plan if they are not as they should be.", n))
		default:
			list = append(list, fmt.Sprintf("Do step %d now, and reflect on it with local/plan_step.", n))
		}
	}
	return list
}

// marks are the signs of the states in Progress.String.
var marks = map[StepState]string{StateDone: "x", StateCurrent: ">", StatePending: " ", StateDropped: "-"}

// String returns the plan for display, one line per step with a mark for its state.
func (p Progress) String() string {
	lines := make([]string, len(p.Steps))
	for i, s := range p.Steps {
		mark := marks[s.State]
		if s.State == StateCurrent && s.failed() {
			mark = "!"
		}
		lines[i] = fmt.Sprintf("[%s] %d. %s", mark, i+1, describe(s))
		if s.Reflection != "" {
			lines[i] += " — " + oneLine(s.Reflection)
		}
	}
	return strings.Join(lines, "\n")
}

// describe returns a step's description, its tools and its paths, in one line.
func describe(s StepProgress) string {
	names := slices.Concat([]string{s.Tool}, s.Tools, s.Paths)
	names = slices.DeleteFunc(names, func(n string) bool { return n == "" })
	out := oneLine(s.Description)
	if len(names) > 0 {
		out += " (" + oneLine(strings.Join(names, ", ")) + ")"
	}
	return out
}

// oneLine replaces each run of white space, line breaks included, by one space.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
