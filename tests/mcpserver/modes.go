package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// misbehave carries out the mode. handled means that the ordinary server must not run.
//
//	exit             print on stderr and exit with status 3
//	hang             answer nothing, ever
//	hanglist         answer the handshake and never the request for the tools
//	garbage          print lines that are not JSON, without end
//	longline         print a line of 20 MB that begins like JSON
//	flood            print 16 MiB on stderr, and behave otherwise: see -flood for more than a host takes
//	grandchild       start a child process that outlives its parent, then behave
//	dies             behave for the handshake, then exit
//	cursor           a list of tools whose cursors form a cycle
//	pages            a list of tools that never ends
//	badtools         tools that must be dropped, between good ones
//	content          answer calls with an unknown content type
//	moody            the description of its tool changes with every start
func (p *program) misbehave(ctx context.Context) (handled bool, err error) {
	switch p.mode {
	case "":
	case "exit":
		fmt.Fprintln(p.err, "no licence found\x1b[31m in "+os.Getenv("SECRET"))
		os.Exit(3)
	case "hang":
		<-ctx.Done()
		return true, nil
	case "garbage":
		for ctx.Err() == nil {
			fmt.Fprintln(p.out, "Hello from a server that logs to stdout")
		}
		return true, nil
	case "longline":
		fmt.Fprint(p.out, `{"jsonrpc":"2.0","method":"x","params":{"x":"`+strings.Repeat("x", 20<<20)+"\"}}\n")
		<-ctx.Done()
		return true, nil
	case "flood":
		go func() {
			for range 16 << 10 {
				fmt.Fprintln(p.err, strings.Repeat("x", 1<<10))
			}
		}()
	case "grandchild":
		return false, p.spawnGrandchild()
	default:
		return true, p.serveRaw()
	}
	return false, nil
}

// spawnGrandchild starts a process that ignores TERM and keeps stderr and stdout open.
func (p *program) spawnGrandchild() error {
	cmd := exec.Command("sh", "-c", `trap "" TERM; while :; do sleep 1; done`)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	return os.WriteFile(p.pidfile, []byte(fmt.Sprintf("%d\n%d\n", os.Getpid(), cmd.Process.Pid)), 0o600)
}

// rawRequest is a message as it comes in.
type rawRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Cursor string `json:"cursor"`
	} `json:"params"`
}

// serveRaw speaks the protocol by hand, because the SDK's server would not say such things.
func (p *program) serveRaw() error {
	in := bufio.NewScanner(p.in)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var req rawRequest
		if err := json.Unmarshal(in.Bytes(), &req); err != nil {
			return err
		}
		if req.ID == nil {
			if p.mode == "dies" {
				os.Exit(5)
			}
			continue
		}
		if p.mode == "hanglist" && req.Method == "tools/list" {
			continue
		}
		fmt.Fprintf(p.out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", req.ID, p.rawAnswer(req))
	}
	return in.Err()
}

func (p *program) rawAnswer(req rawRequest) string {
	switch req.Method {
	case "initialize":
		return `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`
	case "tools/list":
		return p.rawTools(req.Params.Cursor)
	case "tools/call":
		return `{"content":[{"type":"hologram","data":"aGk="}]}`
	}
	return `{}`
}

const rawTool = `{"name":"%s","description":"%s","inputSchema":%s}`

func (p *program) rawTools(cursor string) string {
	object := `{"type":"object","properties":{"a":{"type":"string"}}}`
	good := fmt.Sprintf(rawTool, "good", "A good tool.", object)
	switch p.mode {
	case "cursor":
		return fmt.Sprintf(`{"tools":[],"nextCursor":"%s"}`, map[string]string{"": "a", "a": "b", "b": "a"}[cursor])
	case "pages":
		n, _ := strconv.Atoi(cursor) // empty is 0
		return fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, n+1)
	case "moody":
		return `{"tools":[` + fmt.Sprintf(rawTool, "good", fmt.Sprint("I am process ", os.Getpid()), object) + `]}`
	case "badtools":
		return `{"tools":[` + strings.Join([]string{
			good,
			fmt.Sprintf(rawTool, "good", "A twin with another schema.", `{"type":"object"}`),
			fmt.Sprintf(rawTool, "array", "", `{"type":"array"}`),
			fmt.Sprintf(rawTool, "notype", "", `{}`),
			fmt.Sprintf(rawTool, "broken", "", `{"type":"object","properties":{"a":{"type":"strnig"}}}`),
			fmt.Sprintf(rawTool, "remote", "", `{"type":"object","properties":{"a":{"$ref":"https://example.com/s.json"}}}`),
			`{"name":"noschema"}`, `null`,
			fmt.Sprintf(rawTool, "", "", object),
			fmt.Sprintf(rawTool, "two words", "", object),
			fmt.Sprintf(rawTool, strings.Repeat("n", 150), "A long name.", `{"type":"object"}`),
			fmt.Sprintf(rawTool, "talkative", `\u001b[31m`+strings.Repeat("blah ", 2000), object),
		}, ",") + `]}`
	}
	return `{"tools":[` + good + `]}`
}
