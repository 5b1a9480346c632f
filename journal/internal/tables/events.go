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

// ScanEvent reads an event and then the fields in after.
func ScanEvent(scan Scanner, e *turn.Event, after ...any) error {
	var at int64
	var data string
	err := scan(append([]any{&e.Index, &e.Step, &e.Attempt, &e.Kind, &at, Into(&e.Text), Into(&data)}, after...)...)
	e.At = Instant(at)
	if data != "" {
		e.Data = json.RawMessage(data)
	}
	return err
}
