package tables

import (
	"encoding/json"

	"github.com/everturn/everturn/workflows/turn"
)

// Texts returns a column of content.
func (q Querier) Texts(query string, args ...any) ([]string, error) {
	return Collect(q, func(scan Scanner) (text string, err error) {
		err = scan(Into(&text))
		return text, err
	}, query, args...)
}

// ScanChunk reads a chunk and then the fields in after.
func ScanChunk(scan Scanner, c *turn.Chunk, after ...any) error {
	var at int64
	var data string
	err := scan(append([]any{&c.Index, &c.Step, &c.Attempt, &c.Kind, &at, Into(&c.Text), Into(&data)}, after...)...)
	c.At = Instant(at)
	if data != "" {
		c.Data = json.RawMessage(data)
	}
	return err
}
