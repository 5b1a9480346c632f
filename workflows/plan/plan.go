package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
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
)

// Confirm is what users must confirm of a plan.
type Confirm string

// The confirmations. The zero value means that the agent works without a plan.
const (
	ConfirmNever Confirm = "never"
	ConfirmPlan  Confirm = "plan" // the plan as a whole
	ConfirmStep  Confirm = "step" // the plan, and each later step before it begins
)

var strictness = map[Confirm]int{"": 0, ConfirmNever: 1, ConfirmPlan: 2, ConfirmStep: 3}

// Known reports whether c is a confirmation of this package.
func (c Confirm) Known() bool { return strictness[c] > 0 }

// Stricter returns c or other, whichever requires more confirmations.
func (c Confirm) Stricter(other Confirm) Confirm {
	if strictness[other] > strictness[c] {
		return other
	}
	return c
}

// Plan is the arguments of a call of Tool.
type Plan struct {
	Steps []Step `json:"steps"`
}

// Step is one step of a plan. Tool, Args and Patch show a user what the step is about to do; the calls of the step have
// their own permissions.
type Step struct {
	Description string          `json:"description"`
	Tool        string          `json:"tool,omitempty"` // the ID of the step's main tool
	Args        json.RawMessage `json:"args,omitempty"`
	Patch       string          `json:"patch,omitempty"`
	// Independent means that the step does not need the results of adjacent independent steps, so they can be worked on
	// at the same time.
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
		switch {
		case strings.TrimSpace(s.Description) == "":
			return p, fmt.Errorf("step %d has no description", i+1)
		case len(s.Description) > maxDescription:
			return p, fmt.Errorf("the description of step %d is %d bytes; the maximum is %d", i+1, len(s.Description),
				maxDescription)
		}
	}
	return p, nil
}

// String returns the steps for display, one per line.
func (p Plan) String() string { return unstarted(p).String() }

// Assessment is the verdict of a reflection on a step.
type Assessment string

// The assessments.
const (
	Done     Assessment = "done"     // go on with the next step
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

// The descriptions and the schemas of the tools.
const (
	Description = "Proposes the steps in which you will do what the user asks. The user may have to confirm them, and may " +
		"change them. Until the plan is accepted, only tools that change nothing may be called. A call of this tool while a " +
		"plan is carried out replaces the steps that are not done."
	Schema = `{"additionalProperties":false,"properties":{"steps":{"items":{"additionalProperties":false,"properties":{` +
		`"args":{"description":"the arguments of the tool, if they are known","type":"object"},` +
		`"description":{"description":"what the step does, in a line","maxLength":500,"minLength":1,"type":"string"},` +
		`"independent":{"description":"the step does not need the results of the independent steps next to it",` +
		`"type":"boolean"},` +
		`"patch":{"description":"the change that the step makes, as a unified diff, if it is known","type":"string"},` +
		`"tool":{"description":"the step's main tool","type":"string"}},"required":["description"],"type":"object"},` +
		`"maxItems":32,"minItems":1,"type":"array"}},"required":["steps"],"type":"object"}`
	StepDescription = "Reflects on a step of the plan when its work is done, or cannot be done: compare the results with " +
		"what the step was for. The assessment done goes on with the next step, revise lets you replace the steps that are not " +
		"done, and conclude ends the plan here."
	StepSchema = `{"additionalProperties":false,"properties":{"reflection":{"description":"what the step has achieved, ` +
		`or why it cannot be done","maxLength":1000,"type":"string"},"step":{"description":"its number in the plan",` +
		`"minimum":1,"type":"integer"},"assessment":{"enum":["done","revise","conclude"],"type":"string"}},` +
		`"required":["step","assessment","reflection"],"type":"object"}`
	// System is the part of the system prompt that tells a model to work by a plan.
	System = "Work by a plan. Look at what you need with tools that change nothing, then propose the steps with local/plan. " +
		"Do one step at a time, and reflect on each with local/plan_step. Answer when the plan is done. If the user's message " +
		"needs no change of anything, answer without a plan."
)
