package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Due is a call that the plan makes for a step.
type Due struct {
	Step      int // from 1
	Tool      string
	Arguments string
}

// The tools that a plan calls by itself: DiffTool for a step of Summarize, and TakeTool to merge what an agent has
// changed on its canvas into that of the session.
const (
	DiffTool = "local/canvas_diff"
	TakeTool = "local/canvas_take"
)

// agentTools is the beginning of the IDs of agents' tools, as turn.AgentTools.
const agentTools = "agent/"

// task is the arguments of the call of an agent that does a step.
type task struct {
	Task string `json:"task"`
	Scope
}

// calls returns the calls that the plan makes for a step, without their Step: none if the step is the model's. agent is
// that of For.
func (s Step) calls(agent string) []Due {
	named := strings.HasPrefix(s.Tool, agentTools)
	switch {
	case s.Tool == Summarize:
		return []Due{{Tool: DiffTool, Arguments: "{}"}}
	case len(s.Args) > 0:
		return []Due{{Tool: s.Tool, Arguments: string(s.Args)}}
	case s.Independent && named:
		return []Due{{Tool: s.Tool, Arguments: task{s.Description, Scope{s.Tools, s.Paths}}.String()}}
	case s.Independent && agent != "" && s.Tool != Reflect:
		return []Due{{Tool: agent, Arguments: task{s.Description, s.scope()}.String()}}
	}
	return nil
}

func (t task) String() string {
	raw, _ := json.Marshal(t) // strings always marshal
	return string(raw)
}

// Calls returns all calls that the plan would make for its steps. agent is that of For.
func (p Plan) Calls(agent string) (list []Due) {
	for i, s := range p.Steps {
		for _, d := range s.calls(agent) {
			d.Step = i + 1
			list = append(list, d)
		}
	}
	return list
}

// waits reports whether the plan still has to make a call for the step.
func (s StepProgress) waits() bool { return !s.failed() && s.made < len(s.calls) }

// failed reports whether a call that the plan made for the step did not succeed.
func (s StepProgress) failed() bool { return s.Outcome != "" && s.Outcome != OK }

// Due returns the calls that the plan makes next, in the order of the steps: the first call of each current step at the
// same time, and then their further calls one by one, so that what agents have changed is merged in the order of the
// plan. It returns nil if the model goes on: because a current step is the model's, or because a call has failed.
func (p Progress) Due() (first []Due) {
	if !p.Active() || p.Revising {
		return nil
	}
	var further []Due
	for i, s := range p.Steps {
		switch {
		case s.State != StateCurrent:
		case s.failed():
			return nil
		case s.waits():
			next := s.calls[s.made]
			if next.Step = i + 1; s.made > 0 {
				further = append(further, next)
			} else {
				first = append(first, next)
			}
		}
	}
	if len(first) == 0 && len(further) > 0 {
		return further[:1]
	}
	return first
}

// due reports whether the plan makes a call with this tool and these arguments next.
func (p Progress) due(tool, arguments string) bool {
	return slices.ContainsFunc(p.Due(), func(d Due) bool { return d.is(tool, arguments) })
}

// Written returns, by their IDs, which of the calls of one completion are calls that the plan makes next, whether the
// plan or the model has requested them. Each call of the plan is found once.
func (p Progress) Written(calls []Call) map[string]Due {
	found, left := map[string]Due{}, p.Due()
	for _, c := range calls {
		if i := slices.IndexFunc(left, func(d Due) bool { return d.is(c.Tool, c.Arguments) }); i >= 0 {
			found[c.ID] = left[i]
			left = slices.Delete(left, i, i+1)
		}
	}
	return found
}

// is reports whether a call has the tool of d, by its ID or its wire name, and the same arguments.
func (d Due) is(tool, arguments string) bool {
	return (d.Tool == tool || d.Tool == wireName(tool)) && sameJSON(d.Arguments, arguments)
}

// wireName returns the name under which models know a tool, if that follows from the ID alone: see turn.WireName, by
// which no other tool has the name.
func wireName(id string) string { return strings.ReplaceAll(id, "/", "_") }

// sameJSON reports whether two texts are the same JSON value. Numbers are the same only if they are written alike.
func sameJSON(a, b string) bool {
	if a == b {
		return true
	}
	var values [2]any
	for i, text := range []string{a, b} {
		in := json.NewDecoder(bytes.NewReader([]byte(text)))
		in.UseNumber()
		if in.Decode(&values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// made returns the progress after a call that may be one that the plan makes. A plan without due calls stays as it is.
func (p Progress) made(c Call) Progress {
	d, ok := p.Written([]Call{c})[c.ID]
	if !ok || c.Outcome == "" {
		return p
	}
	p.Steps = slices.Clone(p.Steps) // the caller may still use p
	s := &p.Steps[d.Step-1]
	s.Outcome = c.Outcome
	s.made++
	if c.Changed != "" && !s.failed() {
		from, _ := json.Marshal(map[string]string{"from": c.Changed}) // strings always marshal
		s.calls = append(slices.Clip(s.calls), Due{Tool: TakeTool, Arguments: string(from)})
	}
	if s.failed() || s.made < len(s.calls) || s.Tool == Summarize {
		return p
	}
	s.State = StateDone
	p.began, p.unasked = c.Inference, true
	return p.advance()
}

// Confirmed returns when a user confirmed the plan, and the number of the inference that proposed it. ok is false if no
// user has.
func (p Progress) Confirmed() (at time.Time, inference int, ok bool) {
	return p.confirmed, p.proposed, !p.confirmed.IsZero()
}

// Announce returns what a user is asked before a step begins, if users confirm each step. It is "" for the first steps
// of the plan, which are confirmed with it.
func (p Progress) Announce(step int) string {
	if p.began == p.proposed {
		return ""
	}
	return fmt.Sprintf("step %d is next: %s", step, describe(p.Steps[step-1]))
}

// Unasked returns what a user is asked before the first change of a step of the model, if users confirm each step and
// the step began without a reflection about which they were asked. asked reports whether a user has allowed a call of
// an inference after this one since.
func (p Progress) Unasked(asked func(inference int) bool) string {
	if !p.Active() || !p.unasked || asked(p.began) {
		return ""
	}
	return p.Announce(p.first() + 1)
}
