package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/everturn/everturn/workflows/turn"
)

// Next returns the head of a transcript after m is appended at prev.
//
// The hash is SHA-256, in lower-case hex, over three things: the previous hash (empty at the start), a line feed, and
// Canonical(m). It covers everything that a reader of the transcript sees, and through the previous hash all that came
// before, so that (seq, hash) names a transcript exactly. The session's name is not in it: sessions that share a
// beginning share its hashes.
func Next(prev turn.Head, m turn.Message) turn.Head {
	h := sha256.New()
	h.Write([]byte(prev.Hash + "\n"))
	h.Write(Canonical(m))
	return turn.Head{Seq: prev.Seq + 1, Hash: hex.EncodeToString(h.Sum(nil))}
}

// Canonical is the one JSON form of a message: the fields of turn.Message in the order of their declaration, empty
// ones left out, as encoding/json writes them without HTML escaping. Fields may be added to turn.Message only with
// omitempty, and what is there keeps its order: then old messages keep their hashes.
func Canonical(m turn.Message) []byte { return canonical(m) }

func canonical(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("journal: encoding a type of its own: " + err.Error()) // only strings, numbers and checked raw JSON get here
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// HashOf is a blob's name: its SHA-256 in lower-case hex.
func HashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// clean returns m as it may be appended: bytes that are no UTF-8 become U+FFFD, because JSON, and with it the hash
// and the export, cannot hold them.
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

// CleanText is clean for one string. NUL becomes U+FFFD, too, because text in Postgres cannot hold it.
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
