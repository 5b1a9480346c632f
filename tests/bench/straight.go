package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	toolhost "github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/workflows/turn"
)

// straightWarmUp is the number of calls before the measured ones.
const straightWarmUp = 10

// straightRole makes calls and prints their durations. Its arguments are sdk or host, the server's command, the size of
// a result and the number of calls.
func straightRole(ctx context.Context, args []string) error {
	if len(args) != 4 {
		return errors.New("usage: straight sdk|host SERVER BYTES CALLS")
	}
	bytes, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	open := map[string]func(context.Context, string, int) (caller, error){"sdk": sdkCaller, "host": hostCaller}[args[0]]
	c, err := open(ctx, args[1], bytes)
	if err != nil {
		return err
	}
	out, err := c.measure(ctx, n)
	if err := errors.Join(err, c.close()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// caller makes one call of the tool big.
type caller struct {
	call  func(context.Context) error
	close func() error
}

func (c caller) measure(ctx context.Context, n int) (out straightRun, err error) {
	for range straightWarmUp {
		if err := c.call(ctx); err != nil {
			return out, err
		}
	}
	before := ownCPU()
	for range n {
		began := time.Now()
		if err := c.call(ctx); err != nil {
			return out, err
		}
		out.Took = append(out.Took, time.Since(began))
	}
	out.CPU = ownCPU() - before
	return out, nil
}

// ownCPU returns the CPU time that this process has used so far, without its children.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func sdkCaller(ctx context.Context, server string, bytes int) (caller, error) {
	session, err := mcp.NewClient(&mcp.Implementation{Name: "straight", Version: "1"}, nil).
		Connect(ctx, &mcp.CommandTransport{Command: exec.Command(server)}, nil)
	if err != nil {
		return caller{}, err
	}
	params := &mcp.CallToolParams{Name: "big", Arguments: map[string]any{"bytes": bytes}}
	return caller{close: session.Close, call: func(ctx context.Context) error {
		res, err := session.CallTool(ctx, params)
		if err == nil && res.IsError {
			err = errors.New("the tool answered with an error")
		}
		return err
	}}, nil
}

func hostCaller(ctx context.Context, server string, bytes int) (caller, error) {
	host, err := toolhost.New(toolhost.Options{Servers: []toolhost.Server{{ID: "bench", Command: server}}})
	if err != nil {
		return caller{}, err
	}
	req := turn.ToolRequest{Tool: "mcp/bench/big", Arguments: json.RawMessage(fmt.Sprintf(`{"bytes":%d}`, bytes)),
		Timeout: time.Minute, CallID: "1.0", Attempt: 1}
	for _, c := range host.Catalogues(ctx) {
		for _, d := range c.Tools {
			if d.ID == req.Tool {
				req.Hash = d.Hash
			}
		}
	}
	return caller{close: host.Close, call: func(ctx context.Context) error {
		res, err := host.Call(ctx, req)
		if err == nil && res.Outcome != turn.OutcomeOK {
			err = errors.New(res.Text)
		}
		return err
	}}, nil
}
