package journal

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
)

// inlineBytes is the size up to which content is kept in the row itself.
const inlineBytes = 1 << 10

// checkBytes is the size above which PutBlob first checks whether the blob exists, because encoding and sending the
// content costs more than the query.
const checkBytes = 16 << 10

// stored is a pair of columns x, x_blob: content inline, or the hash of the blob that holds it. Both are null if
// there is no content.
type stored struct {
	Inline content
	Blob   sql.NullString
}

// Put returns the columns for a text. It stores a text of more than 1 KiB as a blob.
func (t *tx) Put(text, mediaType string) (stored, error) {
	if len(text) <= inlineBytes {
		return stored{Inline: contentOf(text)}, nil
	}
	hash, err := t.PutBlob(mediaType, []byte(text))
	return stored{Blob: sql.NullString{String: hash, Valid: true}}, err
}

// getText returns the text of a pair of columns; empty if both are null.
func (q querier) getText(s stored) (string, error) {
	if !s.Blob.Valid {
		return s.Inline.String, nil
	}
	b, err := q.GetBlob(s.Blob.String)
	return string(b), err
}

// PutBlob stores b as a blob, unless the journal has it, and returns its hash. Long JSON is compressed, and an
// encrypted journal seals the blob; the hash is always that of b. The media type of the first PutBlob stays.
func (t *tx) PutBlob(mediaType string, b []byte) (hash string, err error) {
	if len(b) > MaxBlobBytes {
		return "", fmt.Errorf("the content is %d bytes; the maximum is %d", len(b), MaxBlobBytes)
	}
	hash = HashOf(b)
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
func (q querier) GetBlob(hash string) (b []byte, err error) {
	room := unbounded
	return q.GetBlobWithin(hash, &room)
}

// unbounded is a bound that no content exceeds.
const unbounded = int64(math.MaxInt64)

// GetBlobWithin returns a blob of at most *room bytes, and subtracts its size from *room, so that several calls share
// one bound. It returns a *TooLargeError for a larger blob, without loading it; then *room is negative.
func (q querier) GetBlobWithin(hash string, room *int64) (b []byte, err error) {
	var encoding string
	var size int64
	err = q.Row(`SELECT encoding, size, CASE WHEN size <= ? THEN bytes END FROM blobs WHERE hash = ?`, *room,
		hash).Scan(&encoding, &size, &b)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("blob %s: %w", hash, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	most := *room
	if *room -= size; *room < 0 {
		return nil, &TooLargeError{Max: most}
	}
	if b, err = q.sealer.open(b); err != nil {
		return nil, fmt.Errorf("blob %s: %w", hash, err)
	}
	return decode(encoding, b)
}

// gzipped is the encoding of a compressed blob.
const gzipped = "gzip"

// compressBytes is the size from which JSON is compressed. Raw completions shrink to a tenth or less: they are lists of
// streamed events that differ by a word.
const compressBytes = 4 << 10

// encode returns the bytes to store for b, and their encoding: "" or gzipped.
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

// compressors holds gzip writers for reuse: a writer takes almost a megabyte, and longer to set up than to run.
var compressors = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

// compress returns b compressed with gzip.
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

// decode reverses encode: it returns the content of a blob from the bytes that are stored for it.
func decode(encoding string, kept []byte) ([]byte, error) {
	switch encoding {
	case "":
		return kept, nil
	case gzipped:
		r, err := gzip.NewReader(bytes.NewReader(kept))
		if err != nil {
			return nil, fmt.Errorf("reading a compressed blob: %w", err)
		}
		b, err := io.ReadAll(io.LimitReader(r, MaxBlobBytes+1)) // a damaged blob may expand to any size
		if err != nil {
			return nil, fmt.Errorf("reading a compressed blob: %w", err)
		}
		return b, nil
	}
	return nil, fmt.Errorf("unknown blob encoding %q", encoding)
}

// PutJSON is Put for JSON. Both columns are null if raw is empty.
func (t *tx) PutJSON(raw json.RawMessage) (stored, error) {
	if len(raw) == 0 {
		return stored{}, nil
	}
	return t.Put(string(raw), "application/json")
}

// GetJSON reverses PutJSON: it returns nil if both columns are null.
func (q querier) GetJSON(s stored) (json.RawMessage, error) {
	text, err := q.getText(s)
	if text == "" {
		return nil, err
	}
	return json.RawMessage(text), err
}
