package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp/childproc"
	"github.com/everturn/everturn/workflows/turn"
)

// FuzzServer checks an MCP server that prints anything before one of its responses. The host never panics and never
// hangs. It skips noise, and the call returns its result. If the output breaks the stream, the host reports a clear
// problem, and the next process of the server works.
func FuzzServer(f *testing.F) {
	for at := range uint8(3) {
		for _, s := range []string{
			"", "Welcome!\n\n\t\x1b[2J", "{", "[", "{}", "[]", "[{}]", "null", "1", "\xff", "\x00", `{"jsonrpc":"2.0"}`,
			`{"jsonrpc":"1.0","id":1,"result":{}}`,
			`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":2,"result":null}`,
			`{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"\u001b[31m"}]}}`,
			`{"jsonrpc":"2.0","id":2,"result":{"tools":[null]}}`,
			`{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"x","inputSchema":{"type":"object","$ref":"#"}}],"nextCursor":"x"}}`,
			`{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"image","data":"!"}]}}`,
			`{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"resource","resource":null}],"structuredContent":1}}`,
			`{"jsonrpc":"2.0","id":3,"error":{"code":-32003,"message":"\u001b]0;x\u0007"}}`,
			`{"jsonrpc":"2.0","id":1,"error":null}`, `{"jsonrpc":"2.0","id":"x","result":{}}`,
			`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`,
			`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage","params":{}}`,
			`{"jsonrpc":"2.0","id":9,"method":"roots/list"}`,
			`{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":null}`,
			`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":[]}`,
			`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":null}}`,
			`{"jsonrpc":"2.0","method":"notifications/elicitation/complete"}`,
			`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":null}`,
			`{"jsonrpc":"2.0","id":4,"result":{"resultType":"inputRequired","inputRequests":{"k":null}}}`,
			`{"jsonrpc":"2.0","id":9,"method":"elicitation/create"}`,
			`{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage"}`,
			`{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage","params":{"maxTokens":1,"messages":[null]}}`,
			`{"JSONRPC":"2.0","ID":3,"Result":{}}`, `{"jsonrpc":"2.0","id":3,"id":3,"result":{},"result":{}}`,
		} {
			f.Add([]byte(s), at)
		}
	}
	f.Fuzz(func(t *testing.T, output []byte, at uint8) {
		b := &babbler{output: output[:min(len(output), 1<<16)], at: int(at % 3)}
		h := babbling(t, b)
		defer func() { require.NoError(t, h.Close()) }()
		began := time.Now()
		kind := whatItIs(b.output)
		first := ask(t, h)
		require.Less(t, time.Since(began), 10*time.Second, "the host hung")
		switch kind {
		case noise:
			require.Equal(t, "done", first, "noise is skipped")
		case breaks:
			require.NotEqual(t, "done", first)
			require.Equal(t, "done", ask(t, h), "a new connection works")
		}
	})
}

// ask lists the catalogue and calls the tool. It returns the call's text, or the error.
func ask(t *testing.T, h *Host) string {
	t.Helper()
	c := h.Catalogues(t.Context())[0]
	requireWords(t, c.Problem)
	for _, d := range c.Tools {
		require.True(t, utf8.ValidString(d.ID+d.Description))
		if d.ID != "mcp/srv/work" {
			continue
		}
		r, err := h.Call(t.Context(), turn.ToolRequest{Tool: d.ID, Hash: d.Hash, Arguments: json.RawMessage(`{}`),
			Timeout: 20 * time.Second})
		if err != nil {
			var e *turn.Error
			require.ErrorAs(t, err, &e)
			requireWords(t, e.Message)
			return e.Message
		}
		require.Contains(t, []turn.Outcome{turn.OutcomeOK, turn.OutcomeError, turn.OutcomeUnknown}, r.Outcome)
		requireWords(t, r.Text)
		return r.Text
	}
	return c.Problem
}

// requireWords checks that a text for the model and the operator is plain text.
func requireWords(t *testing.T, s string) {
	t.Helper()
	require.True(t, utf8.ValidString(s))
	require.LessOrEqual(t, len(s), 64<<10)
	require.NotContains(t, s, "\x1b")
	require.Negative(t, strings.IndexFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }),
		"%q", s)
}

// These are the kinds of output before a response.
const (
	noise  = "noise"
	breaks = "breaks the stream"
	other  = "messages" // valid messages, which may respond, refuse or end the connection
)

func whatItIs(output []byte) string {
	kind, skipped := noise, 0
	for line := range bytes.Lines(output) {
		text := bytes.TrimSpace(line)
		switch {
		case len(text) == 0:
		case text[0] != '{' && text[0] != '[':
			skipped++
		case json.Valid(text):
			return other
		default:
			return breaks
		}
	}
	if skipped > 64 {
		kind = breaks
	}
	return kind
}

// babbler dials servers. The first one prints output before its response number at.
type babbler struct {
	output []byte
	at     int
	loud   bool                     // each server prints output before each list of tools
	only   bool                     // the servers support only the newest protocol
	mute   func(method string) bool // reports whether to print output instead of responding; nil: never
	dials  atomic.Int32
}

// babbling returns a host with one such server.
func babbling(t *testing.T, d dialer) *Host {
	t.Helper()
	h, err := New(Options{BackoffMin: time.Nanosecond, BackoffMax: time.Nanosecond})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	end := h.cancel
	h.cancel = func() { cancel(); end() }
	s := Server{ID: "srv", Command: "/none", ConnectTimeout: 20 * time.Second, CallTimeout: 20 * time.Second,
		ElicitationTimeout: time.Second, Resources: true, Prompts: true}
	h.addConnector(ctx, &connector{describer: describer{prefix: "mcp/srv", server: s}, redact: newRedactor(s, nil, h.opts.Secrets),
		dialer: d})
	return h
}

// dial returns a link, as stdioDialer does, to a server in this process.
func (b *babbler) dial(context.Context, string) (*link, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close())
	}
	output := b.output
	if b.dials.Add(1) > 1 {
		output = nil
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		serve(inR, outW, output, b)
		_ = outW.Close()
		_ = inR.Close()
	}()
	frames := childproc.NewFrames(outR, 16<<20, nil)
	t := &watchedTransport{inner: &sdk.IOTransport{Reader: frames, Writer: inW, MaxLineLength: -1}}
	stop := func() error { _ = inW.Close(); _ = frames.Close(); <-served; return nil }
	return &link{transport: t, watched: t, versions: []string{versionLegacy, versionLatest}, disposable: true, stop: stop,
		tail: noText, fate: noText}, nil
}

// modernAnswers are the responses of a server that supports only the newest protocol.
var modernAnswers = map[string]string{
	"server/discover": `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`,
	"tools/list":      `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"work","inputSchema":{"type":"object"}}]}`,
	"tools/call":      `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`,
}

func TestAServerOverStdioMayKnowTheNewestProtocolOnly(t *testing.T) {
	h := babbling(t, &babbler{at: -1, only: true})
	require.Equal(t, "done", ask(t, h))
	require.NoError(t, h.Close())
}

// serve responds to requests, with one tool, until reading or writing fails.
func serve(in io.Reader, out io.Writer, output []byte, b *babbler) {
	for n, lines := 0, bufio.NewScanner(in); lines.Scan(); {
		var req struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(lines.Bytes(), &req) != nil || req.ID == nil || req.Method == "" {
			continue
		}
		if b.mute != nil && b.mute(req.Method) {
			_, _ = out.Write(append(output, '\n'))
			continue
		}
		if b.loud && req.Method == "tools/list" {
			_, _ = out.Write(append(output, '\n'))
		}
		asked := req.Method != "server/discover" // the host sends server/discover independently
		if asked && n == b.at {
			_, _ = out.Write(append(output, '\n')) // the next write reports the error
		}
		if asked {
			n++
		}
		result := map[string]string{
			"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"srv","version":"1"}}`,
			"tools/list": `{"tools":[{"name":"work","inputSchema":{"type":"object"}}]}`,
			"tools/call": `{"content":[{"type":"text","text":"done"}]}`,
		}[req.Method]
		if result == "" {
			result = "{}"
		}
		if b.only && modernAnswers[req.Method] == "" {
			_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", req.ID)
			continue
		} else if b.only {
			result = modernAnswers[req.Method]
		}
		if _, err := fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", req.ID, result); err != nil {
			return
		}
	}
}
