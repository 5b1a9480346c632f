package sqlite

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/everturn/everturn/journal"
)

// gzipped marks a blob that is kept compressed.
const gzipped = "gzip"

// compressBytes is from which size on JSON is compressed: raw answers are streams of events that differ by a word, and
// shrink to a tenth and less.
const compressBytes = 4 << 10

// encode says how b is kept. Its hash and size stay those of b.
func encode(mediaType string, b []byte) (encoding string, kept []byte) {
	if b == nil {
		b = []byte{} // nil would be NULL
	}
	if mediaType != "application/json" || len(b) < compressBytes {
		return "", b
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err == nil {
		_, err = w.Write(b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil || out.Len() >= len(b) {
		return "", b
	}
	return gzipped, out.Bytes()
}

// decode undoes encode.
func decode(encoding string, kept []byte) ([]byte, error) {
	switch encoding {
	case "":
		return kept, nil
	case gzipped:
		r, err := gzip.NewReader(bytes.NewReader(kept))
		if err != nil {
			return nil, fmt.Errorf("reading a compressed blob: %w", err)
		}
		b, err := io.ReadAll(io.LimitReader(r, journal.MaxBlobBytes+1))
		if err != nil {
			return nil, fmt.Errorf("reading a compressed blob: %w", err)
		}
		return b, nil
	}
	return nil, fmt.Errorf("a blob is kept as %q, which this version does not know", encoding)
}
