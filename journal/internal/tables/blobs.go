package tables

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/everturn/everturn/journal/record"
)

// inlineBytes is the size up to which content is kept in the row itself.
const inlineBytes = 1 << 10

// checkBytes is the size above which PutBlob checks whether a blob exists before it encodes and sends its content.
const checkBytes = 16 << 10

// Stored is a pair of columns x, x_blob: content inline, or the hash of the blob that holds it. Both are null if
// there is no content.
type Stored struct {
	Inline Content
	Blob   sql.NullString
}

// Put stores text inline or as a blob, by its size.
func (t *Tx) Put(text, mediaType string) (Stored, error) {
	if len(text) <= inlineBytes {
		return Stored{Inline: ContentOf(text)}, nil
	}
	hash, err := t.PutBlob(mediaType, []byte(text))
	return Stored{Blob: sql.NullString{String: hash, Valid: true}}, err
}

// get loads what put has stored.
func (q Querier) get(s Stored) (string, error) {
	if !s.Blob.Valid {
		return s.Inline.String, nil
	}
	b, err := q.GetBlob(s.Blob.String)
	return string(b), err
}

// PutBlob stores a blob once and returns its hash.
func (t *Tx) PutBlob(mediaType string, b []byte) (hash string, err error) {
	if len(b) > record.MaxBlobBytes {
		return "", fmt.Errorf("the content is %d bytes; the maximum is %d", len(b), record.MaxBlobBytes)
	}
	hash = record.HashOf(b)
	if len(b) > checkBytes {
		if err := t.Row(`SELECT 1 FROM blobs WHERE hash = ?`, hash).Scan(new(int)); !errors.Is(err, sql.ErrNoRows) {
			return hash, err
		}
	}
	encoding, bytes := encode(mediaType, b)
	if bytes, err = t.sealer.seal(bytes); err != nil {
		return "", err
	}
	return hash, t.Exec(`INSERT INTO blobs (hash, media_type, size, encoding, bytes) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`,
		hash, mediaType, len(b), encoding, bytes)
}

// GetBlob returns a blob, or an error that wraps ErrNotFound.
func (q Querier) GetBlob(hash string) (b []byte, err error) {
	room := Unbounded
	return q.GetBlobWithin(hash, &room)
}

// Unbounded is a bound that no content exceeds.
const Unbounded = int64(math.MaxInt64)

// GetBlobWithin subtracts the blob's size from room. It does not load a blob that exceeds room: *TooLargeError.
func (q Querier) GetBlobWithin(hash string, room *int64) (b []byte, err error) {
	var encoding string
	var size int64
	err = q.Row(`SELECT encoding, size, CASE WHEN size <= ? THEN bytes END FROM blobs WHERE hash = ?`, *room,
		hash).Scan(&encoding, &size, &b)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("blob %s: %w", hash, record.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	most := *room
	if *room -= size; *room < 0 {
		return nil, &record.TooLargeError{Max: most}
	}
	if b, err = q.sealer.open(b); err != nil {
		return nil, fmt.Errorf("blob %s: %w", hash, err)
	}
	return decode(encoding, b)
}

// gzipped marks a blob that is kept compressed.
const gzipped = "gzip"

// compressBytes is the size from which JSON is compressed: raw completions are streams of events that differ by a word,
// and shrink to a tenth or less.
const compressBytes = 4 << 10

// encode returns b as it is stored, and its encoding. Its hash and size stay those of b.
func encode(mediaType string, b []byte) (encoding string, kept []byte) {
	if b == nil {
		b = []byte{} // nil would be NULL
	}
	if mediaType != "application/json" || len(b) < compressBytes {
		return "", b
	}
	kept = compress(b)
	if len(kept) >= len(b) {
		return "", b
	}
	return gzipped, kept
}

// compressors are reused: one takes almost a megabyte, and takes longer to set up than to run.
var compressors = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

func compress(b []byte) []byte {
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	var out bytes.Buffer
	w.Reset(&out)
	_, _ = w.Write(b) // a Buffer never fails
	_ = w.Close()
	w.Reset(io.Discard) // release out
	return out.Bytes()
}

// decode reverses encode.
func decode(encoding string, kept []byte) ([]byte, error) {
	switch encoding {
	case "":
		return kept, nil
	case gzipped:
		r, err := gzip.NewReader(bytes.NewReader(kept))
		if err != nil {
			return nil, fmt.Errorf("reading a compressed blob: %w", err)
		}
		b, err := io.ReadAll(io.LimitReader(r, record.MaxBlobBytes+1))
		if err != nil {
			return nil, fmt.Errorf("reading a compressed blob: %w", err)
		}
		return b, nil
	}
	return nil, fmt.Errorf("unknown blob encoding %q", encoding)
}

// PutJSON is Put for JSON. Empty JSON is null.
func (t *Tx) PutJSON(raw json.RawMessage) (Stored, error) {
	if len(raw) == 0 {
		return Stored{}, nil
	}
	return t.Put(string(raw), "application/json")
}

// GetJSON loads what PutJSON has stored.
func (q Querier) GetJSON(s Stored) (json.RawMessage, error) {
	text, err := q.get(s)
	if text == "" {
		return nil, err
	}
	return json.RawMessage(text), err
}
