package turn

import (
	"path"
	"strings"
)

// certainty is how certainly a rule applies to a call.
type certainty int

const (
	never certainty = iota
	perhaps
	surely
)

// matchToAllow returns how certainly a text matches the pattern of a rule that allows: surely if the text is
// canonical and matches, perhaps if it is not canonical, and never if it is canonical and does not match. A wildcard
// matches neither a sign nor a port, and it matches a query only as a part of /**.
func matchToAllow(pattern, text string) certainty {
	k := kindOf(pattern)
	if CheckPattern(pattern) != nil || !canonical(k, text) {
		return perhaps
	}
	if k == kindURL {
		var query bool
		text, _, query = strings.Cut(text, "?")
		differentPort := strings.Count(pattern, ":") != strings.Count(text, ":") // only one of them has a port
		if query && !strings.HasSuffix(pattern, "/**") || differentPort {
			return never
		}
	}
	// Both or neither must begin with a sign or a slash, which a wildcard does not match.
	sameStart := strings.IndexByte("/-", pattern[0]) == strings.IndexByte("/-", text[0])
	if sameStart && matchesHost(hostOf(k, pattern), hostOf(k, text)) && matchesSegments(pattern, text) {
		return surely
	}
	return never
}

// hostOf returns the part of a pattern, or of a canonical text without a query, that some reader may interpret as a
// host. For a relative path, that is the first segment, as in container images, git remotes and file shares.
func hostOf(k kind, text string) string {
	switch k {
	case kindEmail:
		text = text[strings.LastIndex(text, "@")+1:]
	case kindURL:
		_, text, _ = strings.Cut(text, "://")
		text, _, _ = strings.Cut(text, ":")
	}
	host, _, _ := strings.Cut(text, "/")
	return host
}

// matchesHost reports whether a canonical host matches the host of a pattern, label by label. So 10.0.0.* does not
// match 10.0.0.example.com, which anyone can own. Only * alone and *. at the beginning match several labels of a name.
// A wildcard matches the last of several labels only if that is a number, because a number is not a top-level domain.
func matchesHost(pattern, host string) bool {
	last, top := pattern[strings.LastIndex(pattern, ".")+1:], host[strings.LastIndex(host, ".")+1:]
	switch {
	case matchesAll(pattern):
		return true
	case address.MatchString(host) && strings.Contains(pattern, "."):
		return matchesSegments(pattern, host) // in an address, a wildcard may match several numbers
	case top != host && strings.Trim(top, digits) != "" && strings.ContainsAny(last, "*?"):
		return false // a wildcard would match every top-level domain
	}
	p, h := strings.ReplaceAll(pattern, ".", "/"), strings.ReplaceAll(host, ".", "/") // labels become segments
	// A *. at the beginning of the pattern stands for one or more labels, so the rest may match any end of the host.
	end, several := strings.CutPrefix(p, "*/")
	_, below, more := strings.Cut(h, "/")
	return matchesSegments(p, h) || several && more &&
		anyEnd(below, func(h string) bool { return matchesSegments(end, h) })
}

// matchToDeny returns how certainly a text matches the pattern of a rule that denies or asks. It is surely if the
// text matches, canonical or not; perhaps if a reader may interpret it as a value that matches; and otherwise never.
// It ignores the case of letters, a URL's scheme and, unless the pattern has one, its port. A pattern for the
// contents of a folder also matches the folder.
func matchToDeny(pattern, text string) certainty {
	if CheckPattern(pattern) != nil {
		return perhaps
	}
	k := kindOf(pattern)
	isCanonical := canonical(k, text)
	p, t := strings.ToLower(pattern), strings.ToLower(text)
	switch {
	case matchesOrFolder(p, t), isCanonical && k == kindURL && matchesURL(p, t):
		return surely
	case !isCanonical, mayBeEquivalent(k, p, t):
		return perhaps
	}
	return never
}

// matchesURL reports whether a canonical URL matches the pattern of a rule that denies or asks, both in lower case.
// It ignores the scheme, the query, a slash at the end, a default port in the pattern, and the URL's port if the
// pattern has none.
func matchesURL(pattern, text string) bool {
	u := webURL.FindStringSubmatch(text)
	_, pattern, _ = strings.Cut(strings.TrimSuffix(pattern, "/")+"/", "//")
	pattern = strings.TrimSuffix(strings.NewReplacer(":443/", "/", ":80/", "/").Replace(pattern), "/")
	host, port, inside := u[1], u[2], strings.TrimSuffix("/"+u[3], "/")
	return matchesOrFolder(pattern, host+inside) || matchesOrFolder(pattern, host+port+inside)
}

// mayBeEquivalent reports whether some reader may take text for a value that the pattern matches, although the pattern
// does not match text: another word for the same boolean, another name of this machine, the URL of a host without its
// scheme, or a path relative to another working directory. A rule that denies or asks then may apply, so when in doubt
// the result is true. pattern is valid (see CheckPattern) and of kind k, text is canonical, and both are in lower case.
func mayBeEquivalent(k kind, pattern, text string) bool {
	text, _, _ = strings.Cut(text, "?") // the query of a URL: no other canonical text has a ?
	p, host := hostOf(k, pattern), hostOf(k, text)
	switch k {
	case kindNumber:
		return false // a number has only one canonical form
	case kindBool:
		return booleanWords[pattern] == booleanWords[text]
	case kindPath:
		isHostName := p == pattern && strings.Contains(p, ".") // such as example.com
		hasPath := host != text                                // such as example.com/index
		if isHostName && hasPath && matchesSegments(p, host) || mayBeSamePath(pattern, text) {
			return true
		}
	}
	return isLoopback(p) && isLoopback(host)
}

// isLoopback reports whether host is a name or an address of this machine.
func isLoopback(host string) bool { return host == "localhost" || strings.HasPrefix(host, "127.") }

// mayBeSamePath reports whether the path text, relative to an unknown working directory, may lead to a path that
// matches the pattern: the end of text may match a relative pattern, and a relative text may match the end of the
// pattern. It ignores ends of the pattern that consist of wildcards only, because the working directory would have to
// be the very folder that the pattern names.
func mayBeSamePath(pattern, text string) bool {
	p, patternRooted := strings.CutPrefix(pattern, "/")
	t, textRooted := strings.CutPrefix(text, "/")
	matchesText := func(end string) bool { return strings.Trim(end, "*?/") != "" && matchesOrFolder(end, t) }
	return !patternRooted && anyEnd(t, func(end string) bool { return matchesOrFolder(p, end) }) ||
		!textRooted && anyEnd(p, matchesText)
}

// anyEnd reports whether holds is true of the path, or of what remains of it after the first segments are removed.
func anyEnd(path string, holds func(end string) bool) bool {
	for more := true; more; _, path, more = strings.Cut(path, "/") {
		if holds(path) {
			return true
		}
	}
	return false
}

// matchesOrFolder reports what matchesSegments does. In addition, a pattern that ends in /** matches the folder
// itself.
func matchesOrFolder(pattern, text string) bool {
	folder, deep := strings.CutSuffix(pattern, "/**")
	return matchesSegments(pattern, text) || deep && matchesSegments(folder, text)
}

// matchesAll reports whether a pattern matches any one value.
func matchesAll(pattern string) bool { return pattern == "*" || pattern == "**" }

// matchesSegments reports whether a text matches a pattern, segment by segment with path.Match. A /** at the end of
// the pattern matches one or more segments, so a pattern for the contents of a folder does not match the folder
// itself. The pattern ** matches every text.
func matchesSegments(pattern, text string) bool {
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
		if !more { // the pattern has ended: the text has further segments exactly if the pattern had /**
			return follows == deep && (!deep || restText != "")
		}
		if !follows {
			return false
		}
		pattern, text = restPattern, restText
	}
}
