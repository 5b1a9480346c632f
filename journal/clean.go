package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/everturn/everturn/workflows/turn"
)

// cleanMessage returns m in the form in which it may be appended: see CleanText for its texts, and keptMedia for its
// media.
func cleanMessage(m turn.Message) turn.Message {
	m.ID, m.Text = CleanText(m.ID), CleanText(m.Text)
	calls := m.ToolCalls
	m.ToolCalls = nil
	for _, c := range calls {
		m.ToolCalls = append(m.ToolCalls, cleanCall(c))
	}
	m.Media = keptMedia(m.Media)
	return m
}

// cleanCall returns c with clean texts: see CleanText. It keeps only the fields that the journal stores.
func cleanCall(c turn.ToolCall) turn.ToolCall {
	return turn.ToolCall{
		ID: CleanText(c.ID), WireID: CleanText(c.WireID), Tool: CleanText(c.Tool), Arguments: CleanText(c.Arguments),
	}
}

// CleanText returns s with U+FFFD in place of bytes that are not UTF-8, which JSON cannot hold, and in place of NUL,
// which text in Postgres cannot hold. The transcript's hashes and exports are built on JSON.
func CleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// preview returns the beginning of s: at most limit bytes, cut between runes.
func preview(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// cleanCompletion returns c with clean texts: see CleanText. Raw stays unchanged, because it is stored as bytes.
// Items are left out if they are not valid JSON.
func cleanCompletion(c turn.Completion) turn.Completion {
	c.Text, c.Reasoning = CleanText(c.Text), CleanText(c.Reasoning)
	c.FinishReason, c.Model = CleanText(c.FinishReason), CleanText(c.Model)
	calls := c.ToolCalls
	c.ToolCalls = nil
	for _, call := range calls {
		c.ToolCalls = append(c.ToolCalls, cleanCall(call))
	}
	if _, err := json.Marshal(c.Items); err != nil {
		c.Items = nil
	}
	return c
}

// mediaTypeBytes bounds a media type.
const mediaTypeBytes = 100

// cleanResult returns r in the form in which journals settle a call with it: with clean texts and a valid code. Media
// get the hash and the size of their Data. Media that are empty or exceed MaxMedia or MaxMediaBytes are dropped, and
// a note in the text says so.
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
	if dropped := len(media) - len(r.Media); dropped > 0 {
		if r.Text != "" {
			r.Text += "\n"
		}
		r.Text += fmt.Sprintf("(%d of the result's %d images and sounds are not kept: %d are the most, of up to %d MiB "+
			"each, and none may be empty.)",
			dropped, len(media), MaxMedia, MaxMediaBytes>>20)
	}
	return r
}

// cleanCode returns the code with which journals record the outcome of a call: code, or "" if package turn does not
// declare it or the outcome is neither error nor denied.
func cleanCode(outcome turn.Outcome, code turn.Code) turn.Code {
	if outcome != turn.OutcomeError && outcome != turn.OutcomeDenied || !code.Known() {
		return ""
	}
	return code
}

func mediaType(s string) string { return preview(CleanText(s), mediaTypeBytes) }

// keptMedia returns media in the form in which the transcript and the ledger keep them: without Data, which is in
// blobs. It returns nil if there are none.
func keptMedia(media []turn.Media) (kept []turn.Media) {
	for _, m := range media {
		kept = append(kept, turn.Media{Hash: CleanText(m.Hash), Type: mediaType(m.Type), Bytes: m.Bytes})
	}
	return kept
}

// CleanRequest returns r in the form in which journals record it: with clean texts, and bounds for those that are shown
// to users. It drops fields that do not belong to the request's kind: MaxGrant and Beside, which only an approval may
// have, Question, which an approval may not have, Elicitation, which only an elicitation may have, and Call, which only
// an elicitation or a result may have. An
// unknown MaxGrant of an approval becomes GrantNever, the narrowest. CleanRequest is idempotent, because a request
// that is opened again is compared with the recorded one.
func CleanRequest(r turn.Request) turn.Request {
	r.MaxGrant, r.Beside = cleanMaxGrant(r), cleanBeside(r)
	r.Arguments, r.Tool, r.ArgumentsHash = CleanText(r.Arguments), CleanText(r.Tool), CleanText(r.ArgumentsHash)
	r.Why = preview(CleanText(r.Why), PreviewBytes)
	r.Question = preview(CleanText(r.Question), SummaryBytes)
	if r.Kind == turn.RequestApproval {
		r.Question = ""
	}
	r.Call = CleanText(r.Call)
	if r.Kind != turn.RequestElicitation || r.Elicitation == nil {
		r.Elicitation = nil
		if r.Kind != turn.RequestResult {
			r.Call = ""
		}
		return r
	}
	r.Elicitation = &turn.Elicitation{
		Key: CleanText(r.Elicitation.Key), Message: preview(CleanText(r.Elicitation.Message), SummaryBytes),
		Schema: compact(r.Elicitation.Schema), URL: CleanText(r.Elicitation.URL),
	}
	return r
}

// cleanMaxGrant returns the widest grant that the request permits, as journals record it: GrantTool as the empty scope,
// which means the same.
func cleanMaxGrant(r turn.Request) turn.GrantScope {
	switch {
	case r.Kind != turn.RequestApproval, r.MaxGrant == turn.GrantTool:
		return ""
	case r.MaxGrant == "", r.MaxGrant == turn.GrantCall, r.MaxGrant == turn.GrantHost,
		r.MaxGrant == turn.GrantCommand:
		return r.MaxGrant
	}
	return turn.GrantNever
}

// cleanBeside returns the calls beside an approval as journals record them.
func cleanBeside(r turn.Request) *turn.Beside {
	if r.Kind != turn.RequestApproval || r.Beside == nil || len(r.Beside.Calls) == 0 {
		return nil
	}
	beside := turn.Beside{Count: max(r.Beside.Count, len(r.Beside.Calls))}
	for _, c := range r.Beside.Calls[:min(len(r.Beside.Calls), turn.MaxBeside)] {
		beside.Calls = append(beside.Calls, turn.ToolCall{ID: CleanText(c.ID), Tool: CleanText(c.Tool),
			Arguments: preview(CleanText(c.Arguments), turn.BesideArguments)})
	}
	return &beside
}

// compact returns raw with clean text and, if it is valid JSON, without insignificant spaces. It returns nil for empty
// raw.
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

// checkID returns an error if an ID is empty, longer than MaxIDBytes, or not text that every database can store. kind
// names the ID in the error, such as "session".
func checkID(kind, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%s ID is empty", kind)
	case len(id) > MaxIDBytes:
		return fmt.Errorf("%s ID is %d bytes; the maximum is %d", kind, len(id), MaxIDBytes)
	case CleanText(id) != id:
		return fmt.Errorf("%s ID %q is not valid UTF-8 without NUL", kind, id)
	}
	return nil
}

// checkTenant is checkID for a tenant. It also accepts the empty ID of the default tenant.
func checkTenant(tenant string) error {
	if tenant == "" {
		return nil
	}
	return checkID("tenant", tenant)
}

// checkRequest returns an error if the journal cannot record a request: its kind is unknown, its kind is result and it
// has no call, or its kind is elicitation and it has no call or no valid elicitation of at most MaxElicitationBytes.
func checkRequest(r turn.Request) error {
	switch r.Kind {
	case turn.RequestApproval, turn.RequestQuestion:
		return nil
	case turn.RequestResult:
		if r.Call == "" {
			return errors.New("a request of kind result needs a call")
		}
		return nil
	case turn.RequestElicitation:
	default:
		return fmt.Errorf("unknown kind of request %q", r.Kind)
	}
	if r.Elicitation == nil || r.Call == "" {
		return errors.New("a request of kind elicitation needs an elicitation and a call")
	}
	q := r.Elicitation
	if len(q.Schema) > 0 && !json.Valid(q.Schema) {
		return errors.New("the elicitation's schema is not JSON")
	}
	if n := len(q.Key) + len(q.Message) + len(q.Schema) + len(q.URL); n > MaxElicitationBytes {
		return fmt.Errorf("the elicitation is %d bytes; the maximum is %d", n, MaxElicitationBytes)
	}
	return nil
}

// checkDecision returns the decision r in the form in which journals record it, with clean and bounded texts, or an
// error if it does not settle req: see turn.Request.Settle. The error wraps ErrUnapproved if r allows a call with
// other arguments than req has.
func checkDecision(req turn.Request, r turn.Decision) (turn.Decision, error) {
	r.By, r.Reason = preview(CleanText(r.By), PreviewBytes), preview(CleanText(r.Reason), SummaryBytes)
	r.ArgumentsHash, r.Messages = CleanText(r.ArgumentsHash), nil
	if r.Response != nil {
		response := *r.Response // a copy: the caller's response does not change
		response.Key = CleanText(response.Key)
		r.Response = &response
	}
	r, refused := req.Settle(r)
	switch {
	case refused != nil && r.Allowed && r.ArgumentsHash != req.ArgumentsHash:
		return r, fmt.Errorf("%w: %w", ErrUnapproved, refused)
	case refused != nil:
		return r, refused
	case r.Response != nil:
		r.Response.Content = compact(r.Response.Content)
	}
	return r, nil
}
