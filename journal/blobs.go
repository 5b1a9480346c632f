package journal

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"
)

// inlineBytes is the size up to which content is kept in the row itself.
const inlineBytes = 1 << 10

// checkBytes is the size above which putBlob checks whether a blob exists before it encodes and sends its content.
const checkBytes = 16 << 10

// stored is a pair of columns x, x_blob: content inline, or the hash of the blob that holds it. Both are null if
// there is no content.
type stored struct {
	inline content
	blob   sql.NullString
}

// put stores text inline or as a blob, by its size.
func (t *tx) put(text, mediaType string) (stored, error) {
	if len(text) <= inlineBytes {
		return stored{inline: contentOf(text)}, nil
	}
	hash, err := t.putBlob(mediaType, []byte(text))
	return stored{blob: sql.NullString{String: hash, Valid: true}}, err
}

// get loads what put has stored.
func (q querier) get(s stored) (string, error) {
	if !s.blob.Valid {
		return s.inline.String, nil
	}
	b, err := q.getBlob(s.blob.String)
	return string(b), err
}

func (t *tx) putBlob(mediaType string, b []byte) (hash string, err error) {
	if len(b) > MaxBlobBytes {
		return "", fmt.Errorf("the content is %d bytes; the maximum is %d", len(b), MaxBlobBytes)
	}
	hash = HashOf(b)
	if len(b) > checkBytes {
		if err := t.row(`SELECT 1 FROM blobs WHERE hash = ?`, hash).Scan(new(int)); !errors.Is(err, sql.ErrNoRows) {
			return hash, err
		}
	}
	encoding, bytes := encode(mediaType, b)
	if bytes, err = t.sealer.seal(bytes); err != nil {
		return "", err
	}
	return hash, t.exec(`INSERT INTO blobs (hash, media_type, size, encoding, bytes) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`,
		hash, mediaType, len(b), encoding, bytes)
}

func (q querier) getBlob(hash string) (b []byte, err error) {
	room := unbounded
	return q.getBlobWithin(hash, &room)
}

// unbounded is a bound that no content exceeds.
const unbounded = int64(math.MaxInt64)

// getBlobWithin subtracts the blob's size from room. It does not load a blob that exceeds room: *TooLargeError.
func (q querier) getBlobWithin(hash string, room *int64) (b []byte, err error) {
	var encoding string
	var size int64
	err = q.row(`SELECT encoding, size, CASE WHEN size <= ? THEN bytes END FROM blobs WHERE hash = ?`, *room,
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

// PutBlob stores bytes under their SHA-256 (hex) and returns it.
func (s *DB) PutBlob(ctx context.Context, mediaType string, b []byte) (hash string, err error) {
	err = s.write(ctx, "storing a blob", func(t *tx) (err error) {
		hash, err = t.putBlob(CleanText(mediaType), b)
		return err
	})
	return hash, err
}

// GetBlob returns ErrNotFound if the journal has no such blob.
func (s *DB) GetBlob(ctx context.Context, hash string) ([]byte, error) {
	return get(ctx, s, "reading a blob", func(q querier) ([]byte, error) { return q.getBlob(hash) })
}

// nanos and instant convert times: nanoseconds since 1970, 0 for the zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func instant(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
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
		b, err := io.ReadAll(io.LimitReader(r, MaxBlobBytes+1))
		if err != nil {
			return nil, fmt.Errorf("reading a compressed blob: %w", err)
		}
		return b, nil
	}
	return nil, fmt.Errorf("unknown blob encoding %q", encoding)
}
