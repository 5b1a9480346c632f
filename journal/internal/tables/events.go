package tables

import (
	"encoding/json"

	"github.com/everturn/everturn/workflows/turn"
)

// Texts returns the first column of a query's result, a column of content that is not null.
func (q Querier) Texts(query string, args ...any) ([]string, error) {
	return Collect(q, func(scan Scanner) (text string, err error) {
		err = scan(Into(&text))
		return text, err
	}, query, args...)
}

// ScanEvent scans a row with the columns idx, step, attempt, kind, at, text and data (not null) into e, and the columns
// after them into the destinations in after. It does not set e.Turn.
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
