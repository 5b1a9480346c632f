package models

import "strings"

// family describes the models whose names begin with the same prefix, on an endpoint that speaks Chat Completions.
type family struct {
	noTools, noSystemRole bool
	images, audio         bool
	wantsReasoning        bool
}

// families maps prefixes of model names to families; the longest matching prefix decides. It serves endpoints that the
// model list does not have: proxies and the operator's own servers. The data are from the vendors' lists of models, as
// of autumn 2026.
//
// The gpt-6 family has tools only through the Responses API (go-openai refuses them here). o1-mini and o1-preview have
// neither tools nor a system role.
var families = map[string]family{
	"claude-": {images: true}, "claude-2": {}, "claude-instant": {},
	"deepseek": {wantsReasoning: true}, "deepseek-r1": {noTools: true}, "deepseek-reasoner": {noTools: true},
	"gemini-": {images: true, audio: true},
	"gemma":   {noTools: true, noSystemRole: true}, "gemma-3": {noTools: true, noSystemRole: true, images: true},
	"gemma3":                 {noTools: true, noSystemRole: true, images: true},
	"gpt-3.5-turbo-instruct": {noTools: true},
	"gpt-4-turbo":            {images: true}, "gpt-4-vision": {images: true}, "gpt-4.1": {images: true},
	"gpt-4o": {images: true}, "gpt-4o-audio": {audio: true}, "gpt-4o-mini-audio": {audio: true},
	"gpt-audio": {audio: true},
	"gpt-5":     {images: true}, "gpt-6": {noTools: true, images: true},
	"grok-2-vision": {images: true}, "grok-4": {images: true},
	"llama-3.2-vision": {images: true}, "llama3.2-vision": {images: true}, "llama-4": {images: true},
	"llama4": {images: true}, "llava": {images: true}, "minicpm-v": {images: true},
	"mistral-medium": {images: true}, "mistral-small": {images: true}, "pixtral": {images: true},
	"o1": {images: true}, "o1-mini": {noTools: true, noSystemRole: true},
	"o1-preview": {noTools: true, noSystemRole: true}, "o3": {images: true}, "o3-mini": {}, "o4": {images: true},
	"phi-4":   {noTools: true},
	"qwen-vl": {images: true}, "qwen2-vl": {images: true}, "qwen2.5-vl": {images: true}, "qwen2.5vl": {images: true},
	"qwen3-vl": {images: true},
}

// CapabilitiesOf returns the capabilities of a model on an endpoint that speaks Chat Completions, judged by its name
// alone. A vendor's prefix ("openai/gpt-4o") is ignored. A model of an unknown family is taken to support tools but
// no media, because an endpoint that gets unsupported media rejects the whole request.
func CapabilitiesOf(name string) []Capability {
	f := familyOf(name)
	var out []Capability
	if !f.noTools {
		out = append(out, ToolUse)
	}
	if f.images {
		out = append(out, Vision)
	}
	if f.audio {
		out = append(out, Audio)
	}
	return out
}

// TakesSystemRole reports whether the model accepts a system message, judged by its name.
func TakesSystemRole(name string) bool { return !familyOf(name).noSystemRole }

// WantsReasoning reports whether the model's provider rejects an assistant message with calls but without the field
// reasoning_content, which may be empty.
func WantsReasoning(name string) bool { return familyOf(name).wantsReasoning }

// familyOf returns the family of a model, or the zero family if no prefix matches. It ignores case and a vendor's
// prefix.
func familyOf(name string) family {
	name = strings.ToLower(name)
	name = name[strings.LastIndexByte(name, '/')+1:]
	for end := len(name); end > 0; end-- {
		if f, ok := families[name[:end]]; ok {
			return f
		}
	}
	return family{}
}
