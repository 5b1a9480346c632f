package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// putArtifact stores content that a call has left, and records that the call has left it.
func (t *tx) putArtifact(c *call, mediaType string, b []byte) (hash string, err error) {
	if hash, err = t.putBlob(mediaType, b); err != nil {
		return "", err
	}
	return hash, t.noteArtifact(c.session, c.row, hash, mediaType, c.rec.Outcome != "")
}

func (t *tx) noteArtifact(session, call int64, hash, mediaType string, late bool) error {
	return t.exec(`INSERT INTO artifacts (session, hash, call, media_type, late) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`,
		session, hash, call, mediaType, late)
}

// putMedia stores the media of a result and returns the column that names them.
func (t *tx) putMedia(c *call, media []turn.Media) (content, error) {
	for _, m := range media {
		if _, err := t.putArtifact(c, m.Type, m.Data); err != nil {
			return content{}, err
		}
	}
	return mediaColumn(media)
}

// mediaColumn is null if there are no media, so that it takes no space.
func mediaColumn(media []turn.Media) (content, error) {
	if len(media) == 0 {
		return content{}, nil
	}
	b, err := json.Marshal(keptMedia(media))
	return contentOf(string(b)), err
}

func readMedia(column content) (media []turn.Media, err error) {
	if !column.Valid {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(column.String), &media); err != nil {
		return nil, fmt.Errorf("reading stored media: %w", err)
	}
	return media, nil
}

// Artifact returns a blob that a call of the turn's session, or of its shared past, has left: the whole of a truncated
// result, or one of its media. ErrNotFound for every other blob.
func (s *DB) Artifact(ctx context.Context, turnID, hash string) (mediaType string, b []byte, err error) {
	err = s.read(ctx, fmt.Sprintf("reading artifact %.80s for turn %s", CleanText(hash), turnID), func(q querier) error {
		sc, err := q.scope(turnID)
		if err != nil {
			return err
		}
		if mediaType, err = q.artifact(sc.session, hash); err != nil {
			return err
		}
		b, err = q.getBlob(hash)
		return err
	})
	return mediaType, b, err
}

// artifact looks for a call of the session, or of its shared past, that has left the blob. A fork does not see what its
// parent sessions did after the fork point, nor late results there, because those may have tainted the parent since.
func (q querier) artifact(session int64, hash string) (mediaType string, err error) {
	list, err := q.segments(session, 1, allMessages)
	if err != nil {
		return "", err
	}
	for _, p := range list {
		err = q.row(`SELECT a.media_type FROM artifacts a JOIN calls c ON c.id = a.call WHERE a.session = ?1
			AND a.hash = ?2 AND (?3 OR NOT a.late AND EXISTS
			(SELECT 1 FROM inferences i WHERE i.turn = c.turn AND i.step = c.step AND i.head_seq BETWEEN 1 AND ?4)) LIMIT 1`,
			p.session, hash, p.session == session, p.high).Scan(&mediaType)
		if !errors.Is(err, sql.ErrNoRows) {
			return mediaType, err
		}
	}
	return "", sql.ErrNoRows
}

// taint records that a call has brought text of an untrusted server into its session. The first mark stays.
func (t *tx) taint(c call, at time.Time) error {
	return t.insertTaint(c.session, TaintSource{Turn: c.turnID, CallID: c.rec.Call.ID, Tool: c.rec.Call.Tool, At: at})
}

func (t *tx) insertTaint(session int64, m TaintSource) error {
	return t.exec(`INSERT INTO taint_sources (session, turn, call_id, tool, at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`,
		session, m.Turn, m.CallID, m.Tool, nanos(m.At))
}

// Taint returns the first taint source of the turn's session (see SettleInput.Taints), nil if it has none. A fork
// inherits it. ErrNotFound.
func (s *DB) Taint(ctx context.Context, turnID string) (*TaintSource, error) {
	return getOfTurn(ctx, s, turnID, "reading the taint source",
		func(q querier, sc scope) (*TaintSource, error) { return q.taintSource(sc.session) })
}

// taintSource returns a session's taint source, nil if it has none.
func (q querier) taintSource(session int64) (*TaintSource, error) {
	var m TaintSource
	var at int64
	err := q.row(`SELECT turn, call_id, tool, at FROM taint_sources WHERE session = ?`, session).Scan(&m.Turn, &m.CallID,
		&m.Tool, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	m.At = instant(at)
	return &m, err
}

// mediaTypeBytes bounds a media type.
const mediaTypeBytes = 100

// cleanResult returns r as stores settle a call with it: see clean. Media get the hash and the size of their Data.
// Media beyond the bounds, and empty ones, are dropped, and the text says so.
func cleanResult(r turn.ToolResult) turn.ToolResult {
	r.Text, r.MediaType, r.Code = CleanText(r.Text), mediaType(r.MediaType), cleanCode(r.Outcome, r.Code)
	media := r.Media
	r.Media = nil
	for _, m := range media {
		if size := len(m.Data); size == 0 || size > MaxMediaBytes || len(r.Media) == MaxMedia {
			continue
		}
		r.Media = append(r.Media, turn.Media{Hash: HashOf(m.Data), Type: mediaType(m.Type), Bytes: int64(len(m.Data)),
			Data: m.Data})
	}
	if lost := len(media) - len(r.Media); lost > 0 {
		if r.Text != "" {
			r.Text += "\n"
		}
		r.Text += fmt.Sprintf("(%d of the result's %d images and sounds are not kept: %d are the most, of up to %d MiB "+
			"each, and none may be empty.)",
			lost, len(media), MaxMedia, MaxMediaBytes>>20)
	}
	return r
}

// cleanCode returns the code of a call's end as stores keep it: a code that turn declares, and only for a call that did
// not run or got no answer.
func cleanCode(outcome turn.Outcome, code turn.Code) turn.Code {
	if outcome != turn.OutcomeError && outcome != turn.OutcomeDenied || !code.Known() {
		return ""
	}
	return code
}

func mediaType(s string) string { return Preview(CleanText(s), mediaTypeBytes) }

// keptMedia returns media as the transcript and the ledger keep them: without Data, and nil if there are none.
func keptMedia(media []turn.Media) (kept []turn.Media) {
	for _, m := range media {
		kept = append(kept, turn.Media{Hash: CleanText(m.Hash), Type: mediaType(m.Type), Bytes: m.Bytes})
	}
	return kept
}
