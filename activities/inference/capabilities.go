package inference

import "strings"

// Capabilities are what a model can do.
type Capabilities struct {
	NativeTools bool // the endpoint takes tools and returns tool calls
	SystemRole  bool // the model accepts a system message
	Modalities
}

// Modalities are the kinds of media that a model accepts besides text.
type Modalities struct{ Images, Audio bool }

// accepts reports whether media of this type may be sent. The types are those of OpenAI's Chat Completions: PNG, JPEG,
// GIF (its first frame) and WebP as image_url, WAV and MP3 as input_audio.
func (m Modalities) accepts(mediaType string) bool {
	return m.Images && imageTypes[mediaType] || m.Audio && audioFormats[mediaType] != ""
}

var (
	imageTypes   = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}
	audioFormats = map[string]string{"audio/wav": "wav", "audio/mpeg": "mp3"}
)

var (
	textOnly   = Capabilities{NativeTools: true, SystemRole: true}
	withImages = Capabilities{NativeTools: true, SystemRole: true, Modalities: Modalities{Images: true}}
	withAudio  = Capabilities{NativeTools: true, SystemRole: true, Modalities: Modalities{Audio: true}}
	withBoth   = Capabilities{NativeTools: true, SystemRole: true, Modalities: Modalities{Images: true, Audio: true}}
	noTools    = Capabilities{SystemRole: true}
)

// capabilities are those of the models whose names begin with a key; the longest key decides. They are from the vendors'
// own lists of models, as of autumn 2026. A model that is not listed is taken for textOnly, because an endpoint that gets
// unsupported media refuses the whole request.
//
// The gpt-6 family has tools only through the Responses API (go-openai refuses them here). o1-mini and o1-preview have
// neither tools nor a system role.
var capabilities = map[string]Capabilities{
	"claude-": withImages, "claude-2": textOnly, "claude-instant": textOnly,
	"deepseek-r1": noTools, "deepseek-reasoner": noTools,
	"gemini-": withBoth,
	"gemma":   {}, "gemma-3": {Modalities: Modalities{Images: true}}, "gemma3": {Modalities: Modalities{Images: true}},
	"gpt-3.5-turbo-instruct": noTools,
	"gpt-4-turbo":            withImages, "gpt-4-vision": withImages, "gpt-4.1": withImages,
	"gpt-4o": withImages, "gpt-4o-audio": withAudio, "gpt-4o-mini-audio": withAudio, "gpt-audio": withAudio,
	"gpt-5": withImages, "gpt-6": {SystemRole: true, Modalities: Modalities{Images: true}},
	"grok-2-vision": withImages, "grok-4": withImages,
	"llama-3.2-vision": withImages, "llama3.2-vision": withImages, "llama-4": withImages, "llama4": withImages,
	"llava": withImages, "minicpm-v": withImages,
	"mistral-medium": withImages, "mistral-small": withImages, "pixtral": withImages,
	"o1": withImages, "o1-mini": {}, "o1-preview": {}, "o3": withImages, "o3-mini": textOnly, "o4": withImages,
	"phi-4":   noTools,
	"qwen-vl": withImages, "qwen2-vl": withImages, "qwen2.5-vl": withImages, "qwen2.5vl": withImages, "qwen3-vl": withImages,
}

// CapabilitiesOf returns the capabilities of a model by its name. A vendor's prefix ("openai/gpt-4o") is ignored.
func CapabilitiesOf(model string) Capabilities {
	name := strings.ToLower(model)
	name = name[strings.LastIndexByte(name, '/')+1:]
	for end := len(name); end > 0; end-- {
		if c, ok := capabilities[name[:end]]; ok {
			return c
		}
	}
	return textOnly
}

// Takes reports whether the model gets media of this type. Callers need not load other media for a prompt: the
// message describes them and where they are kept, whether they are loaded or not.
func (c *Chat) Takes(model, mediaType string) bool { return c.modalities(model).accepts(mediaType) }

// modalities returns the modalities that the operator configures for the model, or else what is known of it.
func (c *Chat) modalities(model string) Modalities {
	switch {
	case c.quirksOf(model).noMedia:
		return Modalities{}
	case c.opts.Modalities != nil:
		return *c.opts.Modalities
	}
	return CapabilitiesOf(model).Modalities
}
