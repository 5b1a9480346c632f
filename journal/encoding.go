package journal

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"sync"
)

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
