package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/everturn/everturn/workflows/turn"
)

// Next returns the head of a transcript after m is appended to one whose head is prev.
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
func Canonical(m turn.Message) []byte { return mustJSON(m) }

// mustJSON is encodeJSON for values that always have a JSON form: strings, numbers and valid raw JSON. It panics for
// others.
func mustJSON(v any) []byte {
	b, err := encodeJSON(v)
	if err != nil {
		panic("journal: encoding a type of its own: " + err.Error())
	}
	return b
}

// encodeJSON returns v as JSON without HTML escaping: json.Marshal would escape <, > and & in strings and so change raw
// JSON. It returns an error for raw JSON that is not valid, and for a time that encoding/json decodes but does not
// encode.
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
