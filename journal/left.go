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

// When a turn ends, some messages may be left that it accepted and did not use. A delivery sends them to the session
// again, where the first of them begins the next turn. The row of the ended turn keeps them too: if a newer message
// reaches Begin before the delivery does, Begin returns them, so that the session takes its messages in order.

// saveLeftMessages records in the turn's row the messages that the turn accepted and did not use.
func (t *tx) saveLeftMessages(sc scope, left []turn.UserMessage) error {
	if len(left) == 0 {
		return nil
	}
	return t.Exec(`UPDATE turns SET left_over = ? WHERE id = ?`, tables.ContentOf(string(record.MustJSON(left))), sc.Turn)
}

// afterLastTurn is above the row of every turn.
const afterLastTurn = math.MaxInt64

// leftMessages returns the messages that the session's last turn before the row beforeTurn accepted and did not use,
// split at the message with this ID: earlier ones come before it, later ones after it. If the ID is not among them,
// all are earlier, because the message with this ID is newer. Messages that the session has taken meanwhile are left
// out, and so are the answers of subagents: see answeringSubagent.
func (t *tx) leftMessages(session, beforeTurn int64, id string) (earlier, later []turn.UserMessage, err error) {
	var raw tables.Content
	err = t.Row(`SELECT left_over FROM turns WHERE session = ? AND id < ? ORDER BY id DESC LIMIT 1`, session, beforeTurn).
		Scan(&raw)
	if err != nil || raw.String == "" {
		return nil, nil, tables.IgnoreNoRows(err)
	}
	var left []turn.UserMessage
	if err := json.Unmarshal([]byte(raw.String), &left); err != nil {
		return nil, nil, fmt.Errorf("reading the messages that a turn left: %w", err)
	}
	position := slices.IndexFunc(left, func(m turn.UserMessage) bool { return record.CleanText(m.ID) == id })
	for i, m := range left {
		_, _, isAnswer := turn.AnsweredCall(m.ID)
		taken, err := t.HasMessage(session, record.CleanText(m.ID))
		switch {
		case err != nil:
			return nil, nil, err
		case taken || isAnswer || i == position: // left out
		case position >= 0 && i > position:
			later = append(later, m)
		default:
			earlier = append(earlier, m)
		}
	}
	return earlier, later, nil
}
