package page

import (
	"bytes"
	"crypto/sha256"
	"html"
	"html/template"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// maxMarkdown is the size of the longest text that is read as Markdown, in bytes. Longer ones are shown as they are: the
// time for a hostile text grows with the square of its length, and is about a second for one of this size.
const maxMarkdown = 32 << 10

// rendered keeps the HTML of texts, because a page that is shown is rendered again with each event.
var rendered, _ = lru.New[[sha256.Size]byte, template.HTML](256) // the error is about other sizes

// reader reads Markdown. What it writes is safe already, since it escapes the HTML of the text; sanitizer checks it
// again.
var reader = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(plainNodes{}, 1))))

// sanitizer permits what reader writes. Links lead to other sites only when they are followed, and pictures of other
// sites are not loaded.
var sanitizer = func() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "br", "hr", "em", "strong", "del", "code", "pre", "blockquote", "ul", "li", "h3", "h4", "h5",
		"table", "thead", "tbody", "tr", "th", "td")
	p.AllowAttrs("start").Matching(bluemonday.Integer).OnElements("ol")
	p.AllowElements("ol")
	p.AllowAttrs("href").OnElements("a")
	p.AllowURLSchemes("http", "https", "mailto")
	p.RequireNoFollowOnLinks(true)
	p.RequireNoReferrerOnLinks(true)
	p.AddTargetBlankToFullyQualifiedLinks(true)
	p.AllowAttrs("class").Matching(bluemonday.SpaceSeparatedTokens).OnElements("pre")
	return p
}()

// markdown returns a text of a model or of a user as HTML.
func markdown(text string) template.HTML {
	key := sha256.Sum256([]byte(text))
	if known, ok := rendered.Get(key); ok {
		return known
	}
	var b bytes.Buffer
	if len(text) > maxMarkdown || reader.Convert([]byte(visible(text)), &b) != nil {
		return template.HTML(`<pre class="code">` + html.EscapeString(visible(text)) + "</pre>") //nolint:gosec // escaped
	}
	out := template.HTML(sanitizer.SanitizeBytes(b.Bytes())) //nolint:gosec // sanitized
	rendered.Add(key, out)
	return out
}

// plainNodes writes HTML in the text as text, pictures as the words that describe them, code as the style sheet
// expects it, and headings below those of the page.
type plainNodes struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (plainNodes) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if raw, ok := n.(*ast.RawHTML); ok && entering {
			for i := range raw.Segments.Len() {
				s := raw.Segments.At(i)
				escape(w, s.Value(source))
			}
		}
		return ast.WalkSkipChildren, nil
	})
	r.Register(ast.KindHTMLBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus,
		error) {
		if block, ok := n.(*ast.HTMLBlock); ok && entering {
			_, _ = w.WriteString("<p>")
			writeLines(w, source, n)
			if block.HasClosure() {
				escape(w, block.ClosureLine.Value(source))
			}
			_, _ = w.WriteString("</p>\n")
		}
		return ast.WalkContinue, nil
	})
	code := func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			_, _ = w.WriteString(`<pre class="code">`)
			writeLines(w, source, n)
			_, _ = w.WriteString("</pre>\n")
		}
		return ast.WalkContinue, nil
	}
	r.Register(ast.KindCodeBlock, code)
	r.Register(ast.KindFencedCodeBlock, code)
	r.Register(ast.KindImage, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		text := "[picture: "
		if image, ok := n.(*ast.Image); ok && !entering {
			text = " " + string(image.Destination) + "]"
		}
		escape(w, []byte(text))
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindHeading, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		level := 3
		if h, ok := n.(*ast.Heading); ok {
			level = min(h.Level+2, 5)
		}
		text := "</h" + string(rune('0'+level)) + ">\n"
		if entering {
			text = "<h" + string(rune('0'+level)) + ">"
		}
		_, _ = w.WriteString(text)
		return ast.WalkContinue, nil
	})
}

// escape writes a text as HTML.
func escape(w util.BufWriter, text []byte) { _, _ = w.Write(util.EscapeHTML(text)) }

// writeLines writes the lines of a block as HTML.
func writeLines(w util.BufWriter, source []byte, n ast.Node) {
	for i := range n.Lines().Len() {
		s := n.Lines().At(i)
		escape(w, s.Value(source))
	}
}
