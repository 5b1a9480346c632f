package cookbook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	openai "github.com/sashabaranov/go-openai"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
)

// Options configures a worker.
type Options struct {
	TaskQueue string
	BaseURL   string        // of the model provider
	Server    []string      // argv of the MCP server; empty: none
	Workspace string        // of the file tool
	Tools     []openai.Tool // the tools offered to the model
	Worker    worker.Options
}

// Run runs a worker until ctx ends.
func Run(ctx context.Context, c client.Client, o Options) (err error) {
	config := openai.DefaultConfig("")
	config.BaseURL = o.BaseURL
	config.HTTPClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256,
		IdleConnTimeout: 90 * time.Second}}
	acts := &Activities{model: openai.NewClientWithConfig(config), tools: o.Tools, workspace: o.Workspace}
	if len(o.Server) > 0 {
		host := mcp.NewClient(&mcp.Implementation{Name: "cookbook", Version: "1"}, nil)
		cmd := exec.Command(o.Server[0], o.Server[1:]...)
		if acts.server, err = host.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil); err != nil {
			return fmt.Errorf("connecting to the MCP server: %w", err)
		}
		defer func() { err = errors.Join(err, acts.server.Close()) }()
	}
	w := worker.New(c, o.TaskQueue, o.Worker)
	w.RegisterWorkflow(Turn)
	w.RegisterActivity(acts)
	if err := w.Start(); err != nil {
		return fmt.Errorf("starting the worker: %w", err)
	}
	<-ctx.Done()
	w.Stop()
	return nil
}
