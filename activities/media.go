package activities

import (
	"context"
	"slices"

	"github.com/everturn/everturn/workflows/turn"
)

// maxMediaBytes bounds the media sent with one prompt, in bytes before encoding. The latest media are kept.
const maxMediaBytes = 16 << 20

// withMedia returns the prompt with the media that its model accepts; if they exceed maxMediaBytes, the latest ones.
// Media that are not loaded, or that the journal no longer has, are described to the model in text.
func (a *Activities) withMedia(ctx context.Context, p turn.Prompt) turn.Prompt {
	messages, left := p.Messages, int64(maxMediaBytes)
	for i, m := range slices.Backward(p.Messages) {
		for j, media := range slices.Backward(m.Media) {
			if !a.model.Takes(p, media.Type) || media.Bytes > left {
				continue
			}
			left -= media.Bytes
			data, err := a.journal.GetBlob(ctx, media.Hash)
			if err != nil {
				logFailure(ctx, asTurnError(err))
				continue
			}
			if &messages[0] == &p.Messages[0] { // the cache shares the original slice
				messages = slices.Clone(messages)
			}
			if &messages[i].Media[0] == &m.Media[0] {
				messages[i].Media = slices.Clone(m.Media)
			}
			messages[i].Media[j].Data = data
		}
	}
	p.Messages = messages
	return p
}
