package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the driver, to hold the journal's lock with
)

// lockJournal holds the journal's lock for a while, like a database browser that was left inside a transaction.
func (r *rig) lockJournal(ctx context.Context, d time.Duration, meanwhile func() error) error {
	db, err := sql.Open("sqlite", "file:"+inDir(r.dir, "journal.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN EXCLUSIVE"); err != nil {
		return fmt.Errorf("locking the journal: %w", err)
	}
	err = errors.Join(meanwhile(), pause(ctx, d))
	_, uerr := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	return errors.Join(err, uerr)
}

// lockFor returns a time that is shorter or longer than a settlement waits.
func (r *rig) lockFor() time.Duration { return []time.Duration{2, 5, 13}[r.rng.IntN(3)] * time.Second }

// fillDisk makes every write in this worker fail that would make the journal's files longer.
func (r *rig) fillDisk() (free func() error, err error) {
	info, err := os.Stat(inDir(r.dir, "journal.db-wal"))
	if err != nil {
		return nil, err
	}
	limit := func(n uint64) error {
		var old unix.Rlimit
		if err := unix.Prlimit(r.first().pid(), unix.RLIMIT_FSIZE, nil, &old); err != nil {
			return err
		}
		return unix.Prlimit(r.first().pid(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: min(n, old.Max), Max: old.Max}, nil)
	}
	return func() error { return limit(unix.RLIM_INFINITY) }, limit(uint64(info.Size()))
}

// store returns the faults of the journal's file.
func store() []point {
	return []point{
		{
			name: "journal_locked_begin", about: "the journal is locked when the message comes", shape: busy,
			act: func(ctx context.Context, r *rig) error {
				return r.lockJournal(ctx, r.lockFor(), func() error { return r.ask(ctx) })
			},
		},
		{
			name: "journal_locked_call", about: "the journal is locked when a call ends", shape: block(once, "before"),
			interruptions: 3,
			act: func(ctx context.Context, r *rig) error {
				if err := r.askToEvent(ctx, "begun"); err != nil {
					return err
				}
				return r.lockJournal(ctx, r.lockFor(), r.release)
			},
		},
		{
			name: "journal_locked_answer", about: "the journal is locked when an answer comes", shape: hold, interruptions: 3,
			act: func(ctx context.Context, r *rig) error {
				if err := r.askToGate(ctx); err != nil {
					return err
				}
				return r.lockJournal(ctx, r.lockFor(), r.openGate)
			},
		},
		fills("disk_full", "the disk is full when an answer comes", hold, (*rig).askToGate, (*rig).openGate),
		fills("disk_full_call", "the disk is full when a call has its result", block(once, "after"),
			func(r *rig, ctx context.Context) error { return r.askToEvent(ctx, "effect") }, (*rig).release),
		fills("disk_full_begin", "the disk is full when the message comes", busy,
			func(*rig, context.Context) error { return nil }, nil),
	}
}

// fills makes a point at which the journal's disk is full for a while: from when the turn has reached the given point
// until a write has failed, and a moment longer. What was held continues meanwhile; nil asks the target.
func fills(name, about string, shape func(*rig), reached func(*rig, context.Context) error,
	release func(*rig) error) point {
	return point{
		name: name, about: about, shape: shape, interruptions: 25,
		weak: func(*rig) []string { return []string{"-kill", ""} },
		act: func(ctx context.Context, r *rig) error {
			if err := reached(r, ctx); err != nil {
				return err
			}
			free, err := r.fillDisk()
			if err != nil {
				return err
			}
			if release == nil {
				err = r.ask(ctx)
			} else {
				err = release(r)
			}
			full := reach(ctx, "a write that failed", func() bool { return r.first().said("store_unavailable") })
			return errors.Join(err, full, pause(ctx, time.Second), free())
		},
	}
}
