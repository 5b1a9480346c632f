package fleet

import (
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

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
