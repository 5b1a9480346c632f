package fleet

import (
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// WorkerExpiry is how long a worker's report is valid. A worker that runs reports more often than that.
const WorkerExpiry = 15 * time.Second

// WorkerReport is what a running worker reports about itself.
type WorkerReport struct {
	ID        string              `json:"id"`       // of the worker's process
	Identity  string              `json:"identity"` // the worker's name in Temporal; several workers may have the same
	TaskQueue string              `json:"task_queue"`
	Servers   []turn.ServerHealth `json:"servers"` // its MCP servers, in the order of its configuration; empty if it runs no calls
	// Home is the task queue that only this worker polls; empty if it has none.
	Home string `json:"home,omitempty"`
	// Offers are the versions of the catalogues that the worker offers, by server: see turn.Catalogue.Version.
	Offers map[string]string `json:"offers,omitempty"`
	// Place names the store of the worker's trees; empty if sessions have none.
	Place  string    `json:"place,omitempty"`
	SeenAt time.Time `json:"seen_at"` // the time of the report by the database's clock; ReportWorker ignores it
}
