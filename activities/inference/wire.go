package inference

import (
	"encoding/json"
	"net/http"

	"github.com/everturn/everturn/workflows/turn"
)

// Wire is a wire API. Its methods keep no state, so one value serves any number of inferences at once.
type Wire interface {
	// API names the wire API.
	API() turn.API
	// Path is the address of inferences below the base URL, for instance "/chat/completions".
	Path() string
	// Authorize adds the API key and the API's other required fields to a request's header. key may be empty.
	Authorize(h http.Header, key string)
	// Body renders a prompt. Equal arguments give equal bytes, and a longer transcript only extends the list of
	// messages. An error means that the request cannot be built.
	Body(p turn.Prompt, r Rules) (Body, error)
	// Reader returns a function that reads one event of a response and adds its content to c. It must be called with the
	// events of one response in their order. Its error is ErrGarbage, a *StreamError, or the error of a method of c.
	Reader(c *Collector) func(event []byte) error
}

// Body is the JSON body of a request. Media is set if it holds images or audio. Header has the fields that it needs
// besides those of Wire.Authorize.
type Body struct {
	JSON   []byte
	Media  bool
	Header http.Header
}

// Rules are the properties of a prompt's model and its endpoint that affect how a Wire renders the prompt.
type Rules struct {
	Provider   string // the endpoint's name
	Modalities Modalities
	Quirks     Quirks
	NoItems    bool // the provider's own items of earlier answers are left out
}

// Quirks record how requests for a model must differ from the usual, because its endpoint has refused a request: which
// parameters to omit, and which to add.
type Quirks struct {
	NoStreamOptions  bool
	CompletionTokens bool // max_completion_tokens instead of max_tokens
	NoSchema         bool // no JSON schema of the response
	NoCacheKey       bool // no prompt_cache_key
	NoInclude        bool // no encrypted reasoning (Responses)
	NoBinding        bool // no thinking.block_binding (Messages)
	WantsReasoning   bool // reasoning_content in every assistant message with calls, even if it is empty
	MaxTokens        int  // the longest completion that the model accepts, in tokens; 0 means unknown
}

// Strict reports whether the strict mode of an API accepts a schema unchanged: every object in it must forbid
// additional properties and require all of its own (OpenAI, "Structured outputs").
func Strict(schema json.RawMessage) bool {
	var v any
	return json.Unmarshal(schema, &v) == nil && strict(v)
}

// strict is Strict for a decoded schema or a part of one.
func strict(v any) bool {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if !strict(item) {
				return false
			}
		}
	case map[string]any:
		properties, isObject := v["properties"].(map[string]any)
		if v["type"] == "object" || isObject {
			required, _ := v["required"].([]any)
			if v["additionalProperties"] != false || len(required) != len(properties) {
				return false
			}
		}
		for _, item := range v {
			if !strict(item) {
				return false
			}
		}
	}
	return true
}
