package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/everturn/everturn/workflows/turn"
)

// PublishCatalogue makes c the current catalogue of its server. Unchanged content changes nothing. All tools of a
// server that is published for the first time are approved. Later, a new tool is approved if the server's configuration
// (ConfigHash) is new, and a changed tool only if AllowToolChanges is set. An approval stays: a tool that disappears and
// returns unchanged, or that two workers publish in two versions, needs no second approval. c.Quarantined is ignored. A
// catalogue with a Problem keeps the tools of the one before and the Since of the first one with a Problem: see
// keepDuringOutage.
//
// Catalogues, views of them and descriptors are kept in their rows, however long they are: a replaced row
// gives its pages back, so a server that changes its tools endlessly does not grow the database. Blobs are never
// removed.
func (s *DB) PublishCatalogue(ctx context.Context, c turn.Catalogue) error {
	doing := fmt.Sprintf("publishing the catalogue of %q", c.Server)
	c.Quarantined = nil
	return s.write(ctx, doing, func(t *tx) error {
		if err := errors.Join(checkID("server", c.Server), t.lockCatalogue(c.Server)); err != nil {
			return err
		}
		before, err := t.readCatalogue(`SELECT content FROM catalogues WHERE server = ?`, c.Server)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		c := keepDuringOutage(c, before)
		content, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if len(content) > MaxBlobBytes {
			return fmt.Errorf("the catalogue is %d bytes; the maximum is %d: allow fewer of its tools", len(content),
				MaxBlobBytes)
		}
		hash, current := HashOf(content), ""
		err = t.row(`SELECT hash FROM catalogues WHERE server = ?`, c.Server).Scan(&current)
		if ignoreNoRows(err) != nil || hash == current {
			return err
		}
		if current == "" {
			err = t.exec(`INSERT INTO catalogues (server, hash, content, view_hash, view) VALUES (?, ?, ?, '', '')`, c.Server,
				hash, string(content))
		} else {
			err = t.exec(`UPDATE catalogues SET hash = ?, content = ? WHERE server = ?`, hash, string(content), c.Server)
		}
		if err != nil {
			return err
		}
		return t.review(c)
	})
}

// lockCatalogue locks the catalogue of a server.
func (t *tx) lockCatalogue(server string) error {
	return t.lock(`SELECT 1 FROM catalogues WHERE server = ?`, server)
}

// Catalogues returns the current catalogue of each server that has published one, ordered by server. Tools are the
// approved tools, Quarantined the others. Hash covers both. No tool of LocalServer is ever quarantined.
func (s *DB) Catalogues(ctx context.Context) (out []turn.Catalogue, err error) {
	err = s.read(ctx, "reading the catalogues", func(q querier) error {
		var list []version
		err := q.each(func(rows Rows) error {
			var v version
			err := rows.Scan(&v.server, &v.hash)
			list = append(list, v)
			return err
		}, `SELECT server, view_hash FROM catalogues ORDER BY server`)
		if err == nil {
			out, err = s.catalogues.get(list, q.view)
		}
		return err
	})
	return out, err
}

// view returns a server's catalogue as turns see it.
func (q querier) view(server string) (turn.Catalogue, error) {
	return q.readCatalogue(`SELECT view FROM catalogues WHERE server = ?`, server)
}

func (q querier) readCatalogue(query, server string) (c turn.Catalogue, err error) {
	var content []byte
	if err := q.row(query, server).Scan(&content); err != nil {
		return c, err
	}
	return c, json.Unmarshal(content, &c)
}

// version identifies a catalogue as turns see it.
type version struct{ server, hash string }

// catalogues caches the current catalogues as turns see them, decoded: every turn reads them, and they rarely change.
type catalogues struct {
	mu     sync.Mutex
	byHash map[string]turn.Catalogue
}

// get returns the catalogues in list, loads those that are not cached and forgets all others.
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
		c.Tools, c.Quarantined = slices.Clone(c.Tools), slices.Clone(c.Quarantined)
		out = append(out, c)
	}
	k.byHash = kept
	return out, nil
}
