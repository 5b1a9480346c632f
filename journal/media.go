package journal

import (
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

// mediaTypeBytes bounds a media type.
const mediaTypeBytes = 100

// cleanResult returns r as stores settle a call with it: see clean. Media get the hash and the size of their Data.
// Media beyond the bounds, and empty ones, are dropped, and the text says so.
func cleanResult(r turn.ToolResult) turn.ToolResult {
	r.Text, r.MediaType, r.Code = CleanText(r.Text), mediaType(r.MediaType), cleanCode(r.Outcome, r.Code)
	media := r.Media
	r.Media = nil
	for _, m := range media {
		if size := len(m.Data); size == 0 || size > MaxMediaBytes || len(r.Media) == MaxMedia {
			continue
		}
		r.Media = append(r.Media, turn.Media{Hash: HashOf(m.Data), Type: mediaType(m.Type), Bytes: int64(len(m.Data)),
			Data: m.Data})
	}
	if lost := len(media) - len(r.Media); lost > 0 {
		if r.Text != "" {
			r.Text += "\n"
		}
		r.Text += fmt.Sprintf("(%d of the result's %d images and sounds are not kept: %d are the most, of up to %d MiB "+
			"each, and none may be empty.)",
			lost, len(media), MaxMedia, MaxMediaBytes>>20)
	}
	return r
}

// cleanCode returns the code of a call's end as stores keep it: a code that turn declares, and only for a call that did
// not run or got no answer.
func cleanCode(outcome turn.Outcome, code turn.Code) turn.Code {
	if outcome != turn.OutcomeError && outcome != turn.OutcomeDenied || !code.Known() {
		return ""
	}
	return code
}

func mediaType(s string) string { return Preview(CleanText(s), mediaTypeBytes) }

// keptMedia returns media as the transcript and the ledger keep them: without Data, and nil if there are none.
func keptMedia(media []turn.Media) (kept []turn.Media) {
	for _, m := range media {
		kept = append(kept, turn.Media{Hash: CleanText(m.Hash), Type: mediaType(m.Type), Bytes: m.Bytes})
	}
	return kept
}
