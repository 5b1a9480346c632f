package turn

import (
	"errors"
	"net/netip"
	"regexp"
	"strings"
)

// kind is the kind of value that a pattern describes. Each kind has one canonical form, which all readers parse in the
// same way. The form is ASCII without characters that separate, quote, escape or encode, so a wildcard never matches
// across them. Rules do not interpret other spellings.
type kind string

// The kinds, each with its canonical form as an error message describes it.
const (
	// kindPath is portable file names (POSIX.1-2017, 3.282). A word and a host name are paths of one segment.
	kindPath kind = "a path of ASCII letters, digits, ., _ and - between single slashes, without ., .. and ~, " +
		"such as docs/** or /srv/*.txt"
	// kindNumber has at most 15 digits, so that a float64 holds it exactly.
	kindNumber kind = "a decimal number of at most 15 digits, without exponent, plus sign or redundant zeros: 1000"
	kindHost   kind = "an address of four decimal numbers, such as 10.0.0.* or 192.168.*.*"
	kindEmail  kind = "one mailbox, @ and a host in lower case, such as *@corp.com"
	kindURL    kind = "scheme://host in lower case, without a default port, and a path, such as https://*.corp.com/**"
	kindBool   kind = "true or false, in lower case"
)

// A segment of a path does not end in a dot, so it is neither . nor .., and Windows cannot drop the dot. The first
// segment does not begin like an option.
const (
	segment = `[A-Za-z0-9._-]*[A-Za-z0-9_-]`
	first   = `([A-Za-z0-9_]|[A-Za-z0-9._]` + segment + `)`
	label   = `[a-z0-9]([a-z0-9-]*[a-z0-9])?`
)

var (
	filePath = regexp.MustCompile(`^/?` + first + `(/` + segment + `)*$`)
	number   = regexp.MustCompile(`^(0|-?([1-9][0-9]*(\.[0-9]*[1-9])?|0\.[0-9]*[1-9]))$`)
	hostName = regexp.MustCompile(`^(` + label + `\.)*` + label + `$`)
	// numericHost matches a host that readers take for an IPv4 address (WHATWG URL, 3.5).
	numericHost = regexp.MustCompile(`(^|\.)([0-9]+|0x[0-9a-f]*)$`)
	mailbox     = regexp.MustCompile(`^` + first + `@`)
	// webURL matches a URL, with the groups host, port, path and query.
	webURL = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://([^/?:]+)(:[1-9][0-9]{0,4})?` +
		`(?:/((?:` + segment + `/)*(?:` + segment + `)?))?(\?[A-Za-z0-9._=&-]*)?$`)
	defaultPort = regexp.MustCompile(`^(https://[^/]*:443|http://[^/]*:80)([/?]|$)`)
	// alias matches a path through the open files of a process, which may lead to any other path (Linux, proc(5)).
	alias = regexp.MustCompile(`(^|/)(proc/[^/]+|dev/(fd|std[a-z]+))(/|$)`)
	// otherNumber matches a pattern of numbers with an exponent or in another base.
	otherNumber = regexp.MustCompile(`^(?i)[+-]?(0[xob][0-9a-f*?]+|[0-9.*?]+e[+-]?[0-9*?]+)$`)
	address     = regexp.MustCompile(`^[0-9]+(\.[0-9]+)+$`)
	// addressRange matches a range of addresses (RFC 4632).
	addressRange = regexp.MustCompile(`^[0-9.]+/[0-9]+$`)
	wildcards    = regexp.MustCompile(`\*+|\?`)
)

// booleanWords maps the words that readers take for a boolean to their values.
var booleanWords = map[string]bool{"true": true, "yes": true, "on": true, "false": false, "no": false, "off": false}

// kindOf returns the kind of values that a pattern describes, judged by the form of the pattern:
// https://*.corp.com/** describes URLs, *@corp.com email addresses, 10.0.0.* hosts, 1000 numbers, true booleans, and
// anything else paths.
func kindOf(pattern string) kind {
	ofNumbers := numeric(strings.TrimLeft(pattern, "+-"))
	_, boolean := booleanWords[strings.ToLower(strings.Trim(pattern, "*?"))]
	switch {
	case strings.Contains(pattern, "://"):
		return kindURL
	case strings.Contains(pattern, "@"):
		return kindEmail
	case ofNumbers && strings.Count(pattern, ".") >= 2:
		return kindHost
	case ofNumbers || otherNumber.MatchString(pattern):
		return kindNumber
	case boolean:
		return kindBool
	}
	return kindPath
}

const digits = "0123456789"

// numeric reports whether a pattern consists of digits, dots and wildcards.
func numeric(pattern string) bool {
	return strings.ContainsAny(pattern, digits) && strings.Trim(pattern, digits+".*?") == ""
}

// canonical reports whether a text is in the canonical form of a kind.
func canonical(k kind, text string) bool {
	switch k {
	case kindNumber:
		return number.MatchString(text) && len(strings.TrimPrefix(text, "-")) <= 15
	case kindBool:
		_, ok := booleanWords[text]
		return ok
	case kindHost:
		return canonicalHost(text)
	case kindEmail:
		_, host, _ := strings.Cut(text, "@")
		return mailbox.MatchString(text) && canonicalHost(host)
	case kindURL:
		u := webURL.FindStringSubmatch(text)
		return u != nil && canonicalHost(u[1]) && !defaultPort.MatchString(text)
	}
	return filePath.MatchString(text) && !alias.MatchString(strings.ToLower(text))
}

// canonicalHost reports whether host is a host name in lower case or an IPv4 address of four decimal numbers. A name
// whose last label is a number must be such an address, because readers parse it as one.
func canonicalHost(host string) bool {
	if numericHost.MatchString(host) {
		ip, err := netip.ParseAddr(host)
		return err == nil && ip.Is4()
	}
	return hostName.MatchString(host)
}

// CheckPattern returns an error if the pattern of a rule is invalid or not in canonical form. Rules match only
// canonical values, so such a pattern could never match what it means; configuration refuses it. The error completes
// the sentence "the pattern must be …".
func CheckPattern(pattern string) error {
	inner := strings.TrimSuffix(pattern, "/**")
	k := kindOf(pattern)
	noHost := k == kindURL && strings.HasSuffix(inner, "/") && strings.Count(inner, "/") < 3 // as of https://**
	switch {
	case matchesAll(pattern):
		return nil
	case strings.ContainsAny(pattern, `[]\`):
		return errors.New(`a pattern of *, ? and /**: write a rule for each alternative instead of [ ] or \`)
	case strings.Contains(inner, "**") || noHost:
		return errors.New("a pattern with ** only as /** at its end, or ** alone")
	case inner != "" && strings.HasSuffix(inner, "/"):
		return errors.New("a pattern without a slash at its end: docs/** is all below docs")
	case addressRange.MatchString(pattern):
		return errors.New("a pattern of addresses, not a range: write 10.0.0.*, or a rule for each prefix")
	}
	// A pattern is in canonical form if it is still canonical with a character in place of each wildcard.
	filler := "x"
	if host := hostOf(k, pattern); k == kindNumber {
		filler = "1"
	} else if k != kindPath && wildcards.MatchString(host) && numeric(host) {
		pattern = strings.Replace(pattern, host, "1.1.1.1", 1) // 10.0.* with a letter would not be an address
	}
	switch {
	case !canonical(k, wildcards.ReplaceAllString(pattern, filler)):
		return errors.New(string(k)) // the description of the canonical form
	case k == kindPath && strings.Trim(pattern, "*/") != "" && alphanumeric(pattern) == "":
		// Such as ??? or *.*: it matches values by their length or punctuation alone. /* and /** are a folder's content.
		return errors.New("* or ** for any value, or a pattern with at least one letter or digit")
	}
	return nil
}
