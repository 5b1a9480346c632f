package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"

	"github.com/everturn/everturn/activities/mcp/netguard"
	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/internal/loopback"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/workflows/turn"
)

const (
	maxBody      = 2 << 20 // bytes of a response
	maxText      = 1 << 20 // bytes of the result
	maxURL       = 4096    // bytes
	maxRedirects = 5
	fetchTimeout = 30 * time.Second
	agentName    = "Everturn (fetch_url)"
)

// Options say what may be fetched.
type Options struct {
	// Hosts are patterns (see turn.HostRule) of the hosts to which requests need no approval.
	Hosts []string
	// Networks are private networks that may be reached, in CIDR notation.
	Networks []string

	secrets *redact.Redactor // of the registry
}

// Register adds fetch_url. It returns an error if a pattern or a network is malformed.
func Register(r *tools.Registry, o Options) error {
	o.Hosts = slices.Clone(o.Hosts)
	for i, pattern := range o.Hosts {
		o.Hosts[i] = strings.ToLower(pattern)
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("web.hosts: %q is not a pattern of hosts", pattern)
		}
	}
	if _, err := netguard.New("https://example.org", o.Networks); err != nil {
		return fmt.Errorf("web.networks: it %w", err)
	}
	o.secrets = r.Secrets()
	return tools.Add(r, "fetch_url", "Read a page of the web over GET. HTML becomes text, with the addresses of links in "+
		"parentheses.", o.fetch, tools.AskUnlistedHosts(o.Hosts), tools.Repeatable(), tools.Taints(),
		tools.Risk(turn.RiskMedium), tools.Timeout(fetchTimeout))
}

type input struct {
	URL string `json:"url" jsonschema:"the absolute address, https://…"`
}

// fetch implements the tool fetch_url: it gets a page, follows at most maxRedirects redirects that need no other
// approval, and returns the page as text.
func (o Options) fetch(ctx context.Context, in input) (string, error) {
	address := in.URL
	for redirects := range maxRedirects + 1 {
		if redirects > 0 && !o.mayRedirect(in.URL, address) {
			return "", fmt.Errorf("the server redirects to %s, whose host is not listed: call fetch_url with that address, "+
				"which asks the user", turn.Truncate(address, 500))
		}
		res, err := o.get(ctx, address)
		if err != nil {
			return "", err
		}
		location := res.Header.Get("Location")
		if res.StatusCode < 300 || res.StatusCode >= 400 || location == "" { // no redirect
			defer res.Body.Close()
			return o.read(res)
		}
		res.Body.Close()
		next, err := res.Request.URL.Parse(location) // it may be relative
		if err != nil {
			return "", errors.New("the server redirects to something that is no address")
		}
		address = next.String()
	}
	return "", fmt.Errorf("the server redirects more than %d times", maxRedirects)
}

// mayRedirect reports whether a call for the address from may be redirected to the address to without another
// approval: if the host is the same, for which the call was allowed, or is listed.
func (o Options) mayRedirect(from, to string) bool {
	allowed, err := url.Parse(from)
	if err != nil {
		return false
	}
	target, err := url.Parse(to)
	if err != nil {
		return false
	}
	host := strings.ToLower(target.Hostname())
	if host == "" {
		return true // get refuses it with a better message
	}
	return strings.EqualFold(allowed.Hostname(), host) || (&turn.HostRule{Listed: o.Hosts}).ListsHost(host)
}

// get sends one GET request without following redirects. It refuses addresses of this machine and of private networks,
// unless Options.Networks permits them.
func (o Options) get(ctx context.Context, address string) (*http.Response, error) {
	u, err := url.Parse(address)
	if err != nil || len(address) > maxURL || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("%q is no address: write https://host/path, without a name and a password",
			turn.Truncate(address,
				200))
	}
	host := u.Hostname()
	if loopback.Host(host) && !o.ownMachine() {
		return nil, fmt.Errorf("%s is this machine, which is refused", host)
	}
	guard, err := netguard.New(address, o.Networks)
	if err != nil {
		return nil, fmt.Errorf("the address %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%q is no address", turn.Truncate(address, 200))
	}
	req.Header.Set("User-Agent", agentName)
	req.Header.Set("Accept", "text/html, text/*, application/json;q=0.9, */*;q=0.1")
	transport := guard.Transport()
	transport.DisableKeepAlives = true
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", host, err)
	}
	return res, nil
}

// ownMachine reports whether Options.Networks contains the loopback address, so that this machine may be reached.
func (o Options) ownMachine() bool {
	return slices.ContainsFunc(o.Networks, func(n string) bool {
		p, err := netip.ParsePrefix(n)
		return err == nil && p.Contains(netip.MustParseAddr("127.0.0.1"))
	})
}

// read returns the body of a response as text. HTML is reduced to its text. A body over maxBody and a text over maxText
// are cut, and a note at the end says so. The result is an error if the content is not text or the status is 400 or
// higher.
func (o Options) read(res *http.Response) (string, error) {
	b, err := io.ReadAll(io.LimitReader(res.Body, maxBody+redact.Reach))
	if err != nil {
		return "", fmt.Errorf("reading the response: %w", err)
	}
	note := ""
	if len(b) > maxBody {
		b, note = []byte(o.secrets.Mask(string(b)))[:maxBody], fmt.Sprintf("\n[cut: only the first %d bytes of the page]\n", maxBody)
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if kind == "" {
		kind, _, _ = mime.ParseMediaType(http.DetectContentType(b))
	}
	page := strings.HasSuffix(kind, "html") || strings.HasSuffix(kind, "xhtml+xml")
	readable := page || strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json") ||
		strings.HasSuffix(kind, "xml") || strings.HasSuffix(kind, "yaml") || strings.HasSuffix(kind, "javascript")
	if !readable || bytes.IndexByte(b, 0) >= 0 {
		return "", fmt.Errorf("%s is %s of %d bytes or more, which is not text (status %d)", res.Request.URL.Redacted(),
			turn.Truncate(kind, 80), len(b), res.StatusCode)
	}
	text := utf8Of(b, res.Header.Get("Content-Type"))
	if page {
		text = textOf(text)
	}
	text = o.secrets.Mask(text) // before it is cut
	if len(text) > maxText {
		text, note = turn.Truncate(text, maxText), fmt.Sprintf("\n[cut: only the first %d bytes of the text]\n", maxText)
	}
	if res.StatusCode >= 400 {
		return "", fmt.Errorf("%s answers with status %d: %s", res.Request.URL.Redacted(), res.StatusCode,
			turn.Truncate(text, 2000))
	}
	return text + note, nil
}

// utf8Of returns a page as UTF-8. If it has another encoding, that is detected from the content type and the page
// itself. Bytes that cannot be converted are replaced.
func utf8Of(b []byte, contentType string) string {
	if utf8.Valid(b) {
		return string(b)
	}
	r, err := charset.NewReader(bytes.NewReader(b), contentType)
	if err == nil {
		if converted, err := io.ReadAll(io.LimitReader(r, 2*maxBody)); err == nil {
			b = converted
		}
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// hidden are the elements whose text a browser does not show, and blocks are the elements that begin a line.
var (
	hidden = []string{"script", "style", "noscript", "template", "svg"}
	blocks = []string{"p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "section", "article",
		"table",
		"ul", "ol", "dt", "dd", "blockquote", "header", "footer", "nav", "main"}
)

// textOf returns the text of an HTML page, with the address of each link in parentheses after the link's text, if it is
// absolute. It reads tokens instead of a tree, so that deep nesting cannot exhaust the stack.
func textOf(page string) string {
	var out strings.Builder
	z := html.NewTokenizer(strings.NewReader(page))
	z.SetMaxBuf(maxBody)
	hiddenDepth, link := 0, "" // the number of hidden elements around the token, and the address of the link around it
	for {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			return tidy(out.String())
		case html.TextToken:
			if hiddenDepth == 0 {
				out.WriteString(strings.Join(strings.Fields(" "+string(z.Text())+" "), " ") + " ")
			}
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			raw, more := z.TagName()
			name := string(raw)
			switch {
			case slices.Contains(hidden, name) && kind == html.StartTagToken:
				hiddenDepth++
			case slices.Contains(hidden, name) && kind == html.EndTagToken:
				hiddenDepth = max(hiddenDepth-1, 0)
			case name == "a" && kind == html.StartTagToken:
				link = attribute(z, more, "href")
			case name == "a" && strings.HasPrefix(link, "http"): // the end of a link
				fmt.Fprintf(&out, "(%s) ", link)
				link = ""
			case slices.Contains(blocks, name):
				out.WriteByte('\n')
			}
		}
	}
}

// attribute returns the value of an attribute of the tag that z has read, or "". more is the result of z.TagName:
// whether the tag has attributes.
func attribute(z *html.Tokenizer, more bool, name string) string {
	for more {
		var key, value []byte
		if key, value, more = z.TagAttr(); string(key) == name {
			return string(value)
		}
	}
	return ""
}

// tidy removes empty lines, and white space at the beginning and end of lines.
func tidy(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.ToValidUTF8(strings.Join(lines, "\n"), "\uFFFD")
}
