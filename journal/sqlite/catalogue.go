package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// PublishCatalogue implements journal.Journal.
func (s *Store) PublishCatalogue(ctx context.Context, c turn.Catalogue) error {
	doing := fmt.Sprintf("publishing the catalogue of %q", c.Server)
	content, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return s.write(ctx, doing, func(t *tx) error {
		if err := checkID("server", c.Server); err != nil {
			return err
		}
		hash, current := journal.HashOf(content), ""
		err := t.row(`SELECT hash FROM catalogue WHERE server = ?`, c.Server).Scan(&current)
		if (err != nil && !errors.Is(err, sql.ErrNoRows)) || hash == current {
			return err
		}
		put, err := t.putJSON(content)
		if err != nil {
			return err
		}
		return t.exec(`INSERT OR REPLACE INTO catalogue (server, hash, content, content_blob) VALUES (?, ?, ?, ?)`,
			c.Server, hash, put.inline, put.blob)
	})
}

// Catalogues implements journal.Journal.
func (s *Store) Catalogues(ctx context.Context) (out []turn.Catalogue, err error) {
	err = s.read(ctx, "reading the catalogues", func(q querier) error {
		out = nil
		var list []stored
		err := q.each(func(rows *sql.Rows) error {
			var content stored
			err := rows.Scan(&content.inline, &content.blob)
			list = append(list, content)
			return err
		}, `SELECT content, content_blob FROM catalogue ORDER BY server`)
		if err != nil {
			return err
		}
		for _, content := range list {
			c, err := q.catalogue(content)
			if err != nil {
				return err
			}
			out = append(out, c)
		}
		return nil
	})
	return out, err
}

func (q querier) catalogue(content stored) (c turn.Catalogue, err error) {
	text, err := q.get(content)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal([]byte(text), &c)
}
