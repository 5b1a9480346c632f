package tables

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// AddItems sets the provider items of a session's assistant messages from the ledger of inferences. messages are those
// from..to of the session. In each segment, it reads the newest completions first. Once those that are blobs exceed
// maxBytes together, the older messages of the segment get no items, nor do messages of later segments whose
// completions are blobs: a model can do without items.
func (q Querier) AddItems(session, from, to, maxBytes int64, messages []turn.Message) error {
	parts, err := q.Segments(session, from, to)
	room := maxBytes
	for _, p := range parts {
		if err != nil {
			break
		}
		err = q.addItemsOfSegment(p, &room, messages, from)
	}
	return err
}

// addItemsOfSegment is AddItems for the messages of one segment. messages[0] is the message from. It subtracts the
// sizes of the completions that are blobs from room.
func (q Querier) addItemsOfSegment(p Segment, room *int64, messages []turn.Message, from int64) error {
	seqs, completions := []int64{}, []Stored{}
	err := q.Each(func(rows Rows) error {
		var seq int64
		var s Stored
		err := rows.Scan(&seq, &s.Inline, &s.Blob)
		seqs, completions = append(seqs, seq), append(completions, s)
		return err
	}, `SELECT m.seq, i.completion, i.completion_blob FROM messages m JOIN inferences i ON i.turn = m.turn AND i.step = m.step
		WHERE m.session = ? AND m.seq BETWEEN ? AND ? AND m.role = ? AND i.settled_at IS NOT NULL ORDER BY m.seq DESC`,
		p.Session, p.Low+1, p.High, string(turn.RoleAssistant))
	if err != nil {
		return err
	}
	for i, s := range completions {
		text := []byte(s.Inline.String)
		if s.Blob.Valid {
			text, err = q.GetBlobWithin(s.Blob.String, room)
			if large := (*record.TooLargeError)(nil); errors.As(err, &large) {
				return nil // the remaining messages of the segment are older
			}
		}
		var c struct {
			Items *turn.ProviderItems `json:"items"`
		}
		if err == nil {
			err = json.Unmarshal(text, &c)
		}
		if err != nil {
			return fmt.Errorf("reading the completion of message %d: %w", seqs[i], err)
		}
		if at := seqs[i] - from; at >= 0 && at < int64(len(messages)) {
			messages[at].Items = c.Items
		}
	}
	return nil
}
