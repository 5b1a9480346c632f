package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/everturn/everturn/workflows/turn"
)

// Next returns the head of a transcript after m is appended at prev.
//
// The hash is SHA-256, in lower-case hex, over three things: the previous hash (empty at the start), a line feed, and
// Canonical(m). It covers everything that a reader of the transcript sees and, through the previous hash, all messages
// before, so that (seq, hash) names a transcript exactly. It does not cover the session's name: sessions that share a
// beginning share its hashes.
func Next(prev turn.Head, m turn.Message) turn.Head {
	h := sha256.New()
	h.Write([]byte(prev.Hash + "\n"))
	h.Write(Canonical(m))
	return turn.Head{Seq: prev.Seq + 1, Hash: hex.EncodeToString(h.Sum(nil))}
}

// Canonical returns the one JSON form of a message: the fields of turn.Message in the order of their declaration,
// without the empty ones, as encoding/json writes them without HTML escaping. To keep the hashes of old messages, new
// fields of turn.Message must have omitempty, and the order of the existing fields must not change.
func Canonical(m turn.Message) []byte { return canonical(m) }

// canonical is encodeJSON for values that always have a JSON form: strings, numbers and checked raw JSON.
func canonical(v any) []byte {
	b, err := encodeJSON(v)
	if err != nil {
		panic("journal: encoding a type of its own: " + err.Error())
	}
	return b
}

// encodeJSON returns v as JSON without HTML escaping: json.Marshal would escape <, > and & in strings and so change raw
// JSON. It returns an error for raw JSON that is not valid, and for a time that JSON can hold and Go does not write.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// HashOf returns a blob's name: its SHA-256 in lower-case hex.
func HashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// clean returns m in the form in which it may be appended: bytes that are not UTF-8 become U+FFFD, because neither JSON
// nor the hash and the export, which are built on it, can hold them.
func clean(m turn.Message) turn.Message {
	m.ID, m.Text = CleanText(m.ID), CleanText(m.Text)
	calls := m.ToolCalls
	m.ToolCalls = nil
	for _, c := range calls {
		m.ToolCalls = append(m.ToolCalls, cleanCall(c))
	}
	m.Media = keptMedia(m.Media)
	return m
}

// cleanCall is clean for a call.
func cleanCall(c turn.ToolCall) turn.ToolCall {
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

// storedCall is a tool call as the journal keeps it: arguments above a store's inline limit are replaced by their
// blob's hash.
type storedCall struct {
	turn.ToolCall
	ArgumentsBlob string `json:"arguments_blob,omitempty"`
}

// restoreCalls returns the calls with their arguments.
func restoreCalls(list []storedCall, blob func(hash string) ([]byte, error)) ([]turn.ToolCall, error) {
	var calls []turn.ToolCall
	for _, c := range list {
		if c.ArgumentsBlob != "" {
			b, err := blob(c.ArgumentsBlob)
			if err != nil {
				return nil, fmt.Errorf("arguments of call %s: %w", c.ID, err)
			}
			c.Arguments = string(b)
		}
		calls = append(calls, c.ToolCall)
	}
	return calls, nil
}

// storedCompletion is a completion as the journal keeps it: without Raw, which is a blob, and without the text if
// the transcript's message has the same text.
type storedCompletion struct {
	turn.Completion
	SameText bool `json:"same_text,omitempty"`
}

// storeCompletion encodes a completion for storage beside the message that was appended for it. The caller stores Raw.
func storeCompletion(a turn.Completion, messageText string) json.RawMessage {
	a.Raw = nil
	s := storedCompletion{Completion: a, SameText: a.Text == messageText}
	if s.SameText {
		s.Text = ""
	}
	return canonical(s)
}

// restoreCompletion decodes the result of storeCompletion.
func restoreCompletion(b []byte, messageText string) (turn.Completion, error) {
	var s storedCompletion
	if err := json.Unmarshal(b, &s); err != nil {
		return turn.Completion{}, fmt.Errorf("reading a stored answer: %w", err)
	}
	if s.SameText {
		s.Text = messageText
	}
	return s.Completion, nil
}

// cleanCompletion is clean for a completion. Raw is bytes and stays unchanged.
func cleanCompletion(a turn.Completion) turn.Completion {
	a.Text, a.Reasoning = CleanText(a.Text), CleanText(a.Reasoning)
	a.FinishReason, a.Model = CleanText(a.FinishReason), CleanText(a.Model)
	calls := a.ToolCalls
	a.ToolCalls = nil
	for _, c := range calls {
		a.ToolCalls = append(a.ToolCalls, cleanCall(c))
	}
	return a
}
