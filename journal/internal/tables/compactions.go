package tables

import (
	"database/sql"
	"encoding/json"
	"time"

	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// Compaction returns the compaction that applies to a prompt whose last message is seq: the last one with At.Seq <=
// seq, of the session or, for a fork, of its shared past. It returns nil if there is none.
func (q Querier) Compaction(session, seq int64) (*turn.Compaction, error) {
	for session != 0 {
		list, err := q.Compactions(`session = ? AND at_seq <= ? ORDER BY at_seq DESC, id DESC LIMIT 1`, session, seq)
		if err != nil {
			return nil, err
		}
		if len(list) == 1 {
			return &list[0], nil
		}
		var forkSeq int64
		if err := q.Row(`SELECT coalesce(parent, 0), coalesce(fork_seq, 0) FROM sessions WHERE id = ?`,
			session).Scan(&session,
			&forkSeq); err != nil {
			return nil, err
		}
		seq = min(seq, forkSeq) // session is the parent now; the fork shares its messages up to forkSeq
	}
	return nil, nil
}

// NamedCompaction returns the compaction with this unique name, or sql.ErrNoRows. The name is "turn/step/reason", or
// "session row/request" if a user requested the compaction.
func (q Querier) NamedCompaction(name string) (turn.Compaction, error) {
	list, err := q.Compactions(`name = ?`, name)
	if err == nil && len(list) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return turn.Compaction{}, err
	}
	return list[0], nil
}

// Compactions returns the compactions that the SQL condition where selects; it may also have ORDER BY and LIMIT.
func (q Querier) Compactions(where string, args ...any) ([]turn.Compaction, error) {
	contents, err := Collect(q, func(scan Scanner) (c Stored, err error) {
		err = scan(&c.Inline, &c.Blob)
		return c, err
	}, `SELECT content, content_blob FROM compactions WHERE `+where, args...)
	out := make([]turn.Compaction, len(contents))
	for i, c := range contents {
		var raw json.RawMessage
		if err == nil {
			raw, err = q.GetJSON(c)
		}
		if err == nil {
			err = json.Unmarshal(raw, &out[i])
		}
	}
	return out, err
}

// InsertCompaction inserts a compaction, and sets c.Hash and c.SettledAt if they are missing. turnRow is the turn whose
// prompt was compacted; 0 if a user requested the compaction. See NamedCompaction for name.
func (t *Tx) InsertCompaction(session, turnRow int64, name string, c *turn.Compaction) error {
	if c.SettledAt.IsZero() {
		c.SettledAt = time.Unix(0, 1).UTC() // the columns at and day need a time that is not zero
	}
	c.SettledAt = c.SettledAt.UTC()
	if c.To > 0 && c.Hash == "" {
		p, err := t.Point(session, c.To)
		if err != nil {
			return err
		}
		c.Hash = p.Hash
	}
	raw, err := record.JSON(c)
	if err != nil {
		return err
	}
	content, err := t.PutJSON([]byte(record.CleanText(string(raw))))
	if err != nil {
		return err
	}
	u := c.Usage
	return t.Exec(`INSERT INTO compactions (session, name, turn, at_seq, content, content_blob, provider, model,
		input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost, unpriced, estimated, at, day)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		session, name, NumberOrNull(turnRow), c.At.Seq, content.Inline, content.Blob, record.CleanText(c.Provider),
		record.CleanText(c.Model), u.InputTokens, u.CachedTokens, u.CacheWriteTokens, u.OutputTokens, u.ReasoningTokens,
		int64(u.Cost), u.Unpriced, u.Estimated, Nanos(c.SettledAt), c.SettledAt.Format(time.DateOnly))
}
