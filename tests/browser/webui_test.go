package browser

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// serverWithin bounds the start of Temporal; the first start on a machine builds it.
	serverWithin = 10 * time.Minute
	// shownWithin bounds how long a page takes to show something.
	shownWithin = 25 * time.Second
)

// page is a tab of Chromium.
type page struct {
	t   *testing.T
	ctx context.Context
}

// open starts Chromium. Without one, it skips the test, or fails it if EVERTURN_BROWSER_REQUIRED is 1.
func open(t *testing.T) page {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		const why = "there is no Chromium: apt-get install chromium"
		if os.Getenv("EVERTURN_BROWSER_REQUIRED") == "1" {
			require.Fail(t, why)
		}
		t.Skip(why)
	}
	// The sandbox of Chromium does not run as root. The Web UI shows Markdown in frames, which must be in its process.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.WindowSize(1500, 1100), chromedp.Flag("disable-features", "IsolateSandboxedIframes,site-per-process"))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return page{t, ctx}
}

// goes opens an address.
func (p page) goes(address string) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Run(p.ctx, chromedp.Navigate(address)))
}

// text returns the text of the page and of its frames.
func (p page) text() string {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	var all string
	var frames []*cdp.Node
	_ = chromedp.Run(ctx, chromedp.Text("body", &all), chromedp.Nodes("iframe", &frames, chromedp.AtLeast(0)))
	for _, frame := range frames {
		var text string
		_ = chromedp.Run(ctx, chromedp.Text("body", &text, chromedp.ByQuery, chromedp.FromNode(frame)))
		all += "\n" + text
	}
	return strings.Join(strings.Fields(all), " ")
}

// shows waits until the page shows the texts, however they are wrapped.
func (p page) shows(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		shown := ""
		if !assert.Eventually(p.t, func() bool { shown = p.text(); return strings.Contains(shown, text) }, shownWithin,
			200*time.Millisecond) {
			require.Fail(p.t, "the page does not show "+text, shown)
		}
	}
}

// userFolder is a folder in which the command line runs.
type userFolder struct {
	t        *testing.T
	dir      string
	everturn string
	webUI    string
}

// newUserFolder starts `everturn dev` in a folder of its own, with an agent whose every tool call needs an approval.
// more are further tables of agent.toml, and before are commands that run first.
func newUserFolder(t *testing.T, more string, before ...[]string) userFolder {
	t.Helper()
	return newUserFolderWith(t, []string{"dev"}, more, before...)
}

// newUserFolderWith is newUserFolder with another command in place of `everturn dev`.
func newUserFolderWith(t *testing.T, start []string, more string, before ...[]string) userFolder {
	t.Helper()
	h := userFolder{t: t, dir: t.TempDir()}
	h.everturn = filepath.Join(h.dir, "everturn")
	build := exec.Command("go", "build", "-C", filepath.Join("..", ".."), "-o", h.everturn, "./starter")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	port := freePort(t)
	h.webUI = fmt.Sprintf("http://127.0.0.1:%d/namespaces/default", port+1000)
	config := fmt.Sprintf("[policy]\nask_risk = \"low\"\n[temporal]\naddress = \"127.0.0.1:%d\"\n%s", port, more)
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "agent.toml"), []byte(config), 0o600))
	for _, args := range before {
		h.runs(0, args...)
	}
	dev, ended := h.command(start...), make(chan struct{})
	output := &bytes.Buffer{}
	dev.Stdout, dev.Stderr = output, output
	require.NoError(t, dev.Start())
	go func() { defer close(ended); _ = dev.Wait() }() // ended by the signal below
	t.Cleanup(func() {
		_ = dev.Process.Signal(syscall.SIGTERM) // an error means that it has ended
		<-ended
		if t.Failed() {
			t.Logf("everturn dev said:\n%s", output)
		}
	})
	return h
}

// command is a command line in the folder, with the demo model whatever the environment has.
func (h userFolder) command(args ...string) *exec.Cmd {
	cmd := exec.Command(h.everturn, append([]string{"--trust-once"}, args...)...)
	cmd.Dir = h.dir
	cmd.Env = append(os.Environ(), "OPENAI_API_KEY=")
	return cmd
}

// runs runs a command and returns its output.
func (h userFolder) runs(code int, args ...string) string {
	h.t.Helper()
	cmd := h.command(args...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		require.ErrorAs(h.t, err, &exit)
	}
	require.Equal(h.t, code, cmd.ProcessState.ExitCode(), "%s", out)
	return strings.TrimSpace(string(out))
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// awaitServer waits until Temporal and the worker run.
func (h userFolder) awaitServer() {
	h.t.Helper()
	require.Eventually(h.t, func() bool { return h.command("list").Run() == nil && h.command("doctor").Run() == nil },
		serverWithin, 500*time.Millisecond, "everturn doctor is not content")
}

func TestTheWebUIShowsATurnThatWaitsForAnApproval(t *testing.T) {
	p := open(t)
	h := newUserFolder(t, "")
	h.awaitServer()
	h.runs(6, "run", "--no-wait", "-s", "demo", "Which files are here?")
	link := h.runs(0, "open", "--print", "demo")

	p.goes(link)
	p.shows("Running", "demo", "Turn", "demo · step 1", "expiry of approval 1.0", "ask for 1 approval")

	turn := strings.TrimSuffix(link, "history")
	p.goes(turn + "user-metadata")
	p.shows("Summary Details Events with Metadata", "Which files are here?", "everturn show demo",
		`waits for approval of call 1.0, local/list_files: {"path":"."}`, "state waiting", "steps 1 of 12")
	p.inView("pre")

	p.goes(turn + "search-attributes")
	p.shows(`"EverturnSession": "demo"`, `"EverturnState": "waiting"`, `"EverturnAgent": "default"`)

	waiting := h.webUI + "/workflows?query=" + url.QueryEscape("EverturnState = 'waiting'")
	p.goes(waiting)
	p.shows("1 Workflow", `EverturnState = "waiting"`, "demo")

	h.runs(0, "approve", "demo", "--all", "-y")
	h.runs(6, "attach", "--no-wait", "demo") // its next call asks again
	h.runs(0, "deny", "demo", "--all")
	h.runs(0, "attach", "demo")
	p.goes(turn + "user-metadata")
	p.shows("completed (answered)")
	assert.NotContains(t, p.text(), "waits for")
	p.goes(turn + "search-attributes")
	p.shows(`"EverturnState": "completed"`, `"EverturnFinishReason": "answered"`, `"local/list_files"`)
	p.goes(waiting)
	p.shows("0 Workflows")
}

// TestTheWebUIShowsAnEncryptedTurn looks at an encrypted turn with and without a codec server.
func TestTheWebUIShowsAnEncryptedTurn(t *testing.T) {
	p := open(t)
	port := freePort(t)
	h := newUserFolder(t, fmt.Sprintf("[encryption]\nkey_file = \".everturn/keys.json\"\n[codec_server]\n"+
		"url = \"http://127.0.0.1:%d\"\n", port), []string{"keys", "new", "--file", ".everturn/keys.json"})
	h.awaitServer()
	h.runs(6, "run", "--no-wait", "-s", "secret", "Which files are here?")
	link := h.runs(0, "open", "--print", "secret")
	turn := strings.TrimSuffix(link, "history")

	p.goes(turn + "user-metadata")
	p.shows("Running secret", "could not connect")
	assert.NotContains(t, p.text(), "Which files are here?")

	origin := strings.TrimSuffix(h.webUI, "/namespaces/default")
	codec := h.command("codec", "serve", "--no-auth", "--listen", fmt.Sprintf("127.0.0.1:%d", port), "--set",
		"codec_server.origin="+origin)
	require.NoError(t, codec.Start())
	t.Cleanup(func() {
		_ = codec.Process.Signal(syscall.SIGTERM)
		_ = codec.Wait()
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, shownWithin, 50*time.Millisecond)
	p.goes(turn + "user-metadata")
	p.shows("Which files are here?", `waits for approval of call 1.0, local/list_files: {"path":"."}`)
}

// inView checks that no element of a frame is below the frame's end, which the Web UI cuts.
func (p page) inView(selector string) {
	p.t.Helper()
	var frames []*cdp.Node
	require.NoError(p.t, chromedp.Run(p.ctx, chromedp.Nodes("iframe", &frames)))
	found := false
	for _, frame := range frames {
		var elements []*cdp.Node
		require.NoError(p.t, chromedp.Run(p.ctx, chromedp.Nodes(selector, &elements, chromedp.ByQueryAll,
			chromedp.AtLeast(0), chromedp.FromNode(frame))))
		for _, e := range elements {
			found = true
			assert.LessOrEqual(p.t, p.bottom(e), p.bottom(frame), "the end of the frame cuts %s", selector)
		}
	}
	assert.True(p.t, found, "no frame has %s", selector)
}

// bottom returns the lower edge of an element, in pixels of the page.
func (p page) bottom(n *cdp.Node) (y float64) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Run(p.ctx, chromedp.ActionFunc(func(ctx context.Context) error {
		box, err := dom.GetBoxModel().WithNodeID(n.NodeID).Do(ctx)
		if err == nil {
			y = box.Border[5]
		}
		return err
	})))
	return y
}
