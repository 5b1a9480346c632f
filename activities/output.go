package activities

import (
	"encoding/json"

	"github.com/everturn/everturn/activities/tools/schema"
	"github.com/everturn/everturn/workflows/turn"
)

// outputSchema checks the output schema of a turn's input and returns it in canonical form. It returns nil if the
// input has none: the turn's answer is then free text.
func outputSchema(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	canonical, _, err := schema.Compile(raw)
	if err != nil {
		return nil, turn.Errorf(turn.CodeInputInvalid, err, "the output schema cannot be used: "+err.Error())
	}
	return canonical, nil
}

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
func (a *Activities) checkOutput(step int, p turn.PromptConfig, text string) error {
	if len(p.OutputSchema) == 0 {
		return nil
	}
	text = turn.OutputText(text)
	err := turn.CheckJSON(text)
	if err == nil {
		err = a.tools.Check(turn.Descriptor{ID: "the answer", Schema: p.OutputSchema}, json.RawMessage(text))
	}
	if err == nil {
		return nil
	}
	return &turn.InvalidAction{Step: step, Kind: turn.InvalidOutput, Code: turn.CodeInvalidOutput,
		Raw:    turn.Truncate(text, turn.ArgumentsPreview),
		Reason: turn.Truncate("it is not one JSON object of the output schema: "+err.Error(), 500)}
}
