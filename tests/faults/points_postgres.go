package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// commits are the tables whose commits are broken. shape makes the target write to the table, and nth picks the row
// whose transaction is hit.
var commits = []struct {
	table, what string
	shape       func(*harness)
	nth         func(*harness) int
}{
	{"messages", "messages", busy, anyMessage},
	{"inferences", "an inference", busy, anyStep},
	{"calls", "a claim", busy, anyCall},
	{"requests", "a request", withApprovals, firstOf},
}

// breaks are what happens while Postgres commits a transaction. end lets the commit go on.
var breaks = []struct {
	name, about string
	ownJournal  bool
	do          func(ctx context.Context, r *harness, end func() error) error
}{
	{"killed", "Postgres is killed while it commits ", true, func(ctx context.Context, r *harness, end func() error) error {
		err := restartPostgres(ctx, r, nil, time.Second)
		_ = end() // its connection was lost, too
		return err
	}},
	{"lost", "the connection is lost while Postgres commits ", false,
		func(_ context.Context, r *harness, end func() error) error {
			r.journalLink.down()
			return errors.Join(end(), r.journalLink.up())
		}},
	{"late", "the worker tries again while Postgres still commits ", false,
		func(ctx context.Context, r *harness, end func() error) error {
			r.journalLink.down()
			return errors.Join(r.journalLink.up(), pause(ctx, 2*time.Second), end())
		}},
	{"orphan", "the worker dies and the next one works while Postgres still commits ", false,
		func(ctx context.Context, r *harness, end func() error) error {
			r.first().kill()
			return errors.Join(r.heal(ctx), pause(ctx, 2*time.Second), end())
		}},
}

// postgresPoints returns the faults of a Postgres server and of the connections to it.
func postgresPoints() []point {
	begin := func(ctx context.Context, r *harness) error {
		return errors.Join(r.ask(ctx), restartPostgres(ctx, r, nil, r.outage()))
	}
	out := []point{
		{name: "pg_killed_begin", about: "Postgres is killed when the message comes", shape: busy, interruptions: 3,
			ownJournal: true, act: begin},
		ofPostgres(severed("pg_killed_call", "Postgres is killed in mid-call", toJournal, restartPostgres, true)),
		ofPostgres(severed("pg_killed_answer", "Postgres is killed in mid-inference", toJournal, restartPostgres, false)),
		ofPostgres(whileWaiting("pg_killed_waiting", "Postgres is killed while the turn waits for decisions", withApprovals,
			func(ctx context.Context, r *harness) error { return restartPostgres(ctx, r, nil, r.outage()) })),
		severed("pg_down_call", "worker–Postgres is down in mid-call", toJournal, down, true),
		severed("pg_down_answer", "worker–Postgres is down in mid-inference", toJournal, down, false),
		severed("pg_hole_call", "worker–Postgres swallows everything in mid-call", toJournal, blackHole, true),
		severed("pg_hole_answer", "worker–Postgres swallows everything in mid-inference", toJournal, blackHole, false),
		severed("pg_reset", "worker–Postgres is reset again and again in mid-inference", toJournal, resets, false),
		ill("pg_slow", "worker–Postgres has latency and jitter", toJournal, "latency",
			map[string]any{"latency": 50, "jitter": 30}),
		{name: "pg_frozen", about: "the worker is stopped inside a transaction that holds the session's lock", shape: busy,
			interruptions: 1, act: freezeInTransaction},
		ill("pg_sliced", "worker–Postgres comes in slices", toJournal, "slicer", inSlices),
	}
	for _, b := range breaks {
		for _, c := range commits {
			out = append(out, point{name: "pg_commit_" + b.name + "_" + c.table, about: b.about + c.what, shape: c.shape,
				interruptions: 3, ownJournal: b.ownJournal, act: func(ctx context.Context, r *harness) error {
					held, end, err := r.database.(*postgresDatabase).trap(ctx, c.table, c.nth(r), true)
					if err != nil {
						return err
					}
					r.attend()
					return errors.Join(r.ask(ctx), held(), b.do(ctx, r, end))
				}})
		}
	}
	for i := range out {
		out[i].onlyPostgres = true
	}
	return out
}

// ofPostgres marks a point that affects the whole server.
func ofPostgres(p point) point {
	p.ownJournal, p.interruptions = true, 25
	return p
}

// restartPostgres kills the Postgres server and starts it again on the same data.
func restartPostgres(ctx context.Context, r *harness, _ *link, d time.Duration) error {
	server := r.programs.postgres
	return errors.Join(server.Kill(), pause(ctx, d), server.Run(ctx))
}

// freezeInTransaction stops the first worker when its transaction waits for the session's row, and lets the transaction
// have the row. Another worker must be able to carry on while the first one is stopped.
func freezeInTransaction(ctx context.Context, r *harness) error {
	d := r.database.(*postgresDatabase)
	end, err := d.hold(ctx, "BEGIN; SELECT 1 FROM sessions WHERE session_id = '"+r.target.session+"' FOR UPDATE")
	if err != nil {
		return err
	}
	err = errors.Join(r.ask(ctx), d.waits(ctx, "a transaction that waits for the session", "NOT granted"))
	r.first().signal(unix.SIGSTOP)
	return errors.Join(err, end(), r.undead(ctx, r.settle, r.settle, func(context.Context) error { return nil }))
}

func toJournal(r *harness) *link { return r.journalLink }
