package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// WorkerExpiry is how long a worker's report is valid. A worker that runs reports more often than that.
const WorkerExpiry = 15 * time.Second

// WorkerReport is what a running worker reports about itself.
type WorkerReport struct {
	ID        string // of the process
	Identity  string // the worker's name in Temporal; several workers may have the same
	TaskQueue string
	Servers   json.RawMessage // the state of its tool servers
	SeenAt    time.Time       // when it was reported, by the database's clock; ReportWorker ignores it
}

// ReportWorker records that a worker runs, and replaces its last report.
func (s *DB) ReportWorker(ctx context.Context, r WorkerReport) error {
	return s.write(ctx, "reporting on a worker", func(t *tx) error {
		if err := checkID("worker", r.ID); err != nil {
			return err
		}
		if !json.Valid(r.Servers) {
			return fmt.Errorf("the servers of worker %s are not JSON", r.ID)
		}
		err := t.exec(`DELETE FROM workers WHERE id = ? OR seen_at < (SELECT now FROM clock) - ?`, r.ID, int64(WorkerExpiry))
		if err != nil {
			return err
		}
		return t.exec(`INSERT INTO workers (id, identity, task_queue, servers, seen_at) SELECT ?1, ?2, ?3, ?4, now
			FROM clock`,
			r.ID, CleanText(r.Identity), CleanText(r.TaskQueue), string(r.Servers))
	})
}

// RemoveWorker records that a worker has stopped.
func (s *DB) RemoveWorker(ctx context.Context, id string) error {
	return s.write(ctx, "removing a worker", func(t *tx) error {
		return t.exec(`DELETE FROM workers WHERE id = ?`, id)
	})
}

// Workers returns the valid reports of all workers with this journal, ordered by identity: see WorkerExpiry.
func (s *DB) Workers(ctx context.Context) (out []WorkerReport, err error) {
	err = s.read(ctx, "listing the workers", func(q querier) (err error) {
		out, err = collect(q, func(scan scanner) (r WorkerReport, err error) {
			var servers string
			var seen int64
			err = scan(&r.ID, &r.Identity, &r.TaskQueue, &servers, &seen)
			r.Servers, r.SeenAt = json.RawMessage(servers), instant(seen)
			return r, err
		}, `SELECT id, identity, task_queue, servers, seen_at FROM workers
			WHERE seen_at >= (SELECT now FROM clock) - ? ORDER BY identity, id`, int64(WorkerExpiry))
		return err
	})
	return out, err
}
