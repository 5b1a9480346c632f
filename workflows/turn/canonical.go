package turn

import (
	"errors"
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
	// kindBool: true or false. Readers take many other words and numbers for one of them.
	kindBool
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
	case pattern == "true" || pattern == "false":
		return kindBool
	}
	return kindPath
}

// numericHost reports whether a host pattern is about addresses: digits and dots besides wildcards. A host name may begin
// like an address, 10.0.0.example.com for instance, and anyone can own it.
func numericHost(pattern string) bool {
	return strings.ContainsAny(pattern, "0123456789") && strings.Trim(pattern, "0123456789.*?") == ""
}

// hostOf is the host in a text or pattern of a kind that has one, without a port.
func hostOf(k kind, text string) string {
	switch k {
	case kindHost:
		return text
	case kindEmail:
		return text[strings.LastIndex(text, "@")+1:]
	case kindURL:
		_, host, _ := strings.Cut(text, "//")
		return host[:strings.IndexAny(host+"/", "/:?")]
	}
	return ""
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
	// cidr is a range of addresses (RFC 4632).
	cidr = regexp.MustCompile(`^[0-9.]+/[0-9]+$`)
	// alias is a path through the open files of a process, which may lead to any other path (Linux, proc(5)).
	alias = regexp.MustCompile(`(^|/)(proc/[^/]+|dev/(fd|std[a-z]+))(/|$)`)
)

// canonical reports whether a text is in the canonical form of the kind that a pattern is about.
func canonical(pattern, text string) bool {
	switch kindOf(pattern) {
	case kindNumber:
		return number.MatchString(text) && len(strings.TrimPrefix(text, "-")) <= 15
	case kindBool:
		return text == "true" || text == "false"
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
var wild = regexp.MustCompile(`\*+|\?|^(\.\./)+`)

// CheckPattern returns an error for a pattern of an argument that no value matches, so that a rule with it always asks.
func CheckPattern(pattern string) error {
	switch {
	case strings.ContainsAny(pattern, `[]\`):
		return errors.New(`it must be a pattern of *, ? and /**: write a rule for each alternative instead of [ ] or \`)
	case cidr.MatchString(pattern):
		return errors.New("a range of addresses cannot be a pattern: write 10.0.0.*, or a rule for each prefix")
	case !legible(pattern):
		return errors.New("it must be in canonical form itself (docs/**, not ./docs/**; 1000, not 1e3; ASCII): no value would match it")
	}
	return nil
}

// legible reports whether a pattern is in canonical form itself. ./secrets/** and 0x3e8 are not, and would miss
// the canonical values that they mean; 10.0.0.0/8 means addresses and is written as a path. A pattern with a class such
// as [0-9] is of no kind.
func legible(pattern string) bool {
	if strings.ContainsAny(pattern, `[]\`) || cidr.MatchString(pattern) {
		return false
	}
	filler, k := "x", kindOf(pattern)
	if host := hostOf(k, pattern); numericHost(host) && wild.MatchString(host) {
		pattern = strings.Replace(pattern, host, "1.1.1.1", 1)
	}
	if k == kindNumber {
		filler = "1"
	}
	return canonical(pattern, wild.ReplaceAllString(pattern, filler))
}

// allows weighs a text for a rule that allows: surely if the text is canonical and matches, perhaps if it is not
// canonical.
func allows(pattern, text string) certainty {
	k := kindOf(pattern)
	from, _ := anchor(pattern)
	begins, _ := anchor(text)
	switch {
	case !canonical(pattern, text), !legible(pattern):
		return perhaps
	case numericHost(hostOf(k, pattern)) && !inNumbers.MatchString(hostOf(k, text)):
		return never
	case k == kindURL:
		return allowsURL(pattern, text)
	case from == begins && spans(pattern, text):
		return surely
	}
	return never
}

// allowsURL: a wildcard matches no port and no query. What is below a path, /**, includes its queries.
func allowsURL(pattern, text string) certainty {
	text, _, query := strings.Cut(text, "?")
	samePort := strings.Count(pattern, ":") == strings.Count(text, ":")
	if samePort && (!query || strings.HasSuffix(pattern, "/**")) && spans(pattern, text) {
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
	case !plain, kindOf(pattern) == kindPath && (leadsTo(p, t) || beginsWithHost(p, t)):
		return perhaps
	}
	return never
}

// beginsWithHost reports whether a text may be a URL without its scheme whose host the pattern names.
func beginsWithHost(pattern, text string) bool {
	host, _, more := strings.Cut(text, "/")
	return more && strings.Contains(pattern, ".") && !strings.Contains(pattern, "/") && spans(pattern, host)
}

func barsURL(pattern, text string) bool {
	u := webURL.FindStringSubmatch(text)
	_, pattern, _ = strings.Cut(pattern, "//")
	host, inside, _ := strings.Cut(pattern, "/")
	host = strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80")
	pattern, inside = strings.TrimSuffix(host+"/"+inside, "/"), strings.TrimSuffix("/"+u[4], "/")
	return within(pattern, u[2]+inside) || within(pattern, u[2]+u[3]+inside)
}

// leadsTo reports whether a path may be one that the pattern names, from a working directory that is unknown: the end of
// an absolute path may be a relative pattern, and a relative path the end of an absolute pattern, but for an end that is
// all wildcards: it would mean a working directory in the very folder that the pattern names. A path relative to one folder
// may end in a pattern that is relative to a folder below it.
func leadsTo(pattern, text string) bool {
	from, p := anchor(pattern)
	begins, t := anchor(text)
	if from == "" {
		return anyEnd(t, func(end string) bool { return within(p, end) })
	}
	if from == begins {
		return false
	}
	names := func(end string) bool { return strings.Trim(end, "*?/") != "" && within(end, t) }
	return anyEnd(p, names) || begins != "" && anyEnd(t, func(end string) bool { return within(p, end) })
}

// anyEnd reports whether holds is true of a path or of what is left of it without its first folders.
func anyEnd(path string, holds func(end string) bool) bool {
	for more := true; more; _, path, more = strings.Cut(path, "/") {
		if holds(path) {
			return true
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
