package turn

// API is a provider's wire protocol.
type API string

// The wire protocols.
const (
	APIChat      API = "chat"      // OpenAI's Chat Completions
	APIResponses API = "responses" // OpenAI's Responses
	APIMessages  API = "messages"  // Anthropic's Messages
)

// Model is a model that a turn may use, with its properties when the turn began. A turn keeps them for its whole
// life.
type Model struct {
	Provider string `json:"provider"` // its ID in the configuration
	Name     string `json:"name"`     // as the provider's API takes it
	API      API    `json:"api,omitempty"`
	Mode     Mode   `json:"mode,omitempty"`
	// ContextTokens is the context window, and MaxOutputTokens the longest completion; 0 means unknown.
	ContextTokens   int64 `json:"context_tokens,omitempty"`
	MaxOutputTokens int64 `json:"max_output_tokens,omitempty"`
	// Price is nil if it is unknown. An unknown price is never 0.
	Price *Price `json:"price,omitempty"`
	// Reasoning says which settings the model accepts, Settings are those that inferences with it send, and Fitted
	// reports how these differ from those that were asked for: see Fit.
	Reasoning Reasoning      `json:"reasoning,omitzero"`
	Settings  ModelSettings  `json:"settings,omitzero"`
	Fitted    FittedSettings `json:"fitted,omitzero"`
	// Guessed means that the list of models lacks this one, so that its Mode and Reasoning are guesses.
	Guessed bool `json:"guessed,omitempty"`
	// Why is the reason why this model was selected, for display.
	Why string `json:"why,omitempty"`
}

// FindModel returns the model with this provider and name from list. For a model that is not in the list, it returns
// one without price and context window.
func FindModel(list []Model, provider, name string) Model {
	for _, m := range list {
		if m.Provider == provider && m.Name == name {
			return m
		}
	}
	return Model{Provider: provider, Name: name}
}
