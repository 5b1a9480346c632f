package page

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// Markdown keeps its meaning; HTML in it is text, and nothing of other sites is loaded.
func TestMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"# A\n\n*b* `c`":              "<h3>A</h3>\n<p><em>b</em> <code>c</code></p>\n",
		"```go\na < b\n```":           "<pre class=\"code\">a &lt; b\n</pre>\n",
		"use <div> and <b onclick=x>": "<p>use &lt;div&gt; and &lt;b onclick=x&gt;</p>\n",
		"<script>\nalert(1)\n":        "<p>&lt;script&gt;\nalert(1)\n</p>\n",
		"![a](https://x.example/p)":   "<p>[picture: a https://x.example/p]</p>\n",
		"[a](javascript:alert(1))":    "<p>a</p>\n",
		"[a](data:text/html,x)":       "<p>a</p>\n",
		"a\u202eb\u200bc":             "<p>a\\u202eb\\u200bc</p>\n",
		"| a |\n|---|\n| 1 |":         "<table>\n<thead>\n<tr>\n<th>a</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>1</td>\n</tr>\n</tbody>\n</table>\n",
		"[a](https://x.example)": `<p><a href="https://x.example" rel="nofollow noreferrer noopener" target="_blank">a</a></p>` +
			"\n",
	} {
		assert.Equal(t, want, string(markdown(text)), text)
	}
	long := strings.Repeat("[", maxMarkdown) + "<b>"
	assert.Equal(t, `<pre class="code">`+strings.Repeat("[", maxMarkdown)+"&lt;b&gt;</pre>", string(markdown(long)))
}

// FuzzMarkdown checks that no text becomes an element that the page does not have.
func FuzzMarkdown(f *testing.F) {
	f.Add("<img src=x onerror=alert(1)>\n\n<!-- -->\n<svg/onload=alert(1)>")
	f.Add("[a](<javascript:x> \"t\")\n\n1. a\n   - b\n\n> c\n\n[x]: data:text/html,y\n[x]")
	f.Fuzz(func(t *testing.T, text string) {
		html := strings.ToLower(string(markdown(text)))
		for _, wrong := range []string{"<script", "<img", "<svg", "<iframe", "<style", "<form", `href="javascript`,
			`href="data`} {
			assert.NotContains(t, html, wrong)
		}
	})
}

// A form has the fields of its schema in their order; one that the page does not know can only be declined.
func TestForms(t *testing.T) {
	f := parseForm(json.RawMessage(`{"type":"object","required":["name"],"properties":{
		"name":{"type":"string","title":"Name","maxLength":20},"mail":{"type":"string","format":"email"},
		"n":{"type":"integer","minimum":1,"default":3},"ok":{"type":"boolean","default":true},
		"one":{"type":"string","enum":["a","b"],"enumNames":["A","B"],"default":"b"},
		"two":{"type":"string","oneOf":[{"const":"x","title":"X"}]},
		"many":{"type":"array","items":{"enum":["p","q"]},"default":["q"]}}}`))
	assert.False(t, f.Wrong)
	assert.Equal(t, []field{
		{Name: "name", Label: "Name", Type: "text", JSON: "string", Required: true, Max: "20"},
		{Name: "mail", Label: "mail", Type: "email", JSON: "string"},
		{Name: "n", Label: "n", Type: "number", JSON: "integer", Value: "3", Min: "1"},
		{Name: "ok", Label: "ok", Type: "boolean", JSON: "boolean", On: true},
		{Name: "one", Label: "one", Type: "choice", JSON: "string", Value: "b",
			Options: []option{{"a", "A", false}, {"b", "B", true}}},
		{Name: "two", Label: "two", Type: "choice", JSON: "string", Options: []option{{"x", "X", false}}},
		{Name: "many", Label: "many", Type: "choices", JSON: "array", Options: []option{{"p", "p", false}, {"q", "q", true}}},
	}, f.Fields)
	for _, schema := range []string{`{"properties":{"a":{"type":"object"}}}`, `{"properties":[]}`, `[]`,
		`{"properties":{"a":{"type":"array"}}}`, `{"properties":{"a":1}}`} {
		assert.True(t, parseForm(json.RawMessage(schema)).Wrong, schema)
	}
	assert.Equal(t, form{}, parseForm(nil), "a request without fields can be accepted")
}

// The lines of a diff have their numbers; what is no diff stays a text.
func TestDiffs(t *testing.T) {
	lines, ok := diffOf("a.go\n@@ -5,2 +5,3 @@ func\n keep\n-old\n+new\n+more\n\\ No newline")
	assert.True(t, ok)
	assert.Equal(t, []diffLine{{"b", "", "a.go"}, {"b", "", "@@ -5,2 +5,3 @@ func"}, {"span", "5", "keep"},
		{"del", "6", "old"}, {"ins", "6", "new"}, {"ins", "7", "more"}, {"b", "", `\ No newline`}}, lines)
	_, ok = diffOf("+ no diff\n- at all")
	assert.False(t, ok)
	edit := editDiff(`{"path":"a","old_string":"x","new_string":"y"}`)
	assert.Contains(t, edit, diffLine{"del", "1", "x"})
	assert.Contains(t, edit, diffLine{"ins", "1", "y"})
	assert.Empty(t, editDiff(`{"path":"a"}`))
}

// A card offers what the request permits, and nothing that allows if the arguments are not those that would run.
func TestRequests(t *testing.T) {
	v := &visit{now: time.Now()}
	r := client.Request{Session: "s", Turn: "t", ID: "1.0", Kind: turn.RequestApproval, Tool: "local/run_command",
		Arguments: `{"command":"go test ./..."}`, MaxGrant: turn.GrantCommand}
	r.ArgumentsHash = turn.HashText(r.Arguments)
	q := v.request(r, 1, 1)
	assert.True(t, q.Exact)
	assert.Equal(t, "go test ./...", q.Command)
	assert.Equal(t, []grant{{turn.GrantCall, "Always these arguments", "a"},
		{turn.GrantCommand, "Always these commands", "c"}},
		q.Grants)
	r.Arguments = r.Arguments[:10]
	q = v.request(r, 1, 1)
	assert.False(t, q.Exact)
	assert.Empty(t, q.Grants)
	q = v.request(client.Request{Kind: turn.RequestElicitation, Tool: "mcp/git/commit",
		Elicitation: &turn.Elicitation{URL: "https://evil\u200b.example/a"}}, 1, 1)
	assert.Equal(t, "mcp/git asks", q.Heading)
	assert.NotContains(t, q.Address+q.Host, "\u200b")
}

func TestFormats(t *testing.T) {
	assert.Equal(t, []string{"0", "999", "1,000", "1,234,567", "-1,000"},
		[]string{number(0), number(999), number(1000), number(1234567), number(-1000)})
	assert.Equal(t, "unpriced", cost(turn.Usage{InputTokens: 1, Unpriced: true}))
	assert.Equal(t, "over $1.00", cost(turn.Usage{InputTokens: 1, Unpriced: true, Cost: turn.Dollar}))
	assert.Equal(t, `a\x00\xffb`, visible("a\x00\xffb"))
}

// A plan shows its steps, how many are done, and which one is current.
func TestPlans(t *testing.T) {
	a, err := newAssets()
	require.NoError(t, err)
	templates, err := parseTemplates(a)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, templates.ExecuteTemplate(&b, "session.html",
		sessionPage{Done: 1, Plan: plan.Progress{Steps: []plan.StepProgress{
			{Description: "Look", State: plan.StateDone, Reflection: "seen"},
			{Description: "Act", Tool: "local/x", State: plan.StateCurrent},
			{Description: "<b>", State: plan.StateDropped}}}}))
	for _, want := range []string{"1 of 3 done", `<progress value="1" max="3"`, `data-s="run" aria-current="step"`, "seen",
		"local/x",
		`class="dropped"><span class="vh">dropped: </span>&lt;b&gt;`} {
		assert.Contains(t, b.String(), want)
	}
}
