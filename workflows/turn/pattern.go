package turn

import (
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

// touchesText tries the readings of a text: a number that is written otherwise, a path with detours, a path from elsewhere
// that ends in the one that is named, an address of the same host. What cannot be read to its end counts, and so does any
// text where the pattern itself cannot be read.
func touchesText(pattern, text string) bool {
	if text == pattern || spans(pattern, text) || malformed(pattern) || composedOtherwise(pattern, text) {
		return true
	}
	all, complete := readings(text)
	if !complete {
		return true
	}
	patterns := []string{pattern, fold(pattern)}
	if local, ok := strings.CutPrefix(pattern, "file:"); ok {
		patterns = append(patterns, withoutHost(local))
	}
	return slices.ContainsFunc(slices.Compact(patterns), func(p string) bool {
		return slices.ContainsFunc(all, func(reading string) bool { return touchesReading(p, reading) })
	})
}

func touchesReading(pattern, reading string) bool {
	if n, ok := canonicalNumber(reading); ok && spans(pattern, n) {
		return true
	}
	if leadsTo(pattern, reading) || leadsHome(pattern, reading) {
		return true
	}
	place, ok := addressIn(pattern)
	if ok && place.touches(reading) {
		return true
	}
	return !strings.Contains(pattern, "://") && !web.MatchString(reading) && evades(pattern, reading)
}

func malformed(pattern string) bool {
	return slices.ContainsFunc(strings.Split(pattern, "/"), func(segment string) bool {
		_, err := path.Match(segment, "")
		return err != nil
	})
}

// composedOtherwise reports whether one of two texts has accents of their own and the other may have the same ones within
// its letters. Some disks do not tell them apart.
func composedOtherwise(pattern, text string) bool {
	accents := func(s string) bool {
		return strings.ContainsFunc(s, func(r rune) bool { return unicode.Is(unicode.Mn, r) && !hidden(r) })
	}
	beyond := func(s string) bool { return strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) }
	return accents(text) && beyond(pattern) || accents(pattern) && beyond(text)
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
	absolute, away := strings.HasPrefix(pattern, "/"), elsewhere(text) || elsewhere(clean)
	if absolute == strings.HasPrefix(clean, "/") && (absolute || !away) {
		return false
	}
	pattern, folder = strings.TrimPrefix(pattern, "/"), strings.TrimPrefix(folder, "/")
	for rest, more := clean, true; more; _, rest, more = strings.Cut(rest, "/") {
		if named(rest) {
			return true
		}
		if !away {
			return false
		}
	}
	return false
}

// homes are where people's folders are, on one system or another.
var homes = []string{"/home/", "/root/", "/users/", "/var/", "/export/home/"}

// leadsHome reports whether a text may lead to what a pattern names in a home folder, wherever that is.
func leadsHome(pattern, text string) bool {
	_, inside, ok := strings.Cut(pattern, "/")
	if !ok || !strings.HasPrefix(pattern, "~") {
		return false
	}
	if strings.Trim(inside, "*/") != "" {
		return leadsTo(inside, text)
	}
	clean := path.Clean(text) + "/"
	return strings.HasPrefix(text, "~") || slices.ContainsFunc(homes, func(home string) bool { return strings.HasPrefix(clean, home) })
}

// elsewhere reports whether a path does not begin where its reader stands.
func elsewhere(clean string) bool {
	return strings.HasPrefix(clean, "/") || strings.HasPrefix(clean, "..") || strings.HasPrefix(clean, "~") || len(clean) > 1 && clean[1] == ':'
}
