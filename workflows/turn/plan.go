package turn

// Plan says, by reference, what one inference is to see: the same plan over the same transcript is the same prompt,
// byte for byte.
type Plan struct {
	Model string `json:"model"`
	Mode  Mode   `json:"mode"`
	// Profile is the blob that holds the system prompt and the pinned descriptors.
	PromptConfig string `json:"profile"`
	// From is the first message of the window and Anchor the turn's own request, which is shown even where the
	// window begins after it. The window ends at the head that the inference starts from.
	From   int64 `json:"from"`
	Anchor int64 `json:"anchor"`
	// Note is said to the model after the messages: why it is asked again.
	Note        string   `json:"note,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	MaxTokens   int      `json:"max_tokens,omitempty"`
}

// Window moves the beginning of the prompt's window: while it holds at most max_history_messages it stays, so that
// prompts extend one another; past that it is cut in one block, down to keep_history_messages.
func Window(from, head int64, l Limits) int64 {
	from = max(from, 1)
	if head-from+1 <= int64(l.MaxHistoryMessages) {
		return from
	}
	return head - int64(l.KeepHistoryMessages) + 1
}

// Align drops the results at the beginning of a window whose calls were cut off: a call and its results are never
// separated.
func Align(window []Message) []Message {
	for len(window) > 0 && window[0].Role == RoleTool {
		window = window[1:]
	}
	return window
}

// PromptConfig is the bulk of what a turn pins, kept as one blob.
type PromptConfig struct {
	System      string       `json:"system"`
	Descriptors []Descriptor `json:"descriptors"`
	// Policy is the turn's: the activity that has a call's arguments applies it.
	Policy Policy `json:"policy"`
}

// BehaviorVersion is the version of the workflow code's decisions, for turns that begin now. A turn keeps the version that
// Begin has pinned for its whole life: code that decides differently from version 2 on asks for Config.Version, so that
// older histories replay. The version is 0 until Begin returns: no decision before that, or about a turn whose Begin
// failed, may depend on it.
const BehaviorVersion = 1

// Config are the configuration of a turn: read once, at Start, and kept in history and journal.
type Config struct {
	Version      int       `json:"behavior_version"`
	Tenant       string    `json:"tenant,omitempty"` // whose turn it is; empty: the default tenant
	Agent        string    `json:"agent"`
	Provider     string    `json:"provider"`
	Model        string    `json:"model"`
	Mode         Mode      `json:"mode"`
	PromptConfig string    `json:"profile"` // blob of Profile
	Limits       Limits    `json:"limits"`
	Policy       Policy    `json:"policy"`
	Approvals    Approvals `json:"people,omitzero"`
	Tools        []Tool    `json:"tools,omitempty"`
	RetryMax     int       `json:"retry_max"`
	Temperature  *float64  `json:"temperature,omitempty"`
	MaxTokens    int       `json:"max_output_tokens,omitempty"`
	// Unavailable are the optional servers whose tools the turn lacks: they could not be asked when it began, nor since.
	Unavailable []string `json:"unavailable,omitempty"`
}

// Find returns the pinned tool with this ID.
func (p Config) Find(id string) (Tool, bool) {
	for _, t := range p.Tools {
		if t.ID == id {
			return t, true
		}
	}
	return Tool{}, false
}
