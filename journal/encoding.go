package journal

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"sync"
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
	kept = compress(b)
	if len(kept) >= len(b) {
		return "", b
	}
	return gzipped, kept
}

// compressors are used again: one takes most of a megabyte, and longer to set up than to run.
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
	_, _ = w.Write(b) // a Buffer takes everything
	_ = w.Close()
	w.Reset(io.Discard) // let go of out
	return out.Bytes()
}

// plainJSON is v as JSON whose strings are as they are: json.Marshal would write <, > and & another way in each that is
// raw JSON already. v has no raw JSON that was not checked.
func plainJSON(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("sqlite: encoding a checked value: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
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
		b, err := io.ReadAll(io.LimitReader(r, MaxBlobBytes+1))
		if err != nil {
			return nil, fmt.Errorf("reading a compressed blob: %w", err)
		}
		return b, nil
	}
	return nil, fmt.Errorf("a blob is kept as %q, which this version does not know", encoding)
}
