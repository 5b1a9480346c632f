package main

import (
	"context"
	"time"
)

// lockFor returns a time that is shorter or longer than a settlement waits.
func (r *harness) lockFor() time.Duration {
	return []time.Duration{2, 5, 13}[r.rng.IntN(3)] * time.Second
}

// journalFile returns the faults of the journal's file.
func journalFile() []point {
	return []point{
		{
			name: "journal_locked_begin", about: "the journal is locked when the message comes", shape: busy,
			act: func(ctx context.Context, r *harness) error {
				return r.lockJournal(ctx, r.lockFor(), func() error { return r.ask(ctx) })
			},
		},
		{
			name: "journal_locked_call", about: "the journal is locked when a call ends", shape: block(once, "before"),
			interruptions: 3,
			act: func(ctx context.Context, r *harness) error {
				if err := r.askToEvent(ctx, "begun"); err != nil {
					return err
				}
				return r.lockJournal(ctx, r.lockFor(), r.release)
			},
		},
		{
			name: "journal_locked_answer", about: "the journal is locked when an answer comes", shape: hold, interruptions: 3,
			act: func(ctx context.Context, r *harness) error {
				if err := r.askToGate(ctx); err != nil {
					return err
				}
				return r.lockJournal(ctx, r.lockFor(), r.openGate)
			},
		},
		fills("disk_full", "the disk is full when an answer comes", hold, (*harness).askToGate, (*harness).openGate),
		fills("disk_full_call", "the disk is full when a call has its result", block(once, "after"),
			func(r *harness, ctx context.Context) error { return r.askToEvent(ctx, "effect") }, (*harness).release),
		fills("disk_full_begin", "the disk is full when the message comes", busy,
			func(*harness, context.Context) error { return nil }, nil),
	}
}

// fills makes a point at which the journal's disk is full for a while: from when the turn has reached the given point
// until a write has failed, and a moment longer. What was held continues meanwhile; nil asks the target.
func fills(name, about string, shape func(*harness), reached func(*harness, context.Context) error,
	release func(*harness) error) point {
	return point{
		name: name, about: about, shape: shape, interruptions: 25,
		weak: func(*harness) []string { return []string{"-kill", ""} },
		act: func(ctx context.Context, r *harness) error {
			if err := reached(r, ctx); err != nil {
				return err
			}
			return r.fillDisk(ctx, func() error {
				if release == nil {
					return r.ask(ctx)
				}
				return release(r)
			})
		},
	}
}
