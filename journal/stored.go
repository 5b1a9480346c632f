package journal

import (
	"encoding/json"
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

// StoredCall is a tool call as stores and exports keep it: arguments above a store's inline limit are replaced by their
// blob's hash.
type StoredCall struct {
	turn.ToolCall
	ArgumentsBlob string `json:"arguments_blob,omitempty"`
}

// restoreCalls returns the calls with their arguments.
func restoreCalls(list []StoredCall, blob func(hash string) ([]byte, error)) ([]turn.ToolCall, error) {
	var calls []turn.ToolCall
	for _, c := range list {
		if c.ArgumentsBlob != "" {
			b, err := blob(c.ArgumentsBlob)
			if err != nil {
				return nil, fmt.Errorf("arguments of call %s: %w", c.ID, err)
			}
			c.Arguments = string(b)
		}
		calls = append(calls, c.ToolCall)
	}
	return calls, nil
}

// storedCompletion is a completion as stores and exports keep it: without Raw, which is a blob, and without the text if
// the transcript's message has the same text.
type storedCompletion struct {
	turn.Completion
	SameText bool `json:"same_text,omitempty"`
}

// storeCompletion encodes a completion for storage beside the message that was appended for it. The caller stores Raw.
func storeCompletion(a turn.Completion, messageText string) json.RawMessage {
	a.Raw = nil
	s := storedCompletion{Completion: a, SameText: a.Text == messageText}
	if s.SameText {
		s.Text = ""
	}
	return canonical(s)
}

// restoreCompletion decodes the result of storeCompletion.
func restoreCompletion(b []byte, messageText string) (turn.Completion, error) {
	var s storedCompletion
	if err := json.Unmarshal(b, &s); err != nil {
		return turn.Completion{}, fmt.Errorf("reading a stored answer: %w", err)
	}
	if s.SameText {
		s.Text = messageText
	}
	return s.Completion, nil
}

// cleanCompletion is clean for a completion. Raw is bytes and stays unchanged.
func cleanCompletion(a turn.Completion) turn.Completion {
	a.Text, a.Reasoning = CleanText(a.Text), CleanText(a.Reasoning)
	a.FinishReason, a.Model = CleanText(a.FinishReason), CleanText(a.Model)
	calls := a.ToolCalls
	a.ToolCalls = nil
	for _, c := range calls {
		a.ToolCalls = append(a.ToolCalls, cleanCall(c))
	}
	return a
}
