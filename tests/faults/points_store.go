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

// lockJournal holds the journal as a database browser may that was left in a transaction, for a while.
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

// locks are shorter and longer than what a settlement waits.
func (r *rig) lockFor() time.Duration { return []time.Duration{2, 5, 13}[r.rng.IntN(3)] * time.Second }

// fillDisk makes every write fail that would make the journal's files longer, in this worker.
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

// store are the faults of the journal's file.
func store() []point {
	return []point{
		{
			name: "journal_locked_begin", about: "the journal is locked when the message comes", shape: busy,
			act: func(ctx context.Context, r *rig) error {
				return r.lockJournal(ctx, r.lockFor(), func() error { return r.ask(ctx) })
			},
		},
		{
			name: "journal_locked_call", about: "the journal is locked when a call ends", shape: block(once, "before"), interruptions: 3,
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
		{
			name: "disk_full", about: "the disk is full when an answer comes", shape: hold, interruptions: 25,
			weak: func(*rig) []string { return []string{"-kill", ""} },
			act: func(ctx context.Context, r *rig) error {
				if err := r.askToGate(ctx); err != nil {
					return err
				}
				free, err := r.fillDisk()
				if err != nil {
					return err
				}
				r.gate.Release()
				full := reach(ctx, "a write that failed", func() bool { return r.first().said("store_unavailable") })
				return errors.Join(full, pause(ctx, time.Second), free())
			},
		},
	}
}
