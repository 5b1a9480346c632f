package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"

	"github.com/everturn/everturn/internal/invisible"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// event is a chunk as -o jsonl prints it.
type event struct {
	Version int `json:"v"`
	turn.Chunk
}

// writeJSON writes v as one line of JSON. It escapes every character that a terminal obeys or does not show;
// encoding/json escapes only C0 controls.
func writeJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding JSON: %w", err)
	}
	if bytes.ContainsFunc(b, unseen) {
		b = escape(b)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

func unseen(r rune) bool { return termsafe.Unprintable(r) || invisible.Rune(r) }

// escape replaces invisible characters by \u escapes. In JSON without white space, such characters occur only in
// strings.
func escape(b []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(b) {
		if !unseen(r) {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.Bytes()
}
