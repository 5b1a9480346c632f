package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"
)

// inlineBytes is the size up to which content is kept in the row itself.
const inlineBytes = 1 << 10

// checkBytes is the size above which putBlob checks whether a blob exists before it encodes and sends its content.
const checkBytes = 16 << 10

// stored is a pair of columns x, x_blob: content inline, or the hash of the blob that holds it. Both are null if
// there is no content.
type stored struct {
	inline sql.NullString
	blob   sql.NullString
}

// put stores text inline or as a blob, by its size.
func (t *tx) put(text, mediaType string) (stored, error) {
	if len(text) <= inlineBytes {
		return stored{inline: sql.NullString{String: text, Valid: true}}, nil
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
func (s *DB) GetBlob(ctx context.Context, hash string) (b []byte, err error) {
	err = s.read(ctx, "reading a blob", func(q querier) (err error) {
		b, err = q.getBlob(hash)
		return err
	})
	return b, err
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
