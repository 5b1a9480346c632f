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
//
// Catalogues, views of them and descriptors stand in their rows, however long they are: a row that is replaced gives its
// pages back, and a server that changes its tools without end leaves nothing behind. Blobs are for good.
func (s *Store) PublishCatalogue(ctx context.Context, c turn.Catalogue) error {
	doing := fmt.Sprintf("publishing the catalogue of %q", c.Server)
	c.Held = nil
	return s.write(ctx, doing, func(t *tx) error {
		if err := checkID("server", c.Server); err != nil {
			return err
		}
		before, err := t.readCatalogue(`SELECT content, content_blob FROM catalogue WHERE server = ?`, c.Server)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		c := journal.Outlast(c, before)
		content, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if len(content) > journal.MaxBlobBytes {
			return fmt.Errorf("the catalogue is %d bytes; the maximum is %d: allow fewer of its tools", len(content), journal.MaxBlobBytes)
		}
		hash, current, view := journal.HashOf(content), "", ""
		err = t.row(`SELECT hash, view_hash FROM catalogue WHERE server = ?`, c.Server).Scan(&current, &view)
		if (err != nil && !errors.Is(err, sql.ErrNoRows)) || (hash == current && view != "") {
			return err
		}
		err = t.exec(`INSERT OR REPLACE INTO catalogue (server, hash, content, content_blob) VALUES (?, ?, ?, NULL)`, c.Server, hash, string(content))
		if err != nil {
			return err
		}
		return t.review(c)
	})
}

// Catalogues implements journal.Journal.
func (s *Store) Catalogues(ctx context.Context) (out []turn.Catalogue, err error) {
	err = s.read(ctx, "reading the catalogues", func(q querier) error {
		var list []version
		err := q.each(func(rows *sql.Rows) error {
			var v version
			err := rows.Scan(&v.server, &v.hash)
			list = append(list, v)
			return err
		}, `SELECT server, iif(view_hash = '', hash, view_hash) FROM catalogue ORDER BY server`)
		if err == nil {
			out, err = s.catalogues.get(list, q.view)
		}
		return err
	})
	return out, err
}

// view is a server's catalogue as turns see it. What was published before there were views is seen as it is.
func (q querier) view(server string) (turn.Catalogue, error) {
	return q.readCatalogue(`SELECT iif(view_hash = '', content, view), iif(view_hash = '', content_blob, view_blob) FROM catalogue WHERE server = ?`, server)
}

func (q querier) readCatalogue(query, server string) (c turn.Catalogue, err error) {
	var content stored
	if err := q.row(query, server).Scan(&content.inline, &content.blob); err != nil {
		return c, err
	}
	text, err := q.get(content)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal([]byte(text), &c)
}

// version names a catalogue as turns see it.
type version struct{ server, hash string }

// catalogues keeps what turns saw last, decoded: every turn asks for it, and it hardly ever changes.
type catalogues struct {
	mu     sync.Mutex
	byHash map[string]turn.Catalogue
}

// get returns these catalogues, loads those that it does not have and forgets all others.
func (k *catalogues) get(list []version, load func(server string) (turn.Catalogue, error)) ([]turn.Catalogue, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []turn.Catalogue
	kept := make(map[string]turn.Catalogue, len(list))
	for _, v := range list {
		c, ok := k.byHash[v.hash]
		if !ok {
			var err error
			if c, err = load(v.server); err != nil {
				return nil, err
			}
		}
		kept[v.hash] = c
		c.Tools, c.Held = slices.Clone(c.Tools), slices.Clone(c.Held)
		out = append(out, c)
	}
	k.byHash = kept
	return out, nil
}
