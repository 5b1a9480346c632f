package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type textIn struct {
	Text string `json:"text" jsonschema:"any text"`
}

type appendIn struct {
	Text  string `json:"text" jsonschema:"the line to append"`
	Block string `json:"block,omitempty" jsonschema:"wait before or after the effect, or never"`
	Take  int    `json:"take,omitempty" jsonschema:"milliseconds to take on each side of the effect"`
}

type bigIn struct {
	Bytes int `json:"bytes" jsonschema:"size of the answer"`
}

type none struct{}

func add[In any](p *program, name, about string, hints *mcp.ToolAnnotations,
	f func(context.Context, In) (string, error)) {
	tool := &mcp.Tool{Name: name, Description: about, Annotations: hints}
	mcp.AddTool(p.server, tool, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any,
		error) {
		text, err := f(ctx, in)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, err
	})
}

func (p *program) addTools() {
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}
	p.addFaces()
	p.addAsking()
	p.addTenants()
	p.addUntrusted()
	add(p, "read_note", "Read the effects in the ledger.", readOnly, p.readNote)
	add(p, "echo", "Answer with the text.", readOnly,
		func(_ context.Context, in textIn) (string, error) { return in.Text, nil })
	add(p, "slow", "Wait until cancelled.", nil, func(ctx context.Context, in textIn) (string, error) {
		p.note("begun", in.Text)
		<-ctx.Done()
		p.note("cancelled", in.Text)
		return "", ctx.Err()
	})
	add(p, "stubborn", "Work on whatever happens.", nil, func(_ context.Context, in textIn) (string, error) {
		p.note("begun", in.Text)
		select {}
	})
	add(p, "big", "Answer with many bytes.", readOnly, func(_ context.Context, in bigIn) (string, error) {
		return strings.Repeat("0123456789abcde\n", in.Bytes/16+1)[:in.Bytes], nil
	})
	add(p, "fail", "Answer with an error.", nil,
		func(_ context.Context, in textIn) (string, error) { return "", errors.New(in.Text) })
	add(p, "crash", "Die in the middle of the call.", nil, func(_ context.Context, in textIn) (string, error) {
		p.note("begun", in.Text)
		fmt.Fprintln(p.err, "crashing:", in.Text)
		os.Exit(7)
		return "", nil
	})
	add(p, "garble", "Answer with half a message.", nil, func(ctx context.Context, _ none) (string, error) {
		fmt.Fprintln(p.out, `{"jsonrpc":"2.0","id":`)
		<-ctx.Done()
		return "", ctx.Err()
	})
	add(p, "misspeak", "Print the text as a line, and never answer.", nil, func(ctx context.Context, in textIn) (string, error) {
		fmt.Fprintln(p.out, in.Text)
		<-ctx.Done()
		return "", ctx.Err()
	})
	p.addNoisy()
	add(p, "dirty", "Answer with control characters.", readOnly, func(context.Context, none) (string, error) {
		return "a\x00b \x1b[31mred\x1b[0m \x1b]0;title\x07end\r\nnext", nil
	})
	add(p, "environ", "Answer with the environment.", readOnly, func(context.Context, none) (string, error) {
		env := os.Environ()
		slices.Sort(env)
		return strings.Join(env, "\n"), nil
	})
	add(p, "grow", "Add a tool of the given name.", nil, func(_ context.Context, in textIn) (string, error) {
		add(p, in.Text, "Grown.", nil, func(context.Context, none) (string, error) { return "grown", nil })
		return "ok", nil
	})
	p.addBinary()
}

// addNoisy adds tools that record that they have begun, and then send what a host must not accept.
func (p *program) addNoisy() {
	add(p, "babble", "Print lines that are not JSON, and never answer.", nil,
		func(ctx context.Context, in textIn) (string, error) {
			p.note("begun", in.Text)
			for ctx.Err() == nil {
				if _, err := fmt.Fprintln(p.out, "Working on it …"); err != nil {
					break
				}
			}
			return "", ctx.Err()
		})
	add(p, "longline", "Print a line of 20 MB, and never answer.", nil,
		func(ctx context.Context, in textIn) (string, error) {
			p.note("begun", in.Text)
			fmt.Fprint(p.out, `{"jsonrpc":"2.0","method":"x","params":{"x":"`+strings.Repeat("x", 20<<20)+"\"}}\n")
			<-ctx.Done()
			return "", ctx.Err()
		})
	add(p, "flood", "Print 64 MB on stderr, and answer.", nil, func(_ context.Context, in textIn) (string, error) {
		p.note("begun", in.Text)
		line := []byte(strings.Repeat("flood ", 1<<10) + "\n")
		for written := 0; written < 64<<20; written += len(line) {
			if _, err := p.err.Write(line); err != nil {
				return "", err
			}
		}
		return "flooded for " + in.Text, nil
	})
}

func (p *program) addBinary() {
	mcp.AddTool(p.server, &mcp.Tool{Name: "binary", Description: "Answer with an image."},
		func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{
				&mcp.ImageContent{MIMEType: "image/png", Data: []byte("\x89PNG\x00\x01")}}}, nil, nil
		})
}

func (p *program) append(ctx context.Context, in appendIn) (string, error) {
	return p.appendAs(ctx, "", in)
}

// appendAs has the effect that tests count.
func (p *program) appendAs(ctx context.Context, face string, in appendIn) (string, error) {
	block := in.Block
	if block == "" {
		block = p.block
	}
	p.note("begun", in.Text)
	if err := wait(ctx, in.Take); err != nil {
		return "", err
	}
	if block == "before" {
		if err := p.awaitRelease(ctx); err != nil {
			return "", err
		}
	}
	p.effect(in.Text, face)
	if err := wait(ctx, in.Take); err != nil {
		return "", err
	}
	if block == "after" {
		if err := p.awaitRelease(ctx); err != nil {
			return "", err
		}
	}
	p.note("done", in.Text)
	return "appended " + in.Text, nil
}

// wait simulates work of that many milliseconds.
func wait(ctx context.Context, milliseconds int) error {
	timer := time.NewTimer(time.Duration(milliseconds) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *program) awaitRelease(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(p.release); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// entry is a line of the ledger.
type entry struct {
	Event string    `json:"event"`
	Text  string    `json:"text"`
	At    time.Time `json:"at,omitzero"` // with -times
	PID   int       `json:"pid,omitempty"`
	Face  string    `json:"face,omitempty"`  // of the tool, unless it was the first
	Reply string    `json:"reply,omitempty"` // the response to confirm: the action, and the content in JSON
}

func (p *program) entry(event, text string) entry {
	e := entry{Event: event, Text: text}
	if p.times {
		e.At, e.PID = time.Now(), os.Getpid()
	}
	return e
}

// note writes to the ledger and syncs it, as write does. If the ledger cannot be written, the program exits, so that
// the test does not continue.
func (p *program) note(event, text string) { p.write(p.entry(event, text)) }

func (p *program) write(e entry) {
	if p.ledger == "" {
		return
	}
	line, err := json.Marshal(e)
	if err == nil {
		err = appendSynced(p.ledger, append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(p.err, "writing the ledger:", err)
		os.Exit(9)
	}
}

func appendSynced(file string, b []byte) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

func (p *program) readNote(context.Context, none) (string, error) {
	b, err := os.ReadFile(p.ledger)
	if err != nil {
		return "", err
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		var e entry
		if json.Unmarshal([]byte(line), &e) == nil && e.Event == "effect" {
			out = append(out, e.Text)
		}
	}
	return strings.Join(out, "\n"), nil
}
