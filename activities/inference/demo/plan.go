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

// currentStep matches the line of a current step in a plan's text, as the tools for plans return it: with its number,
// its tool if it names any, and not [>] but [!] if the call that the plan has made for it has failed.
var currentStep = regexp.MustCompile(`(?m)^\[[>!]\] (\d+)\. `)

// followPlan proposes a plan with these steps, which are written: they are carried out without the model. It then
// answers, or ends the plan if a step has failed or the user does not want the next one. It takes the steps from the
// plan's text in the note or else in the latest result. A result of these tools that is a plan's text begins with "The
// plan"; any other means that the user does not want the plan or its next step.
func (c conversation) followPlan(steps []map[string]any) step {
	if len(c.results) == 0 {
		return step{"I propose a plan.", []call{{toolPlan, map[string]any{"steps": steps}}}}
	}
	last := c.results[len(c.results)-1]
	state := c.note
	for _, r := range c.results {
		if !strings.Contains(c.note, "The plan") && strings.HasPrefix(r.text, "The plan") {
			state = r.text
		}
	}
	current := currentStep.FindAllStringSubmatch(state, -1)
	if len(current) == 0 {
		return step{text: c.answer()}
	}
	return step{"I end the plan here.", reflections(current[:1], "conclude", last.text)}
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
