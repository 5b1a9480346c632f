package turn

import (
	"encoding/json"
	"fmt"
	"regexp"
)

// ClientTools is the prefix of the IDs of client tools: "client/<name>".
const ClientTools = "client/"

// ClientTool is a tool whose calls a client runs: the turn hands a call out as a Request of kind RequestResult, and
// waits until a client sends the result.
type ClientTool struct {
	Name        string `json:"name"` // 1 to 64 letters, digits, underscores and dashes
	Description string `json:"description,omitempty"`
	// Schema is the JSON schema of the arguments, an object; empty means that there are none.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// Bounds of the client tools of a message, or of the configuration.
const (
	MaxClientTools     = 128
	maxClientToolBytes = 64 << 10 // of all of them, because they are in every prompt of the turn
)

var clientToolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// CheckClientTools returns an error if a list of client tools exceeds a bound, or if a name is invalid or not unique.
func CheckClientTools(tools []ClientTool) error {
	if len(tools) > MaxClientTools {
		return fmt.Errorf("there are %d client tools; the maximum is %d", len(tools), MaxClientTools)
	}
	size, seen := 0, map[string]bool{}
	for _, t := range tools {
		switch {
		case !clientToolName.MatchString(t.Name):
			return fmt.Errorf("the client tool %q: a name is 1 to 64 letters, digits, underscores and dashes",
				Truncate(t.Name, 80))
		case seen[t.Name]:
			return fmt.Errorf("there are two client tools with the name %q", t.Name)
		}
		seen[t.Name] = true
		size += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	if size > maxClientToolBytes {
		return fmt.Errorf("the client tools are %d bytes; the maximum is %d", size, maxClientToolBytes)
	}
	return nil
}

// ResultRequest returns the ID of the request for the result of a call that a client runs.
func ResultRequest(callID string) string { return "r" + callID }

// ClientResult is the result of a call that a client has run: the content of the response to a Request of kind
// RequestResult.
type ClientResult struct {
	Text   string `json:"text,omitempty"`
	Blob   string `json:"blob,omitempty"`   // the hash of a text that is in the journal
	Failed bool   `json:"failed,omitempty"` // the outcome of the call is error
}

// Response returns the result as the response to its request.
func (r ClientResult) Response() (*ElicitationResponse, error) {
	content, err := json.Marshal(r)
	return &ElicitationResponse{Action: ElicitationAccept, Content: content}, err
}

// ClientResultOf returns the result in a response to a request of kind RequestResult. The error is for the client.
func ClientResultOf(response ElicitationResponse) (r ClientResult, err error) {
	if response.Action != ElicitationAccept {
		return r, fmt.Errorf("the action is %q; a result has the action %q", Truncate(string(response.Action), 40),
			ElicitationAccept)
	}
	if err := json.Unmarshal(response.Content, &r); err != nil {
		return r, fmt.Errorf("the content is no result, an object with text and failed: %w", err)
	}
	if r.Blob != "" && r.Text != "" {
		return r, fmt.Errorf("the result has a text and a blob; send one of them")
	}
	return r, nil
}
