package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

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
		var hashes []string
		err := q.each(func(rows *sql.Rows) error {
			var hash string
			err := rows.Scan(&hash)
			hashes = append(hashes, hash)
			return err
		}, `SELECT hash FROM catalogue ORDER BY server`)
		if err == nil {
			out, err = s.catalogues.get(hashes, q.catalogue)
		}
		return err
	})
	return out, err
}

func (q querier) catalogue(hash string) (c turn.Catalogue, err error) {
	var content stored
	if err := q.row(`SELECT content, content_blob FROM catalogue WHERE hash = ?`, hash).Scan(&content.inline, &content.blob); err != nil {
		return c, err
	}
	text, err := q.get(content)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal([]byte(text), &c)
}

// catalogues keeps what was published last, decoded: every turn asks for it, and it hardly ever changes.
type catalogues struct {
	mu     sync.Mutex
	byHash map[string]turn.Catalogue
}

// get returns the catalogues of these hashes, loads those that it does not have and forgets all others.
func (k *catalogues) get(hashes []string, load func(hash string) (turn.Catalogue, error)) ([]turn.Catalogue, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []turn.Catalogue
	kept := make(map[string]turn.Catalogue, len(hashes))
	for _, hash := range hashes {
		c, ok := k.byHash[hash]
		if !ok {
			var err error
			if c, err = load(hash); err != nil {
				return nil, err
			}
		}
		kept[hash] = c
		c.Tools = slices.Clone(c.Tools)
		out = append(out, c)
	}
	k.byHash = kept
	return out, nil
}
