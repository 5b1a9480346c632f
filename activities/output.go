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
