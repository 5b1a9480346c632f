package journal

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

// NoteArtifact records a blob as an artifact of a call: content that the model and users can read by its hash. late
// means that the content came with a late result. A repetition changes nothing.
func (t *tx) NoteArtifact(session, call int64, hash, mediaType string, late bool) error {
	return t.Exec(`INSERT INTO artifacts (session, hash, call, media_type, late) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`,
		session, hash, call, mediaType, late)
}

// mediaColumn returns the column for media, without their data: JSON, or null if there are none.
func mediaColumn(media []turn.Media) (content, error) {
	if len(media) == 0 {
		return content{}, nil
	}
	b, err := json.Marshal(keptMedia(media))
	return contentOf(string(b)), err
}

// readMedia reverses mediaColumn.
func readMedia(column content) (media []turn.Media, err error) {
	if !column.Valid {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(column.String), &media); err != nil {
		return nil, fmt.Errorf("reading stored media: %w", err)
	}
	return media, nil
}

// Artifact returns the media type of a blob if it is an artifact of the session or of its shared past: one that a
// call has left, or the text of a message, which a compaction may have replaced by its hash. Otherwise it returns
// sql.ErrNoRows. Of a parent session, a fork sees only calls of steps up to the fork point, and no late results,
// because those may have tainted the parent since.
func (q querier) Artifact(session int64, hash string) (mediaType string, err error) {
	list, err := q.Segments(session, 1, allMessages)
	if err != nil {
		return "", err
	}
	for _, p := range list {
		err = q.Row(`SELECT a.media_type FROM artifacts a JOIN calls c ON c.id = a.call WHERE a.session = ?1
			AND a.hash = ?2 AND (?3 OR NOT a.late AND EXISTS
			(SELECT 1 FROM inferences i WHERE i.turn = c.turn AND i.step = c.step AND i.head_seq BETWEEN 1 AND ?4)) LIMIT 1`,
			p.Session, hash, p.Session == session, p.High).Scan(&mediaType)
		if errors.Is(err, sql.ErrNoRows) {
			mediaType = textPlain
			err = q.Row(`SELECT 1 FROM messages WHERE session = ? AND text_blob = ? AND seq <= ? LIMIT 1`, p.Session, hash,
				p.High).Scan(new(int))
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return mediaType, err
		}
	}
	return "", sql.ErrNoRows
}

// InsertTaint marks a session as tainted. The first mark stays.
func (t *tx) InsertTaint(session int64, m TaintSource) error {
	return t.Exec(`INSERT INTO taint_sources (session, turn, call_id, tool, at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`,
		session, m.Turn, m.CallID, m.Tool, nanos(m.At))
}

// TaintSource returns the first mark of a tainted session; nil if the session is not tainted.
func (q querier) TaintSource(session int64) (*TaintSource, error) {
	var m TaintSource
	var at int64
	err := q.Row(`SELECT turn, call_id, tool, at FROM taint_sources WHERE session = ?`, session).Scan(&m.Turn, &m.CallID,
		&m.Tool, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	m.At = instant(at)
	return &m, err
}
