package printable

import (
	"net/url"
	"regexp"
	"strings"
)

// hidden replaces a part of a URL that may be a key.
const hidden = "hidden"

// known matches path segments that cannot be keys: the empty one, common names of endpoints, versions, and references
// to environment variables.
var known = regexp.MustCompile(
	`^(|mcp|sse|rpc|api|apis|openai|oauth|oauth2|token|tokens|auth|server|servers|stream|http|v[0-9]{1,2}((alpha|beta)[0-9]?)?|\$\{\w+\})$`)

// reference matches a reference to an environment variable, such as ${TOKEN}.
var reference = regexp.MustCompile(`^\$\{\w+\}$`)

// Address returns a URL for display. Because some servers take keys in URLs, it replaces user name and password, the
// path segments that may be keys, and the values of the query with "hidden". References to environment variables
// stay. The result is empty if raw is not a URL with a host.
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
	raw, query, hasQuery := strings.Cut(raw, "?")
	out += u.Host + strings.Join(showParts(pathOf(raw), "/", func(s string) string { return known.FindString(s) }), "/")
	if hasQuery {
		out += "?" + strings.Join(showParts(query, "&", func(s string) string {
			if name, value, ok := strings.Cut(s, "="); ok {
				return name + "=" + orHidden(reference.FindString(value), value)
			}
			return reference.FindString(s)
		}), "&")
	}
	return out
}

// WithoutPassword returns a URL for display in which "hidden" replaces only the password: that of the user, and those
// in the query of a connection string of Postgres. A text with references (${VAR}) is returned unchanged, because its
// host depends on their values. So is a text that is not a URL.
func WithoutPassword(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || strings.Contains(raw, "${") {
		return raw
	}
	query := strings.Join(showParts(u.RawQuery, "&", func(s string) string {
		if name, _, ok := strings.Cut(s, "="); ok && (name == "password" || name == "sslpassword") {
			return name + "=" + hidden
		}
		return s
	}), "&")
	_, ok := u.User.Password()
	if !ok && query == u.RawQuery {
		return raw
	}
	if u.RawQuery = query; ok {
		u.User = url.UserPassword(u.User.Username(), hidden)
	}
	return u.String()
}

// Hidden returns the segments of a URL's path that Address replaces. path is the whole path if there are any, and
// otherwise empty.
func Hidden(raw string) (segments []string, path string) {
	raw, _, _ = strings.Cut(raw, "?")
	for s := range strings.SplitSeq(pathOf(raw), "/") {
		if !known.MatchString(s) {
			segments, path = append(segments, s), pathOf(raw)
		}
	}
	return segments, path
}

// pathOf returns the path of a URL without decoding it, with everything that follows it.
func pathOf(raw string) string {
	_, rest, _ := strings.Cut(raw, "://")
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[i:]
	}
	return ""
}

// showParts splits s at the separators and replaces each part by what show returns. If show returns "" for a part that
// is not empty, the part is replaced with hidden.
func showParts(s, separator string, show func(string) string) []string {
	parts := strings.Split(s, separator)
	for i, part := range parts {
		parts[i] = orHidden(show(part), part)
	}
	return parts
}

// orHidden returns shown, or hidden if shown is empty but the part is not.
func orHidden(shown, part string) string {
	if shown == "" && part != "" {
		return hidden
	}
	return shown
}
