package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	openai "github.com/sashabaranov/go-openai"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/everturn/everturn/tests/bench/cookbook"
	"github.com/everturn/everturn/tests/bench/floor"
	"github.com/everturn/everturn/tests/fakellm"
)

// roles are the processes that the benchmark starts from its own binary.
var roles = map[string]func(context.Context, []string) error{
	"provider": providerRole,
	"cookbook": cookbookRole,
	"floor":    floorRole,
	"engine":   engineRole,
	"replay":   replayRole,
	"clock":    clockRole,
	"reader":   readerRole,
}

// play runs a role to its end and returns the exit code.
func play(role func(context.Context, []string) error, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := role(ctx, args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// tally counts the requests that a provider has received for one model. Each arm uses its own model name.
type tally struct {
	Requests int   `json:"requests"`
	Bytes    int64 `json:"bytes"`
	Refused  int   `json:"refused"` // requests that the script does not know
}

// since returns the difference to an earlier tally.
func (t tally) since(then tally) tally {
	return tally{Requests: t.Requests - then.Requests, Bytes: t.Bytes - then.Bytes, Refused: t.Refused}
}

// providerRole serves the script and, at a second address, the tallies. It prints both addresses.
func providerRole(ctx context.Context, _ []string) error {
	s, err := fakellm.NewServer("127.0.0.1:0", fakellm.Func(provide))
	if err != nil {
		return err
	}
	defer s.Close()
	counts := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		out := map[string]tally{}
		for _, r := range s.Requests() {
			t := out[r.Chat.Model]
			t.Requests, t.Bytes = t.Requests+1, t.Bytes+int64(len(r.Body))
			if r.Reply != "text" && r.Reply != "calls" {
				t.Refused++
			}
			out[r.Chat.Model] = t
		}
		_ = json.NewEncoder(w).Encode(out) // fails only if the reader has disconnected
	})
	l, err := listen()
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: counts} //nolint:gosec // loopback, of a benchmark
	go func() { _ = srv.Serve(l) }()     // ends with Close
	defer srv.Close()
	fmt.Println(s.URL(), "http://"+l.Addr().String())
	<-ctx.Done()
	return nil
}

// baseline configures a worker of a baseline.
type baseline struct {
	Address     string        `json:"address"`
	TaskQueue   string        `json:"task_queue"`
	BaseURL     string        `json:"base_url"`
	Server      []string      `json:"server"`
	Workspace   string        `json:"workspace"`
	Tools       []openai.Tool `json:"tools"`
	Turns       int           `json:"turns"`
	Activities  int           `json:"activities"`
	StickyCache int           `json:"sticky_cache"`
	Tuned       bool          `json:"tuned"`
}

func readBaseline(args []string) (baseline, client.Client, error) {
	var b baseline
	text, err := os.ReadFile(args[0])
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		return b, nil, fmt.Errorf("reading the baseline's configuration: %w", err)
	}
	o := client.Options{HostPort: b.Address, Logger: quiet}
	if b.Tuned {
		o.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	}
	c, err := client.Dial(o)
	return b, c, err
}

// options returns the options that Everturn's own worker uses.
func (b baseline) options() worker.Options {
	worker.SetStickyWorkflowCacheSize(b.StickyCache)
	return worker.Options{
		MaxConcurrentActivityExecutionSize:      b.Activities,
		MaxConcurrentLocalActivityExecutionSize: b.Activities,
		MaxConcurrentWorkflowTaskExecutionSize:  b.Turns,
	}
}

func cookbookRole(ctx context.Context, args []string) error {
	b, c, err := readBaseline(args)
	if err != nil {
		return err
	}
	defer c.Close()
	return cookbook.Run(ctx, c, cookbook.Options{TaskQueue: b.TaskQueue, BaseURL: b.BaseURL, Server: b.Server,
		Workspace: b.Workspace, Tools: b.Tools, Worker: b.options()})
}

func floorRole(ctx context.Context, args []string) error {
	b, c, err := readBaseline(args)
	if err != nil {
		return err
	}
	defer c.Close()
	return floor.Run(ctx, c, b.TaskQueue, b.options())
}
