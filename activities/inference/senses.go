package inference

import "strings"

// Modalities are the kinds of media that a model accepts besides text.
type Modalities struct{ Images, Audio bool }

// takes reports whether media of this type may be sent. The types are those of OpenAI's Chat Completions: PNG, JPEG,
// GIF (its first frame) and WebP as image_url, WAV and MP3 as input_audio.
func (s Modalities) takes(mediaType string) bool {
	if _, ok := imageTypes[mediaType]; ok {
		return s.Images
	}
	_, ok := audioFormats[mediaType]
	return ok && s.Audio
}

var (
	imageTypes   = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}
	audioFormats = map[string]string{"audio/wav": "wav", "audio/mpeg": "mp3"}
)

// sensed holds the modalities of the models whose names begin with a prefix.
type sensed struct {
	prefix string
	Modalities
}

var (
	sees  = Modalities{Images: true}
	hears = Modalities{Audio: true}
	both  = Modalities{Images: true, Audio: true}
	blind = Modalities{}
)

// knownSenses is searched in order: the first matching prefix wins. The modalities are from the vendors' own lists of
// models, as of autumn 2026. A model that is not listed is assumed to accept text only, because an endpoint that gets
// unsupported media refuses the whole request.
var knownSenses = []sensed{
	{"o1-mini", blind}, {"o1-preview", blind}, {"o1", sees},
	{"o3-mini", blind}, {"o3", sees}, {"o4", sees},
	{"gpt-4o-audio", hears}, {"gpt-4o-mini-audio", hears}, {"gpt-audio", hears},
	{"gpt-4o", sees}, {"gpt-4.1", sees}, {"gpt-4-turbo", sees}, {"gpt-4-vision", sees}, {"gpt-5", sees}, {"gpt-6", sees},
	{"claude-2", blind}, {"claude-instant", blind}, {"claude-", sees},
	{"gemini-", both}, {"gemma-3", sees}, {"gemma3", sees},
	{"grok-2-vision", sees}, {"grok-4", sees},
	{"pixtral", sees}, {"mistral-medium", sees}, {"mistral-small", sees},
	{"llava", sees}, {"llama-4", sees}, {"llama4", sees}, {"llama-3.2-vision", sees}, {"llama3.2-vision", sees},
	{"qwen-vl", sees}, {"qwen2-vl", sees}, {"qwen2.5-vl", sees}, {"qwen2.5vl", sees}, {"qwen3-vl", sees}, {"minicpm-v", sees},
}

// ModalitiesOf returns what a model accepts besides text, by its name. A vendor's prefix ("openai/gpt-4o") is ignored.
func ModalitiesOf(model string) Modalities {
	name := strings.ToLower(model)
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	for _, s := range knownSenses {
		if strings.HasPrefix(name, s.prefix) {
			return s.Modalities
		}
	}
	return blind
}

// Takes reports whether the model gets media of this type. Callers need not load other media for a prompt: the message
// describes them and where they are kept, whether they are loaded or not.
func (c *Chat) Takes(model, mediaType string) bool { return c.senses(model).takes(mediaType) }

// senses returns the modalities that the operator configures for the model, or else what is known of it.
func (c *Chat) senses(model string) Modalities {
	switch {
	case c.quirksOf(model).noMedia:
		return blind
	case c.opts.Senses != nil:
		return *c.opts.Senses
	}
	return ModalitiesOf(model)
}
