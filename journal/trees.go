package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Tree is what the journal knows of the tree of a session: see package workspace. Its files are those of the commit
// Head.
type Tree struct {
	Epoch   int64    // counts the places that have had the tree, from 1
	Place   string   // the store that has the tree; empty after an import, and if it was dropped
	Head    string   // the last commit; empty if the repository had none
	Base    string   // the commit of the repository at which the tree began; empty if it had none
	Ignored []string // the paths of some files of the place that no commit has
}

// Dropped reports whether the tree was dropped: the next place that needs it begins another.
func (t Tree) Dropped() bool { return t.Place == "" && t.Head == "" }

// TreeHolder is who keeps a tree.
type TreeHolder struct {
	Worker string        // the identity of the worker that was last seen with the tree's place; empty if none was
	Unseen time.Duration // since then
}

// Tree returns the tree of the tenant's session, and who keeps it. ErrNotFound if the session has none.
func (db *DB) Tree(ctx context.Context, tenant, session string) (t Tree, h TreeHolder, err error) {
	err = db.read(ctx, fmt.Sprintf("reading the tree of session %q", session), func(q querier) error {
		var seen, now int64
		var ignored string
		err := q.Row(`SELECT t.epoch, t.place, t.head, t.base, t.ignored, coalesce(p.worker, ''), coalesce(p.seen_at, 0),
			c.now
			FROM clock c, trees t LEFT JOIN places p ON p.id = t.place WHERE t.tenant = ? AND t.session_id = ?`, tenant,
			session).Scan(&t.Epoch, &t.Place, &t.Head, &t.Base, intoContent(&ignored), &h.Worker, &seen, &now)
		if err != nil {
			return err
		}
		h.Unseen = time.Duration(now - seen)
		return json.Unmarshal([]byte(ignored), &t.Ignored)
	})
	return t, h, err
}

// MoveTree records that the tree of the tenant's session has moved: to another commit if its epoch is that of the
// journal, to another place if it is the next, which worker then keeps. The epoch 1 begins a tree. ErrStale if another
// place has the tree, or has begun it. It may be repeated.
func (db *DB) MoveTree(ctx context.Context, tenant, session, worker string, to Tree) error {
	return db.write(ctx, fmt.Sprintf("recording the tree of session %q", session), func(t *tx) error {
		if err := errors.Join(checkID("session", session), checkID("place", to.Place)); err != nil {
			return err
		}
		var epoch int64
		var place string
		err := t.Row(`SELECT epoch, place FROM trees WHERE tenant = ? AND session_id = ?`+t.Lock(), tenant, session).
			Scan(&epoch, &place)
		switch begins := errors.Is(err, sql.ErrNoRows); {
		case begins && to.Epoch == 1:
			err = t.Exec(`INSERT INTO trees (tenant, session_id, epoch, place, head, base, ignored)
				VALUES (?, ?, ?, ?, ?, ?, ?)`,
				tenant, session, to.Epoch, to.Place, to.Head, to.Base, contentOf(string(mustJSON(to.Ignored))))
		case err != nil && !begins:
		case begins || to.Epoch != epoch && to.Epoch != epoch+1 || to.Epoch == epoch && to.Place != place:
			err = ErrStale
		default:
			err = t.Exec(`UPDATE trees SET epoch = ?, place = ?, head = ?, base = ?, ignored = ? WHERE tenant = ?
				AND session_id = ?`,
				to.Epoch, to.Place, to.Head, to.Base, contentOf(string(mustJSON(to.Ignored))), tenant, session)
		}
		if err == nil && (to.Epoch != epoch) {
			err = t.seePlace(to.Place, worker)
		}
		return err
	})
}

// DropTree records that the tree of the tenant's session was dropped. ErrStale if it is in another epoch. It may be
// repeated.
func (db *DB) DropTree(ctx context.Context, tenant, session string, epoch int64) error {
	return db.write(ctx, fmt.Sprintf("forgetting the tree of session %q", session), func(t *tx) error {
		var now Tree
		err := t.Row(`SELECT epoch, place, head FROM trees WHERE tenant = ? AND session_id = ?`+t.Lock(), tenant, session).
			Scan(&now.Epoch, &now.Place, &now.Head)
		switch {
		case errors.Is(err, sql.ErrNoRows) || err == nil && now.Dropped() && now.Epoch == epoch+1:
			return nil
		case err == nil && now.Epoch != epoch:
			return ErrStale
		case err != nil:
			return err
		}
		return t.Exec(`UPDATE trees SET epoch = epoch + 1, place = '', head = '', base = '', ignored = ?
			WHERE tenant = ? AND session_id = ?`, contentOf("null"), tenant, session)
	})
}

// exportTree returns the state of the tree of a session for an export, or nil if it has no tree with commits.
func (q querier) exportTree(session string) (*ExportTree, error) {
	var t ExportTree
	err := q.Row(`SELECT head, base FROM trees WHERE tenant = ? AND session_id = ?`, q.Tenant, session).Scan(&t.Head,
		&t.Base)
	if err != nil || t.Head == "" {
		return nil, ignoreNoRows(err)
	}
	return &t, nil
}

// importTree records the tree of an imported session, which no place has yet. A tree that the journal knows stays.
func (im *importer) importTree() error {
	t := im.header.Tree
	if t == nil {
		return nil
	}
	return im.Exec(`INSERT INTO trees (tenant, session_id, epoch, place, head, base, ignored) VALUES (?, ?, 1, '', ?, ?, ?)
		ON CONFLICT DO NOTHING`, im.querier.Tenant, im.header.Session.ID, CleanText(t.Head), CleanText(t.Base),
		contentOf("null"))
}

// placesKept is how long the journal remembers a place of which no worker has been seen.
const placesKept = 90 * 24 * time.Hour

// seePlace records that a worker with this place for trees runs.
func (t *tx) seePlace(place, worker string) error {
	err := t.Exec(`DELETE FROM places WHERE seen_at < (SELECT now FROM clock) - ?`, int64(placesKept))
	if err != nil {
		return err
	}
	return t.Exec(`INSERT INTO places (id, worker, seen_at) SELECT ?1, ?2, now FROM clock WHERE true
		ON CONFLICT (id) DO UPDATE SET worker = excluded.worker, seen_at = excluded.seen_at`, place, CleanText(worker))
}
