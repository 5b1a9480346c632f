package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/internal/watch"
)

// pollEvery is the interval at which the file is polled for writes by other processes while there are followers.
const pollEvery = 25 * time.Millisecond

// changes wakes followers. SQLite reports only that the file has changed, and not which rows, so every change wakes all
// followers: all of them follow the empty topic.
type changes struct {
	*watch.Changes
	conn *sql.Conn // for data_version, which changes for this connection when another one has written
}

// watchChanges returns changes that poll with a connection of their own.
func watchChanges(ctx context.Context, db *database) (*changes, error) {
	conn, err := db.readDB.Conn(ctx)
	if err != nil {
		return nil, err
	}
	look := func(ctx context.Context, _ []journal.Topic) (map[journal.Topic]int64, error) {
		var version int64
		err := conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version)
		return map[journal.Topic]int64{{}: version}, err
	}
	return &changes{watch.New(pollEvery, look), conn}, nil
}

// Changed implements journal.Database.
func (db *database) Changed(ctx context.Context, _ ...journal.Topic) <-chan struct{} {
	return db.changes.Wait(ctx, journal.Topic{})
}

// Notify implements journal.Database.
func (db *database) Notify(...journal.Topic) { db.changes.Notify(journal.Topic{}) }

// close ends the polling, wakes all followers, and closes the connection.
func (c *changes) close() error {
	c.Close()
	if err := c.conn.Close(); !errors.Is(err, sql.ErrConnDone) { // ErrConnDone: it is closed already
		return err
	}
	return nil
}
