package journal

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// A turn that ends leaves the messages that it has accepted and not used to the session's next turn. A delivery sends
// them to the session again, so that this turn begins. The turn's row keeps them as well: if a later message is faster
// than the delivery, the turn that it begins takes them first, and the session keeps to the order of its messages.

// keepLeft records the messages that a turn leaves.
func (t *tx) keepLeft(sc scope, left []turn.UserMessage) error {
	if len(left) == 0 {
		return nil
	}
	return t.Exec(`UPDATE turns SET left_over = ? WHERE id = ?`, tables.ContentOf(string(record.MustJSON(left))), sc.Turn)
}

// latest is above the ID of every turn.
const latest = math.MaxInt64

// leftAround returns the messages that the session's last turn before a turn has left: those that come before the message
// with this ID, and those that come after it. It leaves out the messages that the session has had and the answers of
// subagents, for which see answered.
func (t *tx) leftAround(session, before int64, id string) (earlier, later []turn.UserMessage, err error) {
	var raw tables.Content
	err = t.Row(`SELECT left_over FROM turns WHERE session = ? AND id < ? ORDER BY id DESC LIMIT 1`, session, before).
		Scan(&raw)
	if err != nil || raw.String == "" {
		return nil, nil, tables.IgnoreNoRows(err)
	}
	var left []turn.UserMessage
	if err := json.Unmarshal([]byte(raw.String), &left); err != nil {
		return nil, nil, fmt.Errorf("reading the messages that a turn left: %w", err)
	}
	place := slices.IndexFunc(left, func(m turn.UserMessage) bool { return record.CleanText(m.ID) == id })
	for i, m := range left {
		_, _, answer := turn.AnsweredCall(m.ID)
		had, err := t.HasMessage(session, record.CleanText(m.ID))
		switch {
		case err != nil:
			return nil, nil, err
		case had || answer || i == place:
		case place >= 0 && i > place:
			later = append(later, m)
		default:
			earlier = append(earlier, m)
		}
	}
	return earlier, later, nil
}
