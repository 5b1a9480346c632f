package completion

import (
	"encoding/json"

	"github.com/everturn/everturn/workflows/turn"
)

// finalText returns the text of a final answer for the user. If the turn has an output schema, that is the JSON
// without the code fence that models like to add.
func finalText(p turn.PromptConfig, text string) string {
	if len(p.OutputSchema) == 0 {
		return text
	}
	return turn.OutputText(text)
}

// checkOutput returns a *turn.InvalidAction if the text of a final answer does not match the turn's output schema, and
// nil if it does or there is no schema.
func (r *Runner) checkOutput(step int, p turn.PromptConfig, text string) error {
	if len(p.OutputSchema) == 0 {
		return nil
	}
	text = turn.OutputText(text)
	err := turn.CheckJSON(text)
	if err == nil {
		err = r.checker.Check(turn.Descriptor{ID: "the answer", Schema: p.OutputSchema}, json.RawMessage(text))
	}
	if err == nil {
		return nil
	}
	return &turn.InvalidAction{Step: step, Kind: turn.InvalidOutput, Code: turn.CodeInvalidOutput,
		Raw:    turn.Truncate(text, turn.ArgumentsPreview),
		Reason: turn.Truncate("it is not one JSON object of the output schema: "+err.Error(), 500)}
}
