package turn

import (
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
)

// coversValue reports whether a pattern surely names a value, whoever reads it. A list or an object is named by its
// exact text only.
func coversValue(pattern string, value any) bool {
	text, ok := value.(string)
	switch value.(type) {
	case []any, map[string]any:
		return canonicalJSON(value) == pattern
	}
	if !ok {
		text = canonicalJSON(value)
	}
	return tame(pattern, text) && spans(pattern, text)
}

// tame reports whether a text means to every reader what it says: it does not climb out of the folder that a pattern
// names, begins where the pattern does, and hides nothing in what some readers decode or leave out.
func tame(pattern, text string) bool {
	if strings.ContainsRune(text, '\\') || strings.ContainsFunc(text, unicode.IsControl) || strings.ContainsRune(text, unicode.ReplacementChar) {
		return false
	}
	for _, anchor := range []string{"/", "~"} {
		if strings.HasPrefix(text, anchor) && !strings.HasPrefix(pattern, anchor) {
			return false
		}
	}
	if len(text) > 1 && text[1] == ':' && !strings.HasPrefix(pattern, text[:2]) {
		return false // a drive, as in C:x
	}
	if strings.Contains(text, ":/") && !strings.Contains(pattern, ":/") {
		return false // an address, as in file:/etc/passwd
	}
	for _, code := range []string{"%2e", "%2f", "%5c", "%00"} { // of . / \ and NUL in addresses
		if strings.Contains(strings.ToLower(text), code) {
			return false
		}
	}
	return !slices.Contains(strings.Split(text, "/"), "..") && sameHost(pattern, text)
}

// sameHost reports whether the host of an address is where the pattern looks for it: in https://*.example.com/x the * is
// not to match "evil.com?", behind which the host would end.
func sameHost(pattern, text string) bool {
	_, want, address := strings.Cut(pattern, "://")
	_, got, _ := strings.Cut(text, "://")
	if !address {
		return true
	}
	want, _, _ = strings.Cut(want, "/")
	got, _, _ = strings.Cut(got, "/")
	for _, end := range []string{"?", "#", "@", ":", "%", " "} {
		if strings.Contains(got, end) && (end == "?" || !strings.Contains(want, end)) {
			return false
		}
	}
	return !strings.ContainsFunc(got, func(r rune) bool { return r > unicode.MaxASCII }) // some become slashes and dots
}

// spans matches a text segment by segment: path.Match for each, which never crosses a slash then, and any number of them
// for a /** at the end. A pattern of what lies in a folder does not name the folder itself.
func spans(pattern, text string) bool {
	if pattern == "**" {
		return true
	}
	pattern, deep := strings.CutSuffix(pattern, "/**")
	for {
		p, restPattern, more := strings.Cut(pattern, "/")
		t, restText, follows := strings.Cut(text, "/")
		if ok, err := path.Match(p, t); err != nil || !ok {
			return false
		}
		if !more {
			return follows == deep && (!deep || path.Clean("/"+restText) != "/")
		}
		if !follows {
			return false
		}
		pattern, text = restPattern, restText
	}
}

// touchesValue reports whether some reader may find in a value, or in what it holds, what a pattern names. Case does not
// count: it does not on many disks, nor in the names of hosts.
func touchesValue(pattern string, value any) bool {
	switch v := value.(type) {
	case string:
		return touchesText(strings.ToLower(pattern), strings.ToLower(v))
	case []any:
		if slices.ContainsFunc(v, func(inner any) bool { return touchesValue(pattern, inner) }) {
			return true
		}
	case map[string]any:
		//workflowcheck:ignore
		for _, inner := range v {
			if touchesValue(pattern, inner) {
				return true
			}
		}
	}
	text := canonicalJSON(value)
	return text == pattern || spans(pattern, text)
}

// longestPath is the length in bytes up to which a text is read as a path in its various spellings: Linux' PATH_MAX.
const longestPath = 4096

// touchesText tries the spellings of a text: a number that is written otherwise, a path with detours, a path from
// elsewhere that ends in the one that is named.
func touchesText(pattern, text string) bool {
	if text == pattern || spans(pattern, text) {
		return true
	}
	if n, ok := canonicalNumber(strings.TrimSpace(text)); ok && spans(pattern, n) {
		return true
	}
	return len(text) <= longestPath && slices.ContainsFunc(spellings(text), func(s string) bool { return leadsTo(pattern, s) })
}

// spellings are a text with slashes of the other kind and the addresses' escapes undone, and without what cannot be seen.
func spellings(text string) []string {
	plain := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.TrimSpace(text))
	plain = strings.ReplaceAll(plain, `\`, "/")
	whole, _, _ := strings.Cut(text, "\x00") // where C would end it
	all := []string{plain, strings.ReplaceAll(whole, `\`, "/")}
	if decoded, err := url.PathUnescape(plain); err == nil && decoded != plain {
		all = append(all, strings.ReplaceAll(decoded, `\`, "/"))
	}
	return all
}

// leadsTo reports whether a path is named by a pattern once its detours are taken out, or lies in the folder that a /**
// names, or may do so from where its reader stands.
func leadsTo(pattern, text string) bool {
	if spans(pattern, text) {
		return true
	}
	pattern, clean := path.Clean(pattern), path.Clean(text)
	folder, deep := strings.CutSuffix(pattern, "/**")
	named := func(s string) bool { return spans(pattern, s) || deep && spans(folder, s) }
	if named(clean) {
		return true
	}
	absolute := strings.HasPrefix(pattern, "/")
	if absolute == strings.HasPrefix(clean, "/") && (absolute || !elsewhere(clean)) {
		return false
	}
	pattern, folder = strings.TrimPrefix(pattern, "/"), strings.TrimPrefix(folder, "/")
	for rest, more := clean, true; more; _, rest, more = strings.Cut(rest, "/") {
		if named(rest) {
			return true
		}
		if !elsewhere(clean) {
			return false
		}
	}
	return false
}

// elsewhere reports whether a clean path does not begin where its reader stands.
func elsewhere(clean string) bool {
	return strings.HasPrefix(clean, "/") || strings.HasPrefix(clean, "..") || strings.HasPrefix(clean, "~") || len(clean) > 1 && clean[1] == ':'
}
