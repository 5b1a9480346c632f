package turn

import "encoding/json"

// Prompt is everything that one inference sends, in provider-neutral form. Rendering is deterministic: equal prompts
// give equal bytes, and a prompt whose Messages extend another's extends its bytes.
type Prompt struct {
	Provider string // the ID of the model's provider; empty means the only one
	API      API    // empty means APIChat
	Model    string
	System   string
	// Environment is the end of System that depends on the day and the machine: see PromptConfig.
	Environment string
	Messages    []Message  // from the transcript; tool messages follow the assistant message that requested them
	Tools       []WireTool // native mode only, in catalogue order
	// Note follows the messages and gives the reason for a reprompt. It never enters the transcript.
	Note string
	// Settings are those of the inference, and Reasoning says how the model takes them.
	Settings  ModelSettings
	Reasoning Reasoning
	MaxTokens int // of the completion; 0 leaves it to the provider
	// CacheKey groups the prompts that share a prefix, for the provider's cache. It is an opaque hash of the session.
	CacheKey string
	// OutputSchema is the JSON schema of the final text; nil means free text.
	OutputSchema json.RawMessage
	// ActionSchema is the JSON schema of every answer in JSON mode, for models that can be bound to a schema.
	ActionSchema json.RawMessage
}

// WireTool is a tool as the model sees it.
type WireTool struct {
	Name        string // ^[a-zA-Z0-9_-]{1,64}$
	Description string
	Schema      json.RawMessage // JSON schema of the arguments object
}

// PromptSpec specifies, by reference, the prompt of one inference. The same prompt plan over the same transcript gives
// the same prompt, byte for byte.
type PromptSpec struct {
	Model string `json:"model"`
	Mode  Mode   `json:"mode"`
	// PromptConfig names the blob that holds the system prompt and the frozen descriptors.
	PromptConfig string `json:"prompt_config"`
	// From is the first message of the window. Anchor is the message that began the turn; the prompt includes it even
	// if the window begins after it. The window ends at the head from which the inference starts.
	From   int64 `json:"from"`
	Anchor int64 `json:"anchor"`
	// Note follows the messages and tells the model the reason for a reprompt.
	Note string `json:"note,omitempty"`
	// Catalogue adds the turn's tools with their descriptions and schemas to the note.
	Catalogue bool `json:"catalogue,omitempty"`
	MaxTokens int  `json:"max_tokens,omitempty"`
}

// Window returns the sequence number of the first message in the window of the next prompt. from is that of the
// previous prompt, and head is the last message of the transcript. The window begins at from until it exceeds
// max_history_messages, so that each prompt extends the previous one. Then it is cut to Limits.KeptMessages at once.
// Without a maximum it always begins at from, and a prompt that becomes too long is compacted.
func Window(from, head int64, l Limits) int64 {
	from = max(from, 1)
	if l.MaxHistoryMessages == 0 || head-from+1 <= int64(l.MaxHistoryMessages) {
		return from
	}
	return head - int64(l.KeptMessages()) + 1
}

// Align drops the tool results at the beginning of a window, because their calls are before the window. Providers
// reject a result without its call.
func Align(window []Message) []Message {
	for len(window) > 0 && window[0].Role == RoleTool {
		window = window[1:]
	}
	return window
}
