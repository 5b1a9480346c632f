package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/everturn/everturn/workflows/turn"
)

// event is a chunk as -o jsonl prints it.
type event struct {
	Version int `json:"v"`
	turn.Chunk
}

// writeJSON writes one line. What a terminal might obey is escaped: encoding/json does so with C0 controls only.
func writeJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding JSON: %w", err)
	}
	if bytes.ContainsFunc(b, unprintable) {
		b = escape(b)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// escape writes as \u what printable would take out. In JSON without white space such characters are in strings only.
func escape(b []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(b) {
		if unprintable(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes()
}
