package inference

import "strings"

// capability holds what is known of the models whose names begin with a prefix.
type capability struct {
	prefix        string
	nativeTools   bool
	systemRole    bool
	contextTokens int
}

// capabilities is searched in order: the first matching prefix wins. Context windows in tokens are from
// @pydantic/genai-prices 0.1.8 (MIT), the smallest of each family's versions, rounded down.
//
// The gpt-6 family has tools only through the Responses API (go-openai refuses them here), o1-mini and o1-preview have
// neither tools nor a system role.
var capabilities = []capability{
	{"o1-mini", false, false, 128_000},
	{"o1-preview", false, false, 128_000},
	{"o1", true, true, 200_000},
	{"o3", true, true, 200_000},
	{"o4", true, true, 200_000},
	{"gpt-6", false, true, 1_050_000},
	{"gpt-5", true, true, 400_000},
	{"gpt-4.1", true, true, 1_000_000},
	{"gpt-4o", true, true, 128_000},
	{"gpt-4-turbo", true, true, 128_000},
	{"gpt-4", true, true, 8_192},
	{"gpt-3.5-turbo-instruct", false, true, 16_385},
	{"gpt-3.5", true, true, 16_385},
	{"gpt-oss", true, true, 131_072},
	{"claude-", true, true, 200_000},
	{"gemini-1.5", true, true, 1_000_000},
	{"gemini-2", true, true, 1_000_000},
	{"gemini-3", true, true, 1_000_000},
	{"gemma", false, false, 131_000},
	{"mistral-large", true, true, 262_144},
	{"mistral-medium", true, true, 262_144},
	{"mistral-small", true, true, 262_144},
	{"codestral", true, true, 256_000},
	{"deepseek-chat", true, true, 64_000},
	{"deepseek-reasoner", false, true, 64_000},
	{"deepseek-r1", false, true, 128_000},
	{"deepseek", true, true, 128_000},
	{"grok-2", true, true, 32_768},
	{"grok-3", true, true, 131_072},
	{"grok-4", true, true, 256_000},
	{"phi-4", false, true, 16_384},
}

// Capabilities returns what is known of a model by its name: whether it calls tools natively, whether it accepts a
// system message, and its context window in tokens (0: unknown). An unknown model is assumed to do both. A vendor's
// prefix ("openai/gpt-4o") is ignored.
func Capabilities(model string) (nativeTools, systemRole bool, contextTokens int) {
	name := strings.ToLower(model)
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	for _, c := range capabilities {
		if strings.HasPrefix(name, c.prefix) {
			return c.nativeTools, c.systemRole, c.contextTokens
		}
	}
	return true, true, 0
}
