package turn

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A text has no more readings than these, in number and in bytes altogether; where it has, it may be read as anything.
const (
	mostReadings     = 128
	mostReadingBytes = 4 << 20
)

// respellings are what readers are known to do to a text before they take it for a path or an address.
var respellings = []func(string) string{
	visible, fold, forward, unescaped, untilNUL, unquoted, withoutDrive, withoutScheme, withoutHost, withoutQuery, trimmedSegments,
}

// readings are a text in lower case and what any of the respellings, one after the other, make of it. They are complete
// unless there are too many.
func readings(text string) (all []string, complete bool) {
	all = []string{strings.ToLower(text)}
	size := 0
	for i := 0; i < len(all); i++ {
		for _, respell := range respellings {
			next := strings.ToLower(respell(all[i]))
			if slices.Contains(all, next) {
				continue
			}
			if size += len(next); len(all) == mostReadings || size > mostReadingBytes {
				return all, false
			}
			all = append(all, next)
		}
	}
	return all, true
}

func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if hidden(r) {
			return -1
		}
		return r
	}, text)
}

func forward(text string) string { return strings.ReplaceAll(text, `\`, "/") }

// untilNUL is a text up to where C would end it.
func untilNUL(text string) string {
	text, _, _ = strings.Cut(text, "\x00")
	return text
}

func unquoted(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("<>\"'`", r) })
}

// unescaped undoes the escapes of addresses once, each for itself: one that is none does not keep the others.
func unescaped(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2]) {
			out = append(out, hexDigit(text[i+1])<<4|hexDigit(text[i+2]))
			i += 2
			continue
		}
		out = append(out, text[i])
	}
	return string(out)
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

func hexDigit(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// drive is what stands before a path on Windows, as in /c:/x, and on its shares, as in /c$/x.
var drive = regexp.MustCompile(`^/*[a-z][:|$]/`)

func withoutDrive(text string) string { return drive.ReplaceAllString(text, "/") }

var (
	scheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]+:`)
	web    = regexp.MustCompile(`^(https?|wss?):/*[^/]`)
)

// withoutScheme is what an address says to those who find a file by it. The web's are of none.
func withoutScheme(text string) string {
	if web.MatchString(text) {
		return text
	}
	text = scheme.ReplaceAllString(text, "")
	if strings.HasPrefix(text, "///") {
		return text[2:] // behind a host that is not named
	}
	return text
}

// withoutHost is the path of a //host/path.
func withoutHost(text string) string {
	rest, ok := strings.CutPrefix(text, "//")
	if _, inside, found := strings.Cut(rest, "/"); ok && found {
		return "/" + inside
	}
	return text
}

func withoutQuery(text string) string {
	if i := strings.IndexAny(text, "?#"); i >= 0 {
		return text[:i]
	}
	return text
}

// trimmedSegments is a path as servers take it that cut at semicolons, and disks that ignore spaces and dots at the end.
func trimmedSegments(text string) string {
	segments := strings.Split(text, "/")
	for i, segment := range segments {
		segment, _, _ = strings.Cut(segment, ";")
		segment = strings.TrimSpace(segment)
		if strings.Trim(segment, ".") != "" {
			segment = strings.TrimRight(segment, ". ")
		}
		segments[i] = segment
	}
	return strings.Join(segments, "/")
}

var (
	// processRoot is a path through what a process has open, which leads anywhere.
	processRoot = regexp.MustCompile(`(^|/)(proc/[^/]+/(task/[^/]+/)?(root|cwd|exe|fd|map_files)|dev/fd|dev/stdin)(/|$)`)
	// unknown is what only its reader can replace: a short name of Windows (ETC~1), a variable, an escape of few readers.
	unknown = regexp.MustCompile(`~[0-9]|\$|%[a-z_][a-z0-9_]*%([^0-9a-f]|$)|%u[0-9a-f]{4}|%c[01]%`)
)

// evades reports whether a path may lead anywhere, for all that can be told from here. Prose with a dollar sign in it is
// no name.
func evades(pattern, reading string) bool {
	switch {
	case processRoot.MatchString(path.Clean(reading)):
		return true
	case !strings.Contains(pattern, "/"):
		return strings.Contains(reading, "$") && !strings.ContainsFunc(reading, unicode.IsSpace)
	case strings.HasPrefix(pattern, "/") && strings.HasPrefix(strings.TrimLeft(reading, "/"), "~"):
		return true
	}
	return unknown.MatchString(reading)
}
