package completion

import (
	"context"
	"slices"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/workflows/turn"
)

// maxMediaBytes bounds the media sent with one prompt, in bytes before encoding. The latest media are kept.
const maxMediaBytes = 16 << 20

// withMedia returns the prompt with the data of the media that its model accepts: the latest ones, as far as they fit
// into maxMediaBytes. For media without data, the adapter sends a description in text. The messages of p are shared
// with the window cache, so withMedia changes only copies.
func (r *Runner) withMedia(ctx context.Context, p turn.Prompt) turn.Prompt {
	messages, bytesLeft := p.Messages, int64(maxMediaBytes)
	for i, m := range slices.Backward(p.Messages) {
		for j, media := range slices.Backward(m.Media) {
			if !r.model.Takes(p, media.Type) || media.Bytes > bytesLeft {
				continue
			}
			bytesLeft -= media.Bytes
			data, err := r.journal.GetBlob(ctx, media.Hash)
			if err != nil {
				attempt.LogFailure(ctx, attempt.AsTurnError(err))
				continue
			}
			if &messages[0] == &p.Messages[0] { // not cloned yet
				messages = slices.Clone(messages)
			}
			if &messages[i].Media[0] == &m.Media[0] { // not cloned yet
				messages[i].Media = slices.Clone(m.Media)
			}
			messages[i].Media[j].Data = data
		}
	}
	p.Messages = messages
	return p
}
