package printable

import (
	"net/url"
	"regexp"
	"strings"
)

// hidden stands for a part of a URL that may be a key.
const hidden = "hidden"

// known matches path segments that cannot be keys: common names of endpoints, versions, and references to environment
// variables.
var known = regexp.MustCompile(
	`^(|mcp|sse|rpc|api|apis|openai|oauth|oauth2|token|tokens|auth|server|servers|stream|http|v[0-9]{1,2}((alpha|beta)[0-9]?)?|\$\{\w+\})$`)

var reference = regexp.MustCompile(`^\$\{\w+\}$`)

// Address returns a URL for display: scheme, host, and the path segments that cannot be keys. User name, password,
// other segments and the query's values are replaced with "hidden", because some servers take keys there; a reference
// to an environment variable is shown. The result is empty if raw is not a URL with a host.
func Address(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	out := u.Scheme + "://"
	if u.User != nil {
		out += hidden + "@"
	}
	raw, _, _ = strings.Cut(raw, "#")
	raw, query, asked := strings.Cut(raw, "?")
	out += u.Host + strings.Join(each(pathOf(raw), "/", func(s string) string { return known.FindString(s) }), "/")
	if asked {
		out += "?" + strings.Join(each(query, "&", func(s string) string {
			if name, value, ok := strings.Cut(s, "="); ok {
				return name + "=" + orHidden(reference.FindString(value), value)
			}
			return reference.FindString(s)
		}), "&")
	}
	return out
}

// Hidden returns the segments of a URL's path that Address hides, and the path if there are any.
func Hidden(raw string) (segments []string, path string) {
	raw, _, _ = strings.Cut(raw, "?")
	for s := range strings.SplitSeq(pathOf(raw), "/") {
		if !known.MatchString(s) {
			segments, path = append(segments, s), pathOf(raw)
		}
	}
	return segments, path
}

// pathOf returns the path of a URL as it is written.
func pathOf(raw string) string {
	_, rest, _ := strings.Cut(raw, "://")
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[i:]
	}
	return ""
}

// each applies show to every part of s. It replaces a part with hidden if the part is not empty and show returns "".
func each(s, separator string, show func(string) string) []string {
	parts := strings.Split(s, separator)
	for i, part := range parts {
		parts[i] = orHidden(show(part), part)
	}
	return parts
}

func orHidden(shown, part string) string {
	if shown == "" && part != "" {
		return hidden
	}
	return shown
}
