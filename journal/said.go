package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// appendUserMessages appends the messages that were merged into a turn, except those that the session has had. step is
// the step before which they came in. A message without an ID gets one from its position, so that a repeated call finds
// it.
func (t *tx) appendUserMessages(sc *scope, step int, messages []turn.UserMessage, at time.Time, mode strictness) error {
	for i, output := range messages {
		m := record.CleanMessage(turn.Message{ID: output.ID, Role: turn.RoleUser, Text: output.Text})
		if m.ID == "" {
			m.ID = generatedMessageID(sc.TurnID, step, i, mode)
		}
		if err := record.CheckID("message", m.ID); err != nil {
			return err
		}
		had, err := t.HasMessage(sc.Session, m.ID)
		if err != nil {
			return err
		}
		if had {
			continue
		}
		if m.Text, err = t.messageText(output); err != nil {
			return fmt.Errorf("the text of message %q: %w", m.ID, err)
		}
		if m.Media, err = t.attached(output.Media); err != nil {
			return fmt.Errorf("the attachments of message %q: %w", m.ID, err)
		}
		if err := t.addMessage(sc, step, m, at); err != nil {
			return err
		}
	}
	return nil
}

// generatedMessageID returns the ID of a message that has none. Messages that come with the turn's end are numbered
// separately.
func generatedMessageID(turnID string, step, i int, mode strictness) string {
	if mode == lenient {
		return fmt.Sprintf("turn:%s:end.%d", turnID, i)
	}
	return fmt.Sprintf("turn:%s:%d.%d", turnID, step, i)
}

// undelivered returns the IDs of the messages that the session has not had.
func (t *tx) undelivered(session int64, messages []turn.UserMessage) (ids []string, err error) {
	for _, m := range messages {
		had, err := t.HasMessage(session, record.CleanText(m.ID))
		if err != nil {
			return nil, err
		}
		if !had {
			ids = append(ids, m.ID)
		}
	}
	return ids, nil
}

// messageText returns the text of a message. If the text is lost, a placeholder that says so replaces it, and the turn
// continues.
func (t *tx) messageText(output turn.UserMessage) (string, error) {
	if output.Blob == "" {
		return record.CleanText(output.Text), nil
	}
	b, err := t.GetBlob(output.Blob)
	if errors.Is(err, ErrNotFound) {
		return record.LostText, nil
	}
	return record.CleanText(string(b)), err
}

// attached returns the attachments of a message with the sizes of their blobs, without those that the journal does not
// have or that are too large.
func (t *tx) attached(media []turn.Media) (kept []turn.Media, err error) {
	for _, m := range media[:min(len(media), record.MaxMedia)] {
		err := t.Row(`SELECT size FROM blobs WHERE hash = ?`, m.Hash).Scan(&m.Bytes)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		if err == nil && m.Bytes <= record.MaxMediaBytes {
			kept = append(kept, m)
		}
	}
	return kept, nil
}

func (t *tx) addMessage(sc *scope, step int, m turn.Message, at time.Time) error {
	if _, err := t.AppendMessage(sc, m); err != nil {
		return err
	}
	joined := turn.MessageEvent{MessageID: m.ID, Text: record.Preview(m.Text, record.PreviewBytes)}
	if len(joined.Text) < len(m.Text) {
		joined.TextBytes = int64(len(m.Text))
	}
	return t.emitData(sc, turn.Event{Kind: turn.EventMessageAdded, Step: step, At: at}, joined)
}
