package turn

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tame reports whether a text means to every reader what it says: it does not climb out of the folder that a pattern
// names, begins where the pattern does, and hides nothing in what some readers decode, fold or leave out.
func tame(pattern, text string) bool {
	if strings.ContainsRune(text, unicode.ReplacementChar) || escapes(text) {
		return false
	}
	decoded := unescaped(text)
	folded := fold(decoded)
	for _, s := range []string{text, decoded, folded} {
		if strings.ContainsRune(s, '\\') || strings.ContainsFunc(s, unicode.IsControl) || strings.Count(s, "/") != strings.Count(text, "/") {
			return false
		}
		if !anchored(pattern, s) || !anchored(pattern, strings.TrimSpace(s)) {
			return false
		}
	}
	return !slices.ContainsFunc(strings.Split(decoded, "/"), climbs) && !slices.ContainsFunc(strings.Split(text, "/"), climbs) && sameHost(pattern, text)
}

// escapes reports whether a text has escapes that are not plain to all: of . / \ and NUL, of bytes that are no text, of
// other escapes.
func escapes(text string) bool {
	for _, code := range []string{"%2e", "%2f", "%5c", "%00", "%25", "%u"} {
		if strings.Contains(strings.ToLower(text), code) {
			return true
		}
	}
	decoded := unescaped(text)
	return !utf8.ValidString(decoded) || unescaped(decoded) != decoded
}

// variable is what a shell, or what expands as shells do, replaces by what it alone knows.
var variable = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*|[0-9*#$@!?-]|\{[^/}]*\}?|\([^/)]*\)?)|%[A-Za-z_][A-Za-z0-9_]*%`)

// anchored reports whether a text begins where a pattern does: at the root, at home, on a drive, at an address, or where
// its reader stands.
func anchored(pattern, text string) bool {
	for _, anchor := range []string{"//", "/", "~"} {
		if strings.HasPrefix(text, anchor) && !strings.HasPrefix(pattern, anchor) {
			return false
		}
	}
	if at := variable.FindStringIndex(text); at != nil && at[0] == 0 && !strings.HasPrefix(pattern, text[:1]) {
		return false
	}
	if len(text) > 1 && text[1] == ':' && !strings.HasPrefix(pattern, text[:2]) {
		return false // a drive, as in C:x
	}
	for _, mark := range []string{":/", "://"} {
		if strings.Contains(text, mark) && !strings.Contains(pattern, mark) {
			return false // an address, as in file:/etc/passwd
		}
	}
	return strings.Contains(pattern, ":") || !bareAddress.MatchString(text)
}

// bareAddress is an address without slashes, as in https:evil.com, which browsers take.
var bareAddress = regexp.MustCompile(`^(?i)(file|https?|wss?|ftp):`)

// climbs reports whether some reader may take a segment of a path for "..", one that cuts it at what else has a meaning in
// addresses, trims it, folds it, leaves out what is not ASCII, or replaces variables by nothing; or for the folder itself,
// where it does not look like that. Three dots are a name.
func climbs(segment string) bool {
	bare := variable.ReplaceAllString(segment, "")
	replaced := bare != segment
	if i := strings.IndexAny(bare, ";?#:&,|"); i >= 0 {
		bare = bare[:i]
	}
	ascii := strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return -1
		}
		return r
	}, bare)
	if seen := strings.Join(strings.Fields(fold(bare)), ""); (seen == "" || seen == ".") && seen != segment {
		return true
	}
	for _, s := range []string{fold(bare), ascii} {
		s = strings.Join(strings.Fields(s), "")
		if strings.Trim(s, ".") == "" && (s == ".." || replaced || len(s) > 1 && s != bare) {
			return true
		}
	}
	return false
}

// addressScheme is what may stand before the :// of an address.
var addressScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)

// sameHost reports whether the host of an address is where the pattern looks for it: in https://*.example.com/x the *
// stands for one or more of the characters of hosts, and not for "evil.com?", behind which the host would end.
func sameHost(pattern, text string) bool {
	_, want, address := strings.Cut(pattern, "://")
	before, got, _ := strings.Cut(text, "://")
	if !address {
		if want, address = strings.CutPrefix(pattern, "//"); !address {
			return true
		}
		before, got = "x", strings.TrimPrefix(text, "//")
	}
	want, _, _ = strings.Cut(want, "/")
	got, _, _ = strings.Cut(got, "/")
	if !addressScheme.MatchString(before) || marks(got, false) != marks(want, true) {
		return false
	}
	if want != "" && (got == "" || strings.HasPrefix(got, ".") || strings.Contains(got, "..")) {
		return false
	}
	if strings.ContainsAny(want, `[\`) {
		return true
	}
	ok, err := path.Match(strings.ReplaceAll(stars.ReplaceAllString(want, "*"), "*", "?*"), got)
	return err == nil && ok
}

var stars = regexp.MustCompile(`\*+`)

// marks are the characters of an authority that hosts are not made of: a pattern's are those that it has literally.
func marks(authority string, pattern bool) string {
	var out []rune
	class, escaped := false, false
	for _, r := range authority {
		switch {
		case pattern && r == '\\' && !escaped:
			escaped = true
			continue
		case pattern && !escaped && (class || r == '['):
			class = r != ']'
			continue
		case pattern && !escaped && (r == '*' || r == '?'), inHost(r):
		default:
			out = append(out, r)
		}
		escaped = false
	}
	return string(out)
}
