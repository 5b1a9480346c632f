package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/everturn/everturn/workflows/turn"
)

// Ask sends a message, waits for the end of its turn and decodes the answer into a T, which must be a struct. The tags
// json and jsonschema of its fields name and describe them to the model. A turn that waits for a decision has not
// ended.
//
// Ask returns the result of a turn that has ended also with an error. If the turn ended without an answer, the error is
// a *turn.Error with the result's code. If the answer does not match the schema, the code is invalid_output.
//
// Errors: those of Send and Wait.
func Ask[T any](ctx context.Context, c *Client, in SendInput) (answer T, result Result, err error) {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		return answer, result, fmt.Errorf("deriving a schema from %T: %w", answer, err)
	}
	if s.Type != "object" {
		return answer, result, fmt.Errorf("%w: the answer's type %T is not a struct", ErrInvalid, answer)
	}
	if in.OutputSchema, err = json.Marshal(s); err != nil {
		return answer, result, fmt.Errorf("encoding the schema of %T: %w", answer, err)
	}
	t, err := c.Send(ctx, in)
	if err != nil {
		return answer, result, err
	}
	if result, err = c.Wait(ctx, t); err != nil {
		return answer, result, err
	}
	if result.FinishReason != turn.FinishAnswered {
		return answer, result, turn.NewError(cmp.Or(result.Code, turn.CodeInvalidOutput), nil,
			cmp.Or(result.Message, "the turn ended without an answer: "+string(result.FinishReason)))
	}
	if err := json.Unmarshal([]byte(result.Answer), &answer); err != nil {
		return answer, result, turn.NewError(turn.CodeInvalidOutput, err, "the answer is not a JSON object of the schema")
	}
	return answer, result, nil
}
