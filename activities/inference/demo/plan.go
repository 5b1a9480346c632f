package demo

import (
	"encoding/json"
	"regexp"
	"strings"
)

// The suffixes of the names of the tools with which a model works by a plan.
const (
	toolPlan     = "local_plan"
	toolPlanStep = "local_plan_step"
	toolCanvas   = "canvas_write"
)

// planned matches a question that can be planned: files to write, separated by semicolons.
var nextWrite = regexp.MustCompile(`(?i);\s*write `)

// steps returns the steps of a plan for the question, each of which writes a file.
func (c conversation) planSteps() (steps []map[string]any) {
	tool, ok := c.toolWithSuffix(toolCanvas)
	if !ok {
		if tool, ok = c.toolWithSuffix(toolWrite); !ok {
			return nil
		}
	}
	if !writing.MatchString(c.question) {
		return nil
	}
	for _, part := range nextWrite.Split(c.question, -1) {
		if len(steps) > 0 {
			part = "write " + part
		}
		m := writing.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return nil
		}
		steps = append(steps, map[string]any{"description": "write " + m[1], "tool": strings.Replace(tool.Name, "_", "/", 1),
			"args": map[string]any{"path": m[1], "content": m[2] + "\n"}})
	}
	return steps
}

var (
	currentStep   = regexp.MustCompile(`(?m)^\[>\] (\d+)\. .* \(([\w/.-]+)\)`)
	stepArguments = regexp.MustCompile(`(?m)^Arguments of step (\d+): (\{.*\})$`)
)

// byPlan proposes the steps, and then does each and reflects on it. It does what the latest result of a plan's tool
// says, because the user may have changed the plan.
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
	planning := strings.HasPrefix(last.call.name, toolPlan)
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
		_ = json.Unmarshal([]byte(m[2]), &object) // an invalid value calls the tool without arguments
		arguments[m[1]] = object
	}
	var calls []call
	for _, m := range current {
		calls = append(calls, call{strings.ReplaceAll(m[2], "/", "_"), arguments[m[1]]})
	}
	return step{"I do the next step.", calls}
}

func reflections(current [][]string, assessment, result string) (calls []call) {
	line, _, _ := strings.Cut(strings.TrimSpace(result), "\n")
	for _, m := range current {
		calls = append(calls, call{toolPlanStep, map[string]any{"step": json.Number(m[1]), "assessment": assessment,
			"reflection": line}})
	}
	return calls
}
