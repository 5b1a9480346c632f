package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/workflows/turn"
)

// The variables with which the suite configures the client.
const (
	scenarioVariable = "MCP_CONFORMANCE_SCENARIO"
	contextVariable  = "MCP_CONFORMANCE_CONTEXT"
)

// clientCredentials is the scenario whose client has its own secret, and no user.
const clientCredentials = "auth/client-credentials-basic"

// bound limits a scenario; the suite itself gives up after 30 s.
const bound = 25 * time.Second

// rounds bounds how often a tool may ask before it answers.
const rounds = 8

func main() { os.Exit(command(os.Args[1:])) }

// command runs the client on the URL and returns its exit code.
func command(args []string) int {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: conformance URL, with "+scenarioVariable+" set by the suite")
		return 2
	}
	if err := drive(ctx, args[0], os.Getenv(contextVariable), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// facts are what some scenarios tell their clients.
type facts struct {
	Name         string `json:"name"` // of the scenario
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	// ToolCalls are the calls to make, instead of one call of every tool.
	ToolCalls []toolCall `json:"toolCalls"`
}

type toolCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// drive connects a host to the server and calls every tool that it lists. It writes a line of JSON to out for each
// call.
func drive(ctx context.Context, url, told string, out io.Writer) error {
	var f facts
	if told != "" {
		if err := json.Unmarshal([]byte(told), &f); err != nil {
			return fmt.Errorf("reading %s: %w", contextVariable, err)
		}
	}
	server, err := configure(ctx, url, f)
	if err != nil {
		return err
	}
	host, err := mcp.New(mcp.Options{Servers: []mcp.Server{server}})
	if err != nil {
		return err
	}
	catalogue := host.Catalogues(ctx)[0]
	if catalogue.Problem != "" {
		return errors.Join(errors.New(catalogue.Problem), host.Close())
	}
	var errs []error
	for _, tool := range catalogue.Tools {
		for _, args := range f.arguments(tool, catalogue.Tools) {
			errs = append(errs, exercise(ctx, host, tool, args, out))
		}
	}
	return errors.Join(errors.Join(errs...), host.Close())
}

// configure does the operator's part: the server's address, and how to log in if nothing better is known.
func configure(ctx context.Context, url string, f facts) (mcp.Server, error) {
	server := mcp.Server{ID: "subject", Transport: mcp.TransportHTTP, URL: url, ElicitationTimeout: bound}
	if f.Name == clientCredentials {
		endpoint, err := tokenEndpoint(ctx, url)
		server.OAuth = mcp.OAuth{TokenURL: endpoint, ClientID: f.ClientID, ClientSecret: f.ClientSecret}
		return server, err
	}
	var err error
	server.Login, err = newLogin(f)
	return server, err
}

// exercise makes a tool call, and attempts it again for as long as the server asks.
func exercise(ctx context.Context, host *mcp.Host, tool turn.Descriptor, args json.RawMessage,
	out io.Writer) error {
	req := turn.ToolRequest{
		Tool: tool.ID, Hash: tool.Hash, Arguments: args, Timeout: bound,
		Session: "conformance", Turn: "conformance", Step: 1, CallID: "1.0", Attempt: 1,
		Elicit: func(q turn.Elicitation, _ <-chan struct{}) turn.ElicitationResponse { return agree(q) },
	}
	for range rounds {
		result, err := host.Call(ctx, req)
		if err != nil {
			return fmt.Errorf("calling %s: %w", tool.ID, err)
		}
		if len(result.Elicitations) == 0 {
			return json.NewEncoder(out).Encode(map[string]any{"tool": tool.ID, "outcome": result.Outcome, "text": result.Text})
		}
		req.Continuation, req.Responses = result.Continuation, nil
		for _, q := range result.Elicitations {
			req.Responses = append(req.Responses, agree(q))
		}
	}
	return fmt.Errorf("calling %s: it goes on asking", tool.ID)
}

// agree accepts an elicitation and fills nothing in.
func agree(q turn.Elicitation) turn.ElicitationResponse {
	return turn.ElicitationResponse{Key: q.Key, Action: turn.ElicitationAccept, Content: json.RawMessage(`{}`)}
}
