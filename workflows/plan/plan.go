package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/everturn/everturn/internal/printable"
)

// The IDs of the tools with which a model works by a plan. Tool proposes the steps, or replaces the steps that are not
// done. StepTool reports the model's reflection on a step.
const (
	Tool     = "local/plan"
	StepTool = "local/plan_step"
)

// Is reports whether id is the ID of one of the plan's tools.
func Is(id string) bool { return id == Tool || id == StepTool }

// The bounds of plans.
const (
	MaxSteps       = 32
	MaxBytes       = 32 << 10 // of a plan as JSON
	MaxRevisions   = 3        // proposals after a turn's first one, whether the user rejected it or the model changed it
	maxDescription = 500      // bytes
	maxReflection  = 1000     // bytes
	maxNames       = 32       // tools, and paths, of a step
)

// Confirm is what users must confirm of a plan.
type Confirm string

// The confirmations. The zero value means that the agent works without a plan.
const (
	Todo         Confirm = "todo" // nothing: the plan is a list that the model keeps, and no call depends on it
	ConfirmNever Confirm = "never"
	ConfirmPlan  Confirm = "plan" // the plan as a whole
	ConfirmStep  Confirm = "step" // the plan, and each later step before it begins
)

var strictness = map[Confirm]int{"": 0, Todo: 1, ConfirmNever: 2, ConfirmPlan: 3, ConfirmStep: 4}

// Known reports whether c is a confirmation of this package.
func (c Confirm) Known() bool { return strictness[c] > 0 }

// Binds reports whether users confirm the plan, so that changes beside it need an approval.
func (c Confirm) Binds() bool { return strictness[c] >= strictness[ConfirmPlan] }

// Stricter returns c or other, whichever requires more confirmations.
func (c Confirm) Stricter(other Confirm) Confirm {
	if strictness[other] > strictness[c] {
		return other
	}
	return c
}

// What a step can name as its tool besides the tools of the turn: an inference in which the model reflects on the steps
// so far, and one in which it summarizes what the session has changed.
const (
	Reflect   = "reflect"
	Summarize = "summarize"
)

// Plan is the arguments of a call of Tool.
type Plan struct {
	Steps []Step `json:"steps"`
}

// Step is one step of a plan. A step with Tool and Args is *written*: when its turn comes, the plan makes this call
// without another inference. Any other step is the model's, whose changes are bound to what the step names.
type Step struct {
	Description string          `json:"description"`
	Tool        string          `json:"tool,omitempty"` // the ID of a tool, Reflect or Summarize
	Args        json.RawMessage `json:"args,omitempty"`
	// Tools and Paths bound the calls of a step without Args: the tools that it may call beside Tool, and the files and
	// folders that they may change. A tool may end in * for all with this beginning.
	Tools []string `json:"tools,omitempty"`
	Paths []string `json:"paths,omitempty"`
	// Independent means that the step does not need the results of adjacent independent steps, so they are carried out at
	// the same time: by agents of their own, if the session's files are a tree and the step has no Args.
	Independent bool `json:"independent,omitempty"`
}

// Parse reads a plan from its JSON and checks its bounds. The error says what is wrong with the plan.
func Parse(raw string) (p Plan, err error) {
	if len(raw) > MaxBytes {
		return p, fmt.Errorf("the plan is %d bytes; the maximum is %d", len(raw), MaxBytes)
	}
	in := json.NewDecoder(strings.NewReader(raw))
	in.DisallowUnknownFields()
	if err := in.Decode(&p); err != nil {
		return p, fmt.Errorf("the plan is not valid: %w", err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return p, fmt.Errorf("the plan is not valid: text follows the JSON object")
	}
	switch n := len(p.Steps); {
	case n == 0:
		return p, fmt.Errorf("the plan has no steps")
	case n > MaxSteps:
		return p, fmt.Errorf("the plan has %d steps; the maximum is %d", n, MaxSteps)
	}
	for i, s := range p.Steps {
		if err := s.check(); err != nil {
			return p, fmt.Errorf("step %d %w", i+1, err)
		}
	}
	return p, nil
}

// check returns what is wrong with the step, as the rest of a sentence that begins with its number.
func (s Step) check() error {
	switch args := bytes.TrimSpace(s.Args); {
	case strings.TrimSpace(s.Description) == "":
		return errors.New("has no description")
	case len(s.Description) > maxDescription:
		return fmt.Errorf("has a description of %d bytes; the maximum is %d", len(s.Description), maxDescription)
	case len(args) > 0 && args[0] != '{':
		return errors.New("has args that are no JSON object")
	case len(args) > 0 && s.Tool == "":
		return errors.New("has args and names no tool")
	case len(args) > 0 && (s.Tool == Reflect || s.Tool == Summarize || Is(s.Tool)):
		return fmt.Errorf("has args, and %s takes none here", s.Tool)
	case len(args) > 0 && len(s.Tools)+len(s.Paths) > 0:
		return errors.New("has args, so it is one call: leave out tools and paths")
	case len(s.Tools) > maxNames || len(s.Paths) > maxNames:
		return fmt.Errorf("names over %d tools or paths", maxNames)
	}
	for _, name := range s.Paths {
		if _, ok := cleanPath(name); !ok {
			return fmt.Errorf("names the path %q, which is not inside the workspace", printable.Head(name, 100))
		}
	}
	return nil
}

// String returns the steps for display, one per line.
func (p Plan) String() string { return unstarted(p, "").String() }

// Assessment is the verdict of a reflection on a step.
type Assessment string

// The assessments.
const (
	Done     Assessment = "done"     // go on with the next step
	Continue Assessment = "continue" // go on with this step, which is written and has not been carried out
	Revise   Assessment = "revise"   // replace the steps that are not done
	Conclude Assessment = "conclude" // leave out the steps that are not done
)

// Reflection is the arguments of a call of StepTool.
type Reflection struct {
	Step       int        `json:"step"` // from 1
	Assessment Assessment `json:"assessment"`
	Text       string     `json:"reflection,omitempty"`
}

// parseReflection reads a reflection from its JSON. The caller has checked it against StepSchema.
func parseReflection(raw string) (r Reflection, err error) {
	err = json.Unmarshal([]byte(raw), &r)
	return r, err
}
