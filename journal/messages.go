package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// appendUserMessages appends the messages that were merged into a turn, and emits message_added for each. It skips
// those that the session has already. step is the step whose prompt shows them first. A message without an ID gets
// one from its position, so that a repeated call finds it; mode is lenient if the messages come with the turn's end.
func (t *tx) appendUserMessages(sc *scope, step int, messages []turn.UserMessage, at time.Time, mode strictness) error {
	for i, merged := range messages {
		m := cleanMessage(turn.Message{ID: merged.ID, Role: turn.RoleUser, Text: merged.Text})
		if m.ID == "" {
			m.ID = generatedMessageID(sc.TurnID, step, i, mode)
		}
		if err := checkID("message", m.ID); err != nil {
			return err
		}
		exists, err := t.HasMessage(sc.Session, m.ID)
		if err != nil {
			return err
		}
		if exists {
			continue
		}
		if m.Text, err = t.loadTextOrPlaceholder(merged); err != nil {
			return fmt.Errorf("the text of message %q: %w", m.ID, err)
		}
		if m.Media, err = t.keptAttachments(merged.Media); err != nil {
			return fmt.Errorf("the attachments of message %q: %w", m.ID, err)
		}
		if err := t.addMessage(sc, step, m, at); err != nil {
			return err
		}
	}
	return nil
}

// generatedMessageID returns an ID for a message without one: of its turn, its step and its index among the messages of
// the step. Messages that come with the turn's end (lenient) have their own numbers, because the last step may have had
// messages before.
func generatedMessageID(turnID string, step, index int, mode strictness) string {
	if mode == lenient {
		return fmt.Sprintf("turn:%s:end.%d", turnID, index)
	}
	return fmt.Sprintf("turn:%s:%d.%d", turnID, step, index)
}

// undelivered returns the IDs of the messages that the session does not have. A message without an ID is one of them.
func (t *tx) undelivered(session int64, messages []turn.UserMessage) (ids []string, err error) {
	for _, m := range messages {
		exists, err := t.HasMessage(session, CleanText(m.ID))
		if err != nil {
			return nil, err
		}
		if !exists {
			ids = append(ids, m.ID)
		}
	}
	return ids, nil
}

// loadTextOrPlaceholder returns the text of a message: m.Text, or the content of m.Blob if it is set. If the journal
// has lost the blob, it returns LostText instead of an error, so that the turn continues.
func (t *tx) loadTextOrPlaceholder(m turn.UserMessage) (string, error) {
	if m.Blob == "" {
		return CleanText(m.Text), nil
	}
	b, err := t.GetBlob(m.Blob)
	if errors.Is(err, ErrNotFound) {
		return LostText, nil
	}
	return CleanText(string(b)), err
}

// keptAttachments returns the attachments of a message, with the sizes of their blobs. It leaves out those that exceed
// MaxMedia or MaxMediaBytes, and those whose blobs the journal does not have.
func (t *tx) keptAttachments(media []turn.Media) (kept []turn.Media, err error) {
	for _, m := range media[:min(len(media), MaxMedia)] {
		err := t.Row(`SELECT size FROM blobs WHERE hash = ?`, m.Hash).Scan(&m.Bytes)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		if err == nil && m.Bytes <= MaxMediaBytes {
			kept = append(kept, m)
		}
	}
	return kept, nil
}

// addMessage appends a message and emits message_added with a preview of its text.
func (t *tx) addMessage(sc *scope, step int, m turn.Message, at time.Time) error {
	if _, err := t.AppendMessage(sc, m); err != nil {
		return err
	}
	added := turn.MessageEvent{MessageID: m.ID, Text: preview(m.Text, PreviewBytes)}
	if len(added.Text) < len(m.Text) {
		added.TextBytes = int64(len(m.Text)) // the size of the whole text, because Text is only its beginning
	}
	return t.emitData(sc, turn.Event{Kind: turn.EventMessageAdded, Step: step, At: at}, added)
}

// When a turn ends, some messages may be left that it accepted and did not use. A delivery sends them to the session
// again, where the first of them begins the next turn. The row of the ended turn keeps them too: if a newer message
// reaches Begin before the delivery does, Begin returns them, so that the session takes its messages in order.

// saveLeftMessages adds to the turn's row the messages that were accepted and not used, unless it has them already.
func (t *tx) saveLeftMessages(turnRow int64, left []turn.UserMessage) error {
	if len(left) == 0 {
		return nil
	}
	kept, err := t.keptMessages(`id = ?`, turnRow)
	if err != nil {
		return err
	}
	for _, m := range left {
		if !slices.ContainsFunc(kept, func(k turn.UserMessage) bool { return k.ID == m.ID }) {
			kept = append(kept, m)
		}
	}
	return t.Exec(`UPDATE turns SET left_over = ? WHERE id = ?`, contentOf(string(mustJSON(kept))), turnRow)
}

// keptMessages returns the messages that saveLeftMessages has added to the first turn that matches the condition.
func (t *tx) keptMessages(condition string, args ...any) (kept []turn.UserMessage, err error) {
	var raw content
	err = t.Row(`SELECT left_over FROM turns WHERE `+condition, args...).Scan(&raw)
	if err != nil || raw.String == "" {
		return nil, ignoreNoRows(err)
	}
	if err := json.Unmarshal([]byte(raw.String), &kept); err != nil {
		return nil, fmt.Errorf("reading the messages that a turn left: %w", err)
	}
	return kept, nil
}

// KeepLeft records the messages that a run accepted and did not use, if the run began no turn, for instance because its
// own message was a duplicate. They come right after the session's last turn. KeepLeft does nothing if the session has no
// turn. See turn.FinishInput.Left for a run that began one.
func (db *DB) KeepLeft(ctx context.Context, session string, left []turn.UserMessage) error {
	if len(left) == 0 {
		return nil
	}
	return db.write(ctx, "keeping messages of session "+session, func(t *tx) error {
		if err := t.LockSession(session); err != nil {
			return err
		}
		var last int64
		err := t.Row(`SELECT t.id FROM turns t JOIN sessions s ON s.id = t.session WHERE s.tenant = ? AND s.session_id = ?
			ORDER BY t.id DESC LIMIT 1`, t.Tenant, session).Scan(&last)
		if err != nil {
			return ignoreNoRows(err)
		}
		return t.saveLeftMessages(last, left)
	})
}

// afterLastTurn is above the row of every turn.
const afterLastTurn = math.MaxInt64

// leftMessages returns the messages that the session's last turn before the row beforeTurn accepted and did not use,
// split at the message with this ID: earlier ones come before it, later ones after it. If the ID is not among them,
// all are earlier, because the message with this ID is newer. Messages that the session has taken meanwhile are left
// out, and so are the answers of subagents: see answeringSubagent.
func (t *tx) leftMessages(session, beforeTurn int64, id string) (earlier, later []turn.UserMessage, err error) {
	left, err := t.keptMessages(`session = ? AND id < ? ORDER BY id DESC LIMIT 1`, session, beforeTurn)
	if err != nil {
		return nil, nil, err
	}
	position := slices.IndexFunc(left, func(m turn.UserMessage) bool { return CleanText(m.ID) == id })
	for i, m := range left {
		_, isAnswer := turn.AnsweringSubagent(m.ID)
		taken, err := t.HasMessage(session, CleanText(m.ID))
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
