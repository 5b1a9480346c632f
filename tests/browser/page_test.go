package browser

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pictures is a folder that gets pictures of the web page.
var pictures = flag.String("pictures", "", "write pictures of the web page to this `folder`")

// watch records violations of the policy, and scripts that run although they should not, in every page that p opens.
const watch = `window.wrongs = []; addEventListener('securitypolicyviolation', e => wrongs.push(e.violatedDirective + ' ' + e.sample));
addEventListener('error', e => wrongs.push(e.message)); addEventListener('unhandledrejection', e => wrongs.push(String(e.reason)))`

// watched opens a tab of the same browser that records what goes wrong.
func (p page) watched() page {
	p.t.Helper()
	require.NoError(p.t, chromedp.Run(p.ctx)) // starts the browser; otherwise each tab has one of its own
	ctx, cancel := chromedp.NewContext(p.ctx)
	p.t.Cleanup(cancel)
	require.NoError(p.t, chromedp.Run(ctx, chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := cdppage.AddScriptToEvaluateOnNewDocument(watch).Do(ctx)
		return err
	})))
	return page{p.t, ctx}
}

// front shows the tab: the others of a browser are hidden.
func (p page) front() {
	p.t.Helper()
	require.NoError(p.t, chromedp.Run(p.ctx, cdppage.BringToFront()))
}

// value evaluates an expression.
func (p page) value(expression string, to any) {
	p.t.Helper()
	if to == nil {
		to = new(any)
	}
	require.NoError(p.t, chromedp.Run(p.ctx, chromedp.Evaluate(expression, to)), expression)
}

// until waits until an expression is true.
func (p page) until(expression string) {
	p.t.Helper()
	is := false
	if !assert.Eventually(p.t, func() bool {
		return chromedp.Run(p.ctx, chromedp.Evaluate(expression, &is)) == nil && is
	}, shownWithin, 50*time.Millisecond) {
		require.Fail(p.t, "never true: "+expression, p.text())
	}
}

// clean checks that nothing went wrong in the page that is shown.
func (p page) clean() {
	p.t.Helper()
	var wrongs []string
	p.value("wrongs", &wrongs)
	assert.Empty(p.t, wrongs)
}

// size sets the size of the tab in pixels of the page, and its colours.
func (p page) size(width, height int64) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Run(p.ctx, chromedp.EmulateViewport(width, height)))
}

// picture writes a picture of the tab, and checks that nothing is wider than the tab.
func (p page) picture(name string) {
	p.t.Helper()
	var wide []string
	p.value(`[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 &&
		!e.closest('.read,.diff,[popover],.vh')).map(e => e.outerHTML.slice(0, 200))`, &wide)
	assert.Empty(p.t, wide, name)
	if *pictures == "" {
		return
	}
	var png []byte
	require.NoError(p.t, chromedp.Run(p.ctx, chromedp.CaptureScreenshot(&png)))
	require.NoError(p.t, os.WriteFile(filepath.Join(*pictures, name+".png"), png, 0o600))
}

// press sends keys to the element with the focus.
func (p page) press(keys string) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Run(p.ctx, chromedp.KeyEvent(keys)))
}

// types types into an element.
func (p page) types(selector, text string) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Run(p.ctx, chromedp.SendKeys(selector, text, chromedp.ByQuery)))
}

// clicks clicks on an element.
func (p page) clicks(selector string) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Run(p.ctx, chromedp.Click(selector, chromedp.ByQuery)))
}

// withPage starts everturn dev with the page on an address of its own.
func withPage(t *testing.T, flags ...string) (h userFolder, address string) {
	t.Helper()
	address = fmt.Sprintf("127.0.0.1:%d", freePort(t))
	h = newUserFolderWith(t, append([]string{"dev"}, flags...),
		"[http]\nlisten = \""+address+"\"\n[local_files]\nwrite = true\n")
	h.awaitServer()
	answers(t, address)
	return h, "http://" + address
}

// answers waits until an HTTP server answers.
func answers(t *testing.T, address string) {
	t.Helper()
	require.Eventually(t, func() bool {
		res, err := http.Get("http://" + address + "/healthz") //nolint:gosec // of this test's server
		if err == nil {
			res.Body.Close()
		}
		return err == nil
	}, shownWithin, 50*time.Millisecond)
}

// send sends a message to a session through the API.
func (h userFolder) send(base, session, text string) {
	h.t.Helper()
	token, err := os.ReadFile(filepath.Join(h.dir, ".everturn", "http-token"))
	require.NoError(h.t, err)
	content, err := json.Marshal(map[string]string{"text": text})
	require.NoError(h.t, err)
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, base+"/v1/sessions/"+session+"/messages",
		strings.NewReader(string(content)))
	require.NoError(h.t, err)
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(h.t, err)
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	require.Equal(h.t, http.StatusAccepted, res.StatusCode, string(b))
}

// signsIn signs the browser in.
func (p page) signsIn(h userFolder) {
	p.t.Helper()
	p.goes(h.runs(0, "tokens", "link", "oncall"))
	p.shows("Sign in on this device", "oncall", "read, send, decide")
	p.clicks("form button")
	p.shows("Sessions")
}

// A user signs in with a link that works once, starts a session with the keyboard, sees its answer grow, allows a call
// after reading its arguments, and signs out.
func TestThePageFromSignInToSignOut(t *testing.T) {
	p := open(t).watched()
	h, base := withPage(t)
	p.size(1440, 900)
	p.goes(base + "/inbox")
	p.shows("Sign in", "everturn tokens link")
	link := h.runs(0, "tokens", "link", "oncall")
	for range 2 { // previews
		res, err := http.Get(link) //nolint:gosec // of this test's server
		require.NoError(t, err)
		res.Body.Close()
	}
	p.goes(link)
	p.clicks("form button")
	p.shows("No sessions yet")
	p.picture("empty-1440-light")
	p.goes(link)
	p.shows("This link no longer works")
	p.goes(base + "/")

	p.press("n")
	p.until(`document.activeElement.id === 'n-m'`)
	p.value(`document.activeElement.value = ''`, nil) // the driver types the n, although the page has taken the key
	p.types("#n-m", `call local/write_file {"path": "notes.md", "content": "# Plan\n\n- one\n- two\n"}`)
	p.types("#n-s", "notes")
	p.clicks("#new .primary")
	p.shows("Allow local/write_file?", "Exact arguments", "of 1")
	p.until(`location.pathname === '/s/notes'`)
	p.until(`document.querySelector('[data-allow]').getAttribute('aria-disabled') !== 'true'`)
	p.picture("approval-1440-light")
	p.size(390, 844)
	p.picture("approval-390-light")
	p.size(1440, 900)
	p.until(`!document.querySelector('.arming')`)
	p.press("y")
	p.shows("completed", "answered")
	assert.FileExists(t, filepath.Join(h.dir, "notes.md"))
	p.until(`document.getElementById('log').textContent.includes('allowed by oncall')`)
	p.clean()

	p.types("[data-compose] textarea", "Hello"+kb.Enter)
	p.shows("Turn 2", "I am Everturn's built-in demo", "Ask me which files are here")
	p.until(`!document.getElementById('live') && document.getElementById('state').textContent.includes('completed')`)
	var text string
	p.value(`document.querySelector('section.turn:last-child').innerText`, &text)
	assert.Equal(t, 1, strings.Count(text, "I am Everturn's built-in demo"), text)
	p.clean()
	p.picture("session-1440-light")
	p.clicks("[data-theme-toggle]")
	p.goes(base + "/s/notes")
	p.shows("Turn 2")
	p.until(`document.documentElement.dataset.theme === 'dark'`)
	p.picture("session-1440-dark")
	p.size(390, 844)
	p.picture("session-390-dark")
	p.size(1440, 900)
	p.clicks("[aria-label='Sign out']")
	p.shows("You are signed out")
	p.goes(base + "/")
	p.shows("Sign in", "everturn tokens link")
}

// An answer grows on the page. A page that is loaded in the middle goes on with the next word: none is missing and none is
// there twice. A turn that is stopped keeps what it has said.
func TestThePageShowsAnAnswerThatGrows(t *testing.T) {
	p := open(t).watched()
	h, base := withPage(t, "--slow")
	p.signsIn(h)
	h.send(base, "grows", "Hello")
	p.goes(base + "/s/grows")
	words := func(selector string) (list []string) {
		var text string
		p.value(`document.querySelector('`+selector+`')?.innerText ?? ''`, &text)
		return strings.Fields(text)
	}
	var seen [][]string
	for _, n := range []int{20, 80, 160} { // characters
		p.until(fmt.Sprintf(`(document.querySelector('#live [data-text]')?.textContent ?? '').length > %d`, n))
		seen = append(seen, words("#live [data-text]"))
		p.goes(base + "/s/grows")
		seen = append(seen, words("#live [data-text]"))
	}
	p.picture("live-1440")
	p.until(`document.getElementById('state').textContent.includes('completed')`)
	p.until(`!document.getElementById('live')`)
	answer := words(".msg:not(.user) .md")
	for i, list := range seen {
		require.NotEmpty(t, list, i)
		last := len(list) - 1 // perhaps the beginning of a word
		require.Less(t, last, len(answer))
		assert.Equal(t, answer[:last], list[:last])
		assert.True(t, strings.HasPrefix(answer[last], list[last]))
	}

	p.types("[data-compose] textarea", "Hello"+kb.Enter)
	p.until(`(document.querySelector('#live [data-text]')?.textContent ?? '').length > 20`)
	p.clicks("[data-stop]")
	p.until(`document.getElementById('state').textContent.includes('stopped')`)
	p.shows("stopped here")
	p.clean()
}

// hostile are texts that would run scripts, load things of other sites or break out of their place.
var hostile = []string{
	`<img src=x onerror="wrongs.push('ran')">`, `<script>wrongs.push('ran')</script>`, `[a](javascript:wrongs.push(1))`,
	"![p](https://tracker.invalid/p.png)", `"><svg onload=wrongs.push(2)>`, "<style>*{display:none}</style>",
	"`</pre><iframe srcdoc='<script>parent.wrongs.push(3)</script>'>`", "</textarea></title>{{.}}${1}<!--",
	"<form action=https://evil.invalid><button>x</button></form>", "| a | b |\n|--|--|\n| <b onclick=x> | \u202eevil |",
}

// Texts of users, models and tools are shown as they are, and nothing of them runs. A request that another tab decides
// is decided in this one.
func TestThePageShowsHostileTexts(t *testing.T) {
	browser := open(t)
	p := browser.watched()
	h, base := withPage(t)
	p.signsIn(h)
	for i, text := range hostile {
		h.send(base, fmt.Sprintf("h%d", i), text)
	}
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "evil.md"), []byte(strings.Join(hostile, "\n\n")), 0o600))
	h.send(base, "%3Cb%3E&'%22", `call local/read_file {"path": "evil.md"}`)
	for i := range hostile {
		p.goes(fmt.Sprintf("%s/s/h%d", base, i))
		p.until(`document.getElementById('state').textContent.includes('waiting for you')`)
		p.clean()
	}
	p.goes(base + "/inbox")
	p.size(1440, 900)
	p.shows("Allow local/read_file?", "evil.md")
	p.picture("inbox-1440")
	p.size(390, 844)
	p.goes(base + "/inbox")
	p.picture("inbox-390")
	p.size(1440, 900)
	p.goes(base + "/inbox")
	other := browser.watched()
	other.front()
	other.goes(base + "/s/%3Cb%3E&'%22")
	other.until(`document.querySelector('[data-allow]:not([aria-disabled]):not(.arming)') !== null`)
	other.clicks("[data-allow='']")
	other.until(`document.getElementById('state').textContent.includes('completed')`)
	other.until(`document.getElementById('log').textContent.includes('allowed by oncall')`)
	var shown []string
	other.value(`[...document.querySelectorAll('.call .body pre.code')].map(e => e.textContent)`, &shown)
	assert.Contains(t, strings.Join(shown, "\n"), hostile[0])
	other.press("o")
	other.clean()
	p.front()
	p.until(`document.querySelector('[data-decided="Decided elsewhere"]') !== null`)
	p.goes(base + "/")
	p.shows(hostile[0])
	p.clean()
	p.picture("sessions-1440")
	p.size(390, 844)
	p.picture("sessions-390")
}

// A page that is open while its server restarts says so, keeps what the user writes, and goes on with the next event.
func TestThePageSurvivesARestartOfItsServer(t *testing.T) {
	p := open(t).watched()
	h, _ := withPage(t)
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	serve := func() (stop func()) {
		cmd := h.command("serve", "--listen", address)
		require.NoError(t, cmd.Start())
		answers(t, address)
		return func() {
			_ = cmd.Process.Signal(syscall.SIGKILL)
			_ = cmd.Wait()
		}
	}
	stop := serve()
	link := h.runs(0, "tokens", "link", "--set", "http.listen="+address)
	p.goes(link)
	p.clicks("form button")
	p.shows("No sessions yet")
	h.runs(0, "run", "-s", "r", "Hello")
	p.goes("http://" + address + "/s/r")
	p.shows("Turn 1")
	p.types("[data-compose] textarea", "Hello again")
	stop()
	p.until(`!document.getElementById('offline').hidden`)
	p.picture("offline-1440")
	h.runs(0, "run", "-s", "r", "Hello")
	stop = serve()
	defer func() { stop() }()
	p.until(`document.getElementById('offline').hidden`)
	p.shows("Turn 2")
	p.types("[data-compose] textarea", kb.Enter)
	p.shows("Turn 3", "Hello again")
	p.until(`document.getElementById('state').textContent.includes('completed')`)
	var sections int
	p.value(`document.querySelectorAll('section.turn').length`, &sections)
	assert.Equal(t, 3, sections)
}
