package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/tests/fakellm"
)

// TestTheDevelopmentServerSurvivesImpatientReaders gives up many requests while turns run. With modernc.org/sqlite
// v1.34.1, a statement whose context ends at the wrong moment makes the server fail all later statements.
func TestTheDevelopmentServerSurvivesImpatientReaders(t *testing.T) {
	temporal := newRestartableTemporal(t, filepath.Join(t.TempDir(), "temporal.db"), 0)
	list := fakellm.Call("local_list_files", `{}`)
	e := newEnv(t, fakellm.Steps(list, list, list, list, fakellm.Text("None.")))
	temporal.serves(e)
	e.work()
	e.work() // a second worker
	stop := readImpatiently(t, temporal.client, t.Name()+"-0")
	var runs []client.WorkflowRun
	for i := range 32 {
		runs = append(runs, e.begin(fmt.Sprintf("%s-%d", t.Name(), i), "Which files are here?", nil))
	}
	for _, run := range runs {
		require.Equal(t, "None.", e.result(run).Answer)
	}
	stop()
}

// readImpatiently starts readers that give up each request after at most 20 ms, until stop is called.
func readImpatiently(t *testing.T, c client.Client, session string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 16 {
		readers.Go(func() {
			for ctx.Err() == nil {
				request, end := context.WithTimeout(ctx, rand.N(20*time.Millisecond))
				// The errors are those of requests that are given up.
				_, _ = c.DescribeWorkflowExecution(request, session, "")
				_, _ = c.ListWorkflow(request, &workflowservice.ListWorkflowExecutionsRequest{})
				end()
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); readers.Wait() })
	t.Cleanup(stop)
	return stop
}
