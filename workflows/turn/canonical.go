package turn

import (
	"net/netip"
	"path"
	"regexp"
	"strings"
)

// kind is the kind of values that a rule's pattern is about: see kindOf. Each kind has one canonical form, in ASCII,
// that every reader takes for the same thing. No canonical form contains characters that separate, quote, escape or
// encode, so a wildcard never matches across them. A rule does not interpret any other spelling: it asks.
type kind int

const (
	// kindPath: portable file names (POSIX.1-2017, 3.282) between single slashes, absolute, relative, or below ~/ if the
	// pattern is. A plain word and a host name are paths of one segment.
	kindPath kind = iota
	// kindNumber: a decimal number without exponent, plus sign or redundant zeros, in at most 15 characters, so that a
	// float64 holds it exactly.
	kindNumber
	// kindHost: a host name in lower case, or an IPv4 address in four decimal numbers.
	kindHost
	// kindEmail: one mailbox: a portable file name, @, and a host.
	kindEmail
	// kindURL: scheme://host, a port that is not the scheme's default, a path, and a query without escapes.
	kindURL
)

// kindOf returns the kind that a pattern is about, by how it is written: https://*.corp.com/** is about URLs,
// *@corp.com about email, 10.0.0.* about hosts, 1000 about numbers, and everything else about paths.
func kindOf(pattern string) kind {
	digits := strings.ContainsAny(pattern, "0123456789") && strings.Trim(pattern, "0123456789.-+*?") == ""
	numeric := digits && strings.LastIndex(pattern, "-") <= 0 // a date is none
	switch {
	case strings.Contains(pattern, "://") || strings.HasPrefix(pattern, "//"):
		return kindURL
	case strings.Contains(pattern, "@"):
		return kindEmail
	case numeric && strings.Count(pattern, ".") >= 2:
		return kindHost
	case numeric || spelledNumber.MatchString(pattern):
		return kindNumber
	}
	return kindPath
}

var (
	// portable is one segment. It does not end in a dot: it is neither . nor .., and Windows drops such a dot.
	portable = regexp.MustCompile(`^[A-Za-z0-9._-]*[A-Za-z0-9_-]$`)
	number   = regexp.MustCompile(`^(0|-?([1-9][0-9]*(\.[0-9]*[1-9])?|0\.[0-9]*[1-9]))$`)
	hostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	// inNumbers is what readers take for an IPv4 address (WHATWG URL, 3.5).
	inNumbers = regexp.MustCompile(`(^|\.)([0-9]+|0x[0-9a-f]*)$`)
	// webURL has the groups scheme, host, port, path and query.
	webURL = regexp.MustCompile(`^([a-z][a-z0-9+.-]*)://([^/?:]+)(:[1-9][0-9]{0,4})?` +
		`(?:/([A-Za-z0-9._/-]*))?(\?[A-Za-z0-9._=&-]*)?$`)
	// spelledNumber is a number that is not in canonical form.
	spelledNumber = regexp.MustCompile(`^(?i)[+-]?(0[xob][0-9a-f]+|[0-9.]+e[+-]?[0-9]+)$`)
	// alias is a path through the open files of a process, which may lead to any other path (Linux, proc(5)).
	alias = regexp.MustCompile(`(^|/)(proc/[^/]+|dev/(fd|std[a-z]+))(/|$)`)
)

// canonical reports whether a text is in the canonical form of the kind that a pattern is about.
func canonical(pattern, text string) bool {
	switch kindOf(pattern) {
	case kindNumber:
		return number.MatchString(text) && len(strings.TrimPrefix(text, "-")) <= 15
	case kindHost:
		return canonicalHost(text)
	case kindEmail:
		mailbox, host, _ := strings.Cut(text, "@")
		return portable.MatchString(mailbox) && mailbox[0] != '-' && canonicalHost(host)
	case kindURL:
		u := webURL.FindStringSubmatch(text)
		if u == nil || u[1] == "https" && u[3] == ":443" || u[1] == "http" && u[3] == ":80" {
			return false
		}
		inside := strings.TrimSuffix(u[4], "/")
		return canonicalHost(u[2]) && u[4] != "/" && (inside == "" || allPortable(inside))
	}
	from, inside := anchor(text)
	home := from == "~/" && !strings.HasPrefix(pattern, "~/")
	return !home && allPortable(inside) && inside[0] != '-' && !alias.MatchString(strings.ToLower(text))
}

func allPortable(text string) bool {
	for segment := range strings.SplitSeq(text, "/") {
		if !portable.MatchString(segment) {
			return false
		}
	}
	return true
}

func canonicalHost(host string) bool {
	if inNumbers.MatchString(host) {
		ip, err := netip.ParseAddr(host)
		return err == nil && ip.Is4()
	}
	return hostName.MatchString(host)
}

// anchor splits a path into where it begins and the rest. A relative path has an empty anchor.
func anchor(text string) (from, inside string) {
	for _, from := range []string{"/", "~/"} {
		if inside, ok := strings.CutPrefix(text, from); ok {
			return from, inside
		}
	}
	return "", text
}

// wild matches the wildcards of a pattern, and a leading ../, which only values that are not canonical have.
var wild = regexp.MustCompile(`\*+|\?|\[[^\]]*\]|^(\.\./)+`)

// legible reports whether a pattern is in canonical form itself. ./secrets/** and 0x3e8 are not, and would miss
// the canonical values that they mean.
func legible(pattern string) bool {
	filler := "x"
	switch k := kindOf(pattern); {
	case k == kindHost && wild.MatchString(pattern):
		return true
	case k == kindHost || k == kindNumber:
		filler = "1"
	}
	return canonical(pattern, wild.ReplaceAllString(pattern, filler))
}

// allows weighs a text for a rule that allows: surely if the text is canonical and matches, perhaps if it is not
// canonical.
func allows(pattern, text string) certainty {
	from, _ := anchor(pattern)
	begins, _ := anchor(text)
	switch {
	case !canonical(pattern, text):
		return perhaps
	case kindOf(pattern) == kindURL && strings.Count(pattern, ":") != strings.Count(text, ":"): // a * matches no port
		return never
	case from == begins && spans(pattern, text):
		return surely
	}
	return never
}

// bars weighs a text for a rule that denies or asks: surely if it matches, canonical or not. It ignores the case of
// letters, a URL's scheme and, unless the pattern has one, its port. A pattern of what is in a folder matches the folder.
func bars(pattern, text string) certainty {
	if !legible(pattern) {
		return perhaps
	}
	plain := canonical(pattern, text)
	p, t := strings.ToLower(pattern), strings.ToLower(text)
	switch {
	case within(p, t), plain && kindOf(pattern) == kindURL && barsURL(p, t):
		return surely
	case !plain, kindOf(pattern) == kindPath && leadsTo(p, t):
		return perhaps
	}
	return never
}

func barsURL(pattern, text string) bool {
	u := webURL.FindStringSubmatch(text)
	_, pattern, _ = strings.Cut(pattern, "//")
	host, inside, _ := strings.Cut(pattern, "/")
	host = strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80")
	pattern, inside = strings.TrimSuffix(host+"/"+inside, "/"), strings.TrimSuffix("/"+u[4], "/")
	return within(pattern, u[2]+inside) || within(pattern, u[2]+u[3]+inside)
}

// leadsTo reports whether an absolute and a relative path, of which the pattern is one, may be the same: the reader's
// working directory is unknown.
func leadsTo(pattern, text string) bool {
	from, p := anchor(pattern)
	begins, t := anchor(text)
	for more := from != begins; more; _, t, more = strings.Cut(t, "/") {
		if within(p, t) {
			return true
		}
		if begins == "" {
			return false
		}
	}
	return false
}

// within is spans, and also matches the folder of a /** itself.
func within(pattern, text string) bool {
	folder, deep := strings.CutSuffix(pattern, "/**")
	return spans(pattern, text) || deep && spans(folder, text)
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
			return follows == deep && (!deep || restText != "")
		}
		if !follows {
			return false
		}
		pattern, text = restPattern, restText
	}
}
