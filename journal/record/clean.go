package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"slices"

	"github.com/everturn/everturn/workflows/turn"
)

// CleanMessage returns m in the form in which it may be appended: bytes that are not UTF-8 become U+FFFD, because
// neither JSON nor the hash and the export, which are built on it, can hold them.
func CleanMessage(m turn.Message) turn.Message {
	m.ID, m.Text = CleanText(m.ID), CleanText(m.Text)
	calls := m.ToolCalls
	m.ToolCalls = nil
	for _, c := range calls {
		m.ToolCalls = append(m.ToolCalls, CleanCall(c))
	}
	m.Media = KeptMedia(m.Media)
	return m
}

// CleanCall is clean for a call.
func CleanCall(c turn.ToolCall) turn.ToolCall {
	return turn.ToolCall{
		ID: CleanText(c.ID), WireID: CleanText(c.WireID), Tool: CleanText(c.Tool), Arguments: CleanText(c.Arguments),
	}
}

// CleanText is clean for one string. NUL also becomes U+FFFD, because text in Postgres cannot hold it.
func CleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Preview returns at most limit bytes from the beginning of s, cut between runes.
func Preview(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// CleanCompletion is clean for a completion. Raw is bytes and stays unchanged. Items that are not JSON are left out.
func CleanCompletion(done turn.Completion) turn.Completion {
	done.Text, done.Reasoning = CleanText(done.Text), CleanText(done.Reasoning)
	done.FinishReason, done.Model = CleanText(done.FinishReason), CleanText(done.Model)
	calls := done.ToolCalls
	done.ToolCalls = nil
	for _, c := range calls {
		done.ToolCalls = append(done.ToolCalls, CleanCall(c))
	}
	if _, err := json.Marshal(done.Items); err != nil {
		done.Items = nil
	}
	return done
}

// mediaTypeBytes bounds a media type.
const mediaTypeBytes = 100

// CleanResult returns r as journals settle a call with it: see clean. Media get the hash and the size of their Data.
// Media beyond the bounds, and empty ones, are dropped, and the text says so.
func CleanResult(r turn.ToolResult) turn.ToolResult {
	r.Text, r.MediaType, r.Code = CleanText(r.Text), mediaType(r.MediaType), CleanCode(r.Outcome, r.Code)
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

// CleanCode returns the code of a call's end as journals keep it: a code that turn declares, and only for a call that did
// not run or got no answer.
func CleanCode(outcome turn.Outcome, code turn.Code) turn.Code {
	if outcome != turn.OutcomeError && outcome != turn.OutcomeDenied || !code.Known() {
		return ""
	}
	return code
}

func mediaType(s string) string { return Preview(CleanText(s), mediaTypeBytes) }

// KeptMedia returns media as the transcript and the ledger keep them: without Data, and nil if there are none.
func KeptMedia(media []turn.Media) (kept []turn.Media) {
	for _, m := range media {
		kept = append(kept, turn.Media{Hash: CleanText(m.Hash), Type: mediaType(m.Type), Bytes: m.Bytes})
	}
	return kept
}

// CleanRequest returns w as journals keep it: see clean. Texts that are shown to users are bounded. Only a request of
// kind elicitation keeps an elicitation.
func CleanRequest(r turn.Request) turn.Request {
	if r.Kind != turn.RequestApproval || !slices.Contains(
		[]turn.GrantScope{turn.GrantCall, turn.GrantHost, turn.GrantNever}, r.MaxGrant) {
		r.MaxGrant = ""
	}
	r.Arguments, r.Tool, r.ArgumentsHash = CleanText(r.Arguments), CleanText(r.Tool), CleanText(r.ArgumentsHash)
	r.Why = Preview(CleanText(r.Why), PreviewBytes)
	r.Question = Preview(CleanText(r.Question), SummaryBytes)
	if r.Kind != turn.RequestElicitation || r.Elicitation == nil {
		r.Elicitation, r.Call = nil, ""
		return r
	}
	r.Call = CleanText(r.Call)
	r.Elicitation = &turn.Elicitation{
		Key: CleanText(r.Elicitation.Key), Message: Preview(CleanText(r.Elicitation.Message), SummaryBytes),
		Schema: compact(r.Elicitation.Schema), URL: CleanText(r.Elicitation.URL),
	}
	return r
}

// compact returns JSON without insignificant spaces, and raw unchanged if it is not JSON. Empty JSON becomes nil.
func compact(raw json.RawMessage) json.RawMessage {
	text := CleanText(string(raw))
	if text == "" {
		return nil
	}
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return json.RawMessage(text)
	}
	return b.Bytes()
}
