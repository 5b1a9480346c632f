package turn

import "encoding/json"

// Completion is a model's complete response to one inference, before it is parsed.
type Completion struct {
	Text      string `json:"text,omitempty"`
	Reasoning string `json:"reasoning,omitempty"`
	// ToolCalls are the calls as the provider sent them: without ID, and with the wire name in Tool.
	ToolCalls    []ToolCall `json:"tool_calls,omitempty"`
	FinishReason string     `json:"finish_reason"` // the provider's value: stop, tool_calls, length, content_filter
	// Refused is set if the provider marked Text as the model's refusal.
	Refused bool   `json:"refused,omitempty"`
	Usage   Usage  `json:"usage"`
	Model   string `json:"model,omitempty"` // as the provider names it
	// Items are the parts of the message that the provider needs back in later prompts; nil if it needs none.
	Items *ProviderItems `json:"items,omitempty"`
	// Raw is the provider's response before parsing; for a stream, the JSON array of its events. The provider adapter
	// bounds its size.
	Raw json.RawMessage `json:"raw,omitempty"`
}
