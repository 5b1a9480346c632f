package inference

import (
	"encoding/base64"
	"slices"

	"github.com/everturn/everturn/internal/models"
	"github.com/everturn/everturn/workflows/turn"
)

// Modalities are the kinds of media that a model accepts besides text.
type Modalities struct{ Images, Audio bool }

// Accepts reports whether media of this type may be sent to the model. Image types are those that OpenAI and Anthropic
// accept; of a GIF they read only the first frame. Audio types are those of OpenAI's Chat Completions. A PDF counts as
// images, because both providers read its pages as images.
func (m Modalities) Accepts(mediaType string) bool {
	return m.Images && (imageTypes[mediaType] || mediaType == PDF) || m.Audio && AudioFormat(mediaType) != ""
}

// PDF is the media type of documents that models accept. PDFName is the file name of a document in a request.
const (
	PDF     = "application/pdf"
	PDFName = "document.pdf"
)

// DataURL returns a data URL (RFC 2397) that contains the media.
func DataURL(m turn.Media) string {
	return "data:" + m.Type + ";base64," + base64.StdEncoding.EncodeToString(m.Data)
}

var imageTypes = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// AudioFormat returns the short name of a media type's audio format, or "" if it is not audio that models accept.
func AudioFormat(mediaType string) string {
	return map[string]string{"audio/wav": "wav", "audio/mpeg": "mp3"}[mediaType]
}

// Takes reports whether the prompt's model receives media of this type. The caller need not load other media for the
// prompt, because the rendered message only describes them.
func (e *Endpoint) Takes(p turn.Prompt, mediaType string) bool {
	return e.modalities(p.Model).Accepts(mediaType)
}

// modalities returns the modalities that Options.Capabilities gives for this model.
func (e *Endpoint) modalities(model string) Modalities {
	known := e.opts.Capabilities(model)
	return Modalities{Images: slices.Contains(known, models.Vision), Audio: slices.Contains(known, models.Audio)}
}
