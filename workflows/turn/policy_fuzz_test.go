package turn_test

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// FuzzRuleArguments checks that a rule that allows docs/** keeps every reader of the arguments inside that folder,
// whatever the model sends and however the reader interprets the path. A pattern that allows a value also denies it in
// a denying rule.
func FuzzRuleArguments(f *testing.F) {
	for _, value := range []string{"docs/a", "docs/../x", `docs\..\x`, "docs/%2e%2e/x", "/docs/a", "docs/a\x00",
		"docs/.\n./x", "docs/a/b/c", "docs/./", "C:docs/a", "file:docs/a",
		"docs/%252e%252e/x", "docs/．．/x", "docs/..;/x", "docs/.. /x", "docs/.\u200b./x", "docs/%%32e./x", "docs/‥/x",
		"docs/..é/x", "\u200b/x", "docs/.$Z./x"} {
		f.Add(path(value))
	}
	for _, arguments := range []string{
		`{"path":"docs/a","PATH":"x"}`, `{"PATH":"docs/a"}`, `{"path":"docs/a","path":"/x"}`, `{"path":["docs/a","x"]}`,
		`{"p\u0061th":"docs\/a"}`, `{"path":"docs/a"}x`,
		`{"path":{"path":"docs/a"}}`, `{"path":"docs/\ud83d"}`, `{"path":"docs/a","pat\u212a":1}`, ``, `null`, `[]`,
		`{"path":1e3}`, `{"path":"1e3"}`,
	} {
		f.Add(arguments)
	}
	f.Fuzz(func(t *testing.T, arguments string) {
		for _, pattern := range []string{"docs/**", "**", "*", "1000", "[a-d]*/?"} {
			if permitted(confined(pattern), arguments) == turn.Allow {
				require.Equal(t, turn.Deny, permitted(barred(pattern), arguments), "%s: what surely matches perhaps matches",
					pattern)
			}
		}
		if permitted(confined("docs/**"), arguments) != turn.Allow {
			return
		}
		for _, found := range readers(t, arguments) {
			for _, way := range spelt(found) {
				at := filepath.Join("/srv", way)
				require.True(t, strings.HasPrefix(at, "/srv/docs/") && !filepath.IsAbs(way), "%q gives %s", arguments, at)
			}
		}
	})
}

// readers returns the paths that a Go struct, which ignores case, and a map find in arguments.
func readers(t *testing.T, arguments string) []string {
	t.Helper()
	var typed struct {
		Path any `json:"path"`
	}
	require.NoError(t, json.Unmarshal([]byte(arguments), &typed))
	var loose map[string]any
	require.NoError(t, json.Unmarshal([]byte(arguments), &loose))
	var found []string
	for _, value := range []any{typed.Path, loose["path"]} {
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, v := range list {
			text, ok := v.(string)
			require.True(t, ok, "a path that is allowed is text")
			found = append(found, text)
		}
	}
	return found
}

// spelt returns the ways in which readers interpret a path: as it is, with slashes either way, decoded once or twice,
// without characters that some readers drop, up to the NUL that ends it in C, with segments trimmed or cut, and with
// look-alike dots.
func spelt(p string) []string {
	ways := []string{p, strings.ReplaceAll(p, `\`, "/"), strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(p),
		strings.TrimSpace(p)}
	if decoded, err := url.PathUnescape(p); err == nil {
		ways = append(ways, strings.ReplaceAll(decoded, `\`, "/"))
		if again, err := url.PathUnescape(decoded); err == nil {
			ways = append(ways, strings.ReplaceAll(again, `\`, "/"))
		}
	}
	cut, _, _ := strings.Cut(p, "\x00")
	ways = append(ways, cut, strings.NewReplacer("．", ".", "․", ".", "‥", "..", "…", "...", "。", ".", "／", "/",
		"＼", "/", "～", "~").Replace(p))
	ways = append(ways, strings.NewReplacer("\u200b", "", "\ufeff", "", "\u00ad", "", "\u2060", "").Replace(p),
		os.Expand(p, func(string) string { return "" }))
	segments := strings.Split(p, "/")
	for i, s := range segments {
		s, _, _ = strings.Cut(s, ";")
		segments[i] = strings.TrimSpace(s)
	}
	return append(ways, strings.Join(segments, "/"))
}

// FuzzRuleAddresses checks that a rule that allows the addresses of one domain's hosts permits calls to no other host.
func FuzzRuleAddresses(f *testing.F) {
	for _, value := range []string{"https://a.example.com/x", "https://evil.com?.example.com/x",
		"https://evil.com#.example.com/", "https://a@b.example.com/", "https://evil.com\\.example.com/x",
		"https://[::1].example.com/", "https://evil.com%2f.example.com/x", "https://a.example.com//evil.com/x",
		"https://evil.com;.example.com/", "https://evil.com&.example.com/", "https://.example.com/",
		"https://evil.com℀.example.com/x", "HTTPS://a.example.com/x", "https://\ta.example.com/x"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if permitted(confined("https://*.example.com/**"), path(value)) != turn.Allow {
			return
		}
		u, err := url.Parse(strings.ToValidUTF8(value, "\ufffd"))
		if err != nil {
			return // no reader uses it
		}
		require.Equal(t, "https", u.Scheme)
		require.Regexp(t, `^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.example\.com$`, u.Host)
		require.Nil(t, u.User)
	})
}

// FuzzRuleDenials checks that a rule denies an address or a path in every spelling.
func FuzzRuleDenials(f *testing.F) {
	for _, value := range []string{"https://u@EVIL.com.:443/x", "//evil.com?x", "https://%65vil.com", "file:///etc/passwd",
		"file://localhost/%65tc/x", "/etc/passwd%zz", "/srv/..;/etc/x", "/srv/．．/etc/x",
		"/e\u200btc/x", "/srv/../etc/x", "/etc", "https:evil.com/x", `https:\\evil.com\x`, "/%2565tc/x",
		"ftp://evil.com:80/x"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		value = strings.ToValidUTF8(value, "\ufffd")
		found := []string{value}
		if u, err := url.Parse(value); err == nil {
			if strings.EqualFold(strings.TrimRight(u.Hostname(), "."), "evil.com") {
				require.NotEqual(t, turn.Allow, permitted(barred("https://evil.com/**"), path(value)), "%q calls it", value)
			}
			if u.Scheme == "file" {
				found = append(found, u.Path)
			}
		}
		for _, name := range found {
			for _, way := range spelt(name) {
				if at := filepath.Clean(way); strings.HasPrefix(at, "/etc/") || at == "/etc" {
					require.NotEqual(t, turn.Allow, permitted(barred("/etc/**"), path(value)), "%q gives %s", value, at)
				}
			}
		}
	})
}

// separators matches what separates, quotes, escapes or encodes values for some reader: all ASCII characters except
// those that URLs and email addresses need.
var separators = regexp.MustCompile(`[^A-Za-z0-9._/@:?=&~-]`)

// FuzzCanonicalValues checks that a rule allows only single values in canonical form, whatever its pattern is, and that
// a pattern without wildcards allows only itself.
func FuzzCanonicalValues(f *testing.F) {
	for _, seed := range [][2]string{
		{"*@corp.com", "attacker@evil.com, a@corp.com"}, {"*@corp.com", "a@corp.com"}, {"1000", "+1000"}, {"1000", "0x3e8"},
		{"0", "-0"}, {"10.0.0.*", "::10.0.0.1"},
		{"https://*.corp.com/**", "https://a.corp.com/x?y=1"}, {"**", "a/b"}, {"~/**", "~/a"}, {"*", "ａ"},
		{"[!-~]*", "a;b"}, {"?", "\n"}, {`\\*`, `*`}, {"//*", "//a"}, {"-*", "-r"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, value string) {
		value = strings.ToValidUTF8(value, "\ufffd")
		list, err := json.Marshal(map[string][]string{"path": {value, value}})
		require.NoError(t, err)
		alone := permitted(confined(pattern), path(value))
		require.Equal(t, alone, permitted(confined(pattern), string(list)), "a list of it is as good as itself")
		if alone != turn.Allow {
			return
		}
		require.NotRegexp(t, separators, value, "%q allows it", pattern)
		require.NotContains(t, strings.Split(value, "/"), "..", "%q allows it", pattern)
		require.LessOrEqual(t, strings.Count(value, "@"), 1, "%q allows it", pattern)
		if !strings.ContainsAny(pattern, `*?[\`) {
			require.Equal(t, pattern, value)
		}
		require.Equal(t, turn.Deny, permitted(barred(pattern), path(value)), "%q", pattern)
	})
}
