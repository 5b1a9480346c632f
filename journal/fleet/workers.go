package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// Fleet holds the reports and the limits that the workers with one journal share. They are not separate for tenants.
type Fleet struct{ tables *tables.Handle }

// New returns the fleet of a journal.
func New(h *tables.Handle) Fleet { return Fleet{h} }

// WorkerExpiry is how long a worker's report is valid. A worker that runs reports more often than that.
const WorkerExpiry = 15 * time.Second

// WorkerReport is what a running worker reports about itself.
type WorkerReport struct {
	ID        string // of the worker's process
	Identity  string // the worker's name in Temporal; several workers may have the same
	TaskQueue string
	Servers   []turn.ServerHealth // its MCP servers, in the order of its configuration; empty if it runs no calls
	// Home is the task queue that only this worker polls; empty if it has none.
	Home string
	// Offers are the versions of the catalogues that the worker offers, by server: see turn.Catalogue.Version.
	Offers map[string]string
	SeenAt time.Time // the time of the report by the database's clock; ReportWorker ignores it
}

// ReportWorker records that a worker runs, in place of its last report. It also deletes the expired reports of all
// workers.
func (f Fleet) ReportWorker(ctx context.Context, r WorkerReport) error {
	return f.tables.Write(ctx, "reporting on a worker", func(t *tables.Tx) error {
		if err := record.CheckID("worker", r.ID); err != nil {
			return err
		}
		servers, err := json.Marshal(r.Servers)
		if err != nil {
			return err
		}
		offers, err := json.Marshal(r.Offers)
		if err != nil {
			return err
		}
		err = t.Exec(`DELETE FROM workers WHERE id = ? OR seen_at < (SELECT now FROM clock) - ?`, r.ID, int64(WorkerExpiry))
		if err != nil {
			return err
		}
		return t.Exec(`INSERT INTO workers (id, identity, task_queue, servers, home, offers, seen_at)
			SELECT ?1, ?2, ?3, ?4, ?5, ?6, now FROM clock`,
			r.ID, record.CleanText(r.Identity), record.CleanText(r.TaskQueue), string(servers), record.CleanText(r.Home),
			string(offers))
	})
}

// RemoveWorker records that a worker has stopped.
func (f Fleet) RemoveWorker(ctx context.Context, id string) error {
	return f.tables.Write(ctx, "removing a worker", func(t *tables.Tx) error {
		return t.Exec(`DELETE FROM workers WHERE id = ?`, id)
	})
}

// Workers returns the reports of all workers with this journal that have not expired, ordered by identity: see
// WorkerExpiry.
func (f Fleet) Workers(ctx context.Context) (out []WorkerReport, err error) {
	err = f.tables.Read(ctx, "listing the workers", func(q tables.Querier) (err error) {
		out, err = tables.Collect(q, func(scan tables.Scanner) (r WorkerReport, err error) {
			var servers, offers string
			var seen int64
			if err = scan(&r.ID, &r.Identity, &r.TaskQueue, &servers, &r.Home, &offers, &seen); err != nil {
				return r, err
			}
			r.SeenAt = tables.Instant(seen)
			if err := json.Unmarshal([]byte(servers), &r.Servers); err != nil {
				return r, fmt.Errorf("reading the MCP servers of worker %s: %w", r.Identity, err)
			}
			return r, json.Unmarshal([]byte(offers), &r.Offers)
		}, `SELECT id, identity, task_queue, servers, home, offers, seen_at FROM workers
			WHERE seen_at >= (SELECT now FROM clock) - ? ORDER BY identity, id`, int64(WorkerExpiry))
		return err
	})
	return out, err
}
