package workflows

import "github.com/everturn/everturn/workflows/turn"

// Approval decides about one call that waits for a person. It counts for exactly the arguments that the person saw.
type Approval struct {
	Version int    `json:"v,omitempty"`
	Turn    string `json:"turn,omitempty"` // empty: the one that runs
	Call    string `json:"call"`
	Allow   bool   `json:"allow"`
	// ArgumentsHash is turn.Wait's.
	ArgumentsHash string `json:"arguments_hash"`
	By            string `json:"by,omitempty"`
	Reason        string `json:"reason,omitempty"` // told to the model where the call is denied
	// Always spares the session the question from now on. It goes with Allow.
	Always turn.Scope `json:"always,omitempty"`
}

// ApprovalResult acknowledges an Approval: it is decided, and will be carried out.
type ApprovalResult struct {
	Version int    `json:"v"`
	Turn    string `json:"turn"`
	Call    string `json:"call"`
	Allowed bool   `json:"allowed"`
	// Waiting is how many calls of the same answer nobody has decided about yet: none runs before all are.
	Waiting int `json:"waiting"`
}

// Answer answers a question of the model.
type Answer struct {
	Version  int    `json:"v,omitempty"`
	Turn     string `json:"turn,omitempty"` // empty: the one that runs
	Question string `json:"question"`       // turn.Wait's ID
	Text     string `json:"text,omitempty"`
	Blob     string `json:"blob,omitempty"`
	By       string `json:"by,omitempty"`
}

// AnswerResult acknowledges an Answer.
type AnswerResult struct {
	Version  int    `json:"v"`
	Turn     string `json:"turn"`
	Question string `json:"question"`
}
