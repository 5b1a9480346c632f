package demo

import (
	"encoding/json"
	"regexp"
	"strings"
)

// The endings of the names of the tools for plans: one proposes a plan, and one reflects on a step.
const (
	toolPlan     = "local_plan"
	toolPlanStep = "local_plan_step"
)

// nextWrite matches the boundary between two files in a question such as "write A: TEXT; write B: TEXT".
var nextWrite = regexp.MustCompile(`(?i);\s*write `)

// planSteps returns the steps of a plan for the question, one for each file to write, in the form that the tool for
// plans takes. It returns nil if a part of the question is not about a file to write, or no tool can write files.
func (c conversation) planSteps() (steps []map[string]any) {
	tool, ok := c.toolWithSuffix(toolWrite)
	if !ok || !writing.MatchString(c.question) {
		return nil
	}
	toolID := strings.Replace(tool.Name, "_", "/", 1) // of a function of this program: local_x is local/x
	for _, part := range nextWrite.Split(c.question, -1) {
		if len(steps) > 0 { // the separator contained the word
			part = "write " + part
		}
		m := writing.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return nil
		}
		steps = append(steps, map[string]any{"description": "write " + m[1], "tool": toolID,
			"args": map[string]any{"path": m[1], "content": m[2] + "\n"}})
	}
	return steps
}

// The lines of a plan's text, as the tools for plans return it: a current step with its number and tool, and the
// arguments of a step.
var (
	currentStep   = regexp.MustCompile(`(?m)^\[>\] (\d+)\. .* \(([\w/.-]+)\)`)
	stepArguments = regexp.MustCompile(`(?m)^Arguments of step (\d+): (\{.*\})$`)
)

// followPlan proposes a plan with these steps, then makes the calls of its current steps, reflects on their results,
// and so on until the plan has no current step. It takes the steps from the plan's text in the latest result or in the
// note, because the user may have changed the plan. A result of these tools that is a plan's text begins with "The
// plan"; any other means that the user does not want the next step.
func (c conversation) followPlan(steps []map[string]any) step {
	state := c.note
	for _, r := range c.results {
		if strings.HasPrefix(r.call.name, toolPlan) && strings.HasPrefix(r.text, "The plan") {
			state = r.text
		}
	}
	if len(c.results) == 0 {
		return step{"I propose a plan.", []call{{toolPlan, map[string]any{"steps": steps}}}}
	}
	last := c.results[len(c.results)-1]
	current := currentStep.FindAllStringSubmatch(state, -1)
	planning := strings.HasPrefix(last.call.name, toolPlan) // or toolPlanStep, which begins alike
	switch {
	case len(current) == 0:
		return step{text: c.answer()}
	case planning && !strings.HasPrefix(last.text, "The plan"): // the user does not want the next step
		return step{"I end the plan here.", reflections(current[:1], "conclude", last.text)}
	case !planning:
		return step{calls: reflections(current, "done", last.text)}
	}
	arguments := map[string]map[string]any{}
	for _, m := range stepArguments.FindAllStringSubmatch(state, -1) {
		var object map[string]any
		_ = json.Unmarshal([]byte(m[2]), &object) // if it is invalid, the tool is called without arguments
		arguments[m[1]] = object
	}
	var calls []call
	for _, m := range current {
		calls = append(calls, call{strings.ReplaceAll(m[2], "/", "_"), arguments[m[1]]})
	}
	return step{"I do the next step.", calls}
}

// reflections returns one call for each current step (the matches of currentStep) that records the assessment of the
// step and the first line of result.
func reflections(current [][]string, assessment, result string) (calls []call) {
	line, _, _ := strings.Cut(strings.TrimSpace(result), "\n")
	for _, m := range current {
		calls = append(calls, call{toolPlanStep, map[string]any{"step": json.Number(m[1]), "assessment": assessment,
			"reflection": line}})
	}
	return calls
}
