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

// allows returns how certainly a text matches the pattern of a rule that allows: surely if the text is canonical and
// matches, and perhaps if it is not canonical. A wildcard matches neither a sign nor a port, and it matches a query
// only as a part of /**.
func allows(pattern, text string) certainty {
	k := kindOf(pattern)
	if CheckPattern(pattern) != nil || !canonical(k, text) {
		return perhaps
	}
	if k == kindURL {
		var query bool
		text, _, query = strings.Cut(text, "?")
		if query && !strings.HasSuffix(pattern, "/**") || strings.Count(pattern, ":") != strings.Count(text, ":") {
			return never
		}
	}
	// A number has a sign if the pattern has one, and a path is absolute if the pattern is.
	sameStart := strings.IndexByte("/-", pattern[0]) == strings.IndexByte("/-", text[0])
	if sameStart && matchesHost(hostOf(k, pattern), hostOf(k, text)) && matchesSegments(pattern, text) {
		return surely
	}
	return never
}

// hostOf returns the part of a pattern, or of a canonical text without a query, that some reader may take for a host.
// In the names of container images, git remotes and file shares, that is the first segment of a relative path.
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

// matchesHost matches a host label by label, so that 10.0.0.* does not match 10.0.0.example.com, which anyone can own.
// Only * alone and *. at the beginning match several labels of a name. A wildcard matches a last label only if the
// label consists of digits, because such a label is not a top-level domain.
func matchesHost(pattern, host string) bool {
	last, top := pattern[strings.LastIndex(pattern, ".")+1:], host[strings.LastIndex(host, ".")+1:]
	switch {
	case matchesAll(pattern):
		return true
	case address.MatchString(host) && strings.Contains(pattern, "."):
		return matchesSegments(pattern, host)
	case top != host && strings.Trim(top, digits) != "" && strings.ContainsAny(last, "*?"):
		return false
	}
	p, h := strings.ReplaceAll(pattern, ".", "/"), strings.ReplaceAll(host, ".", "/")
	end, several := strings.CutPrefix(p, "*/")
	_, below, more := strings.Cut(h, "/")
	return matchesSegments(p, h) || several && more &&
		anyEnd(below, func(h string) bool { return matchesSegments(end, h) })
}

// denies returns how certainly a text matches the pattern of a rule that denies or asks: surely if it matches,
// canonical or not, and never only if no reader can take it for a value that matches. It ignores the case of letters, a
// URL's scheme and, unless the pattern has one, its port. A pattern for the contents of a folder also matches the
// folder.
func denies(pattern, text string) certainty {
	if CheckPattern(pattern) != nil {
		return perhaps
	}
	k := kindOf(pattern)
	plain := canonical(k, text)
	p, t := strings.ToLower(pattern), strings.ToLower(text)
	switch {
	case matchesOrFolder(p, t), plain && k == kindURL && barsURL(p, t):
		return surely
	case !plain, mayMean(k, p, t):
		return perhaps
	}
	return never
}

func barsURL(pattern, text string) bool {
	u := webURL.FindStringSubmatch(text)
	_, pattern, _ = strings.Cut(strings.TrimSuffix(pattern, "/")+"/", "//")
	pattern = strings.TrimSuffix(strings.NewReplacer(":443/", "/", ":80/", "/").Replace(pattern), "/")
	inside := strings.TrimSuffix("/"+u[3], "/")
	return matchesOrFolder(pattern, u[1]+inside) || matchesOrFolder(pattern, u[1]+u[2]+inside)
}

// mayMean reports whether a canonical text that does not match may be equivalent to a value that does: another word for
// true, another name of this machine, a URL without its scheme, or a path relative to another working directory.
func mayMean(k kind, pattern, text string) bool {
	text, _, _ = strings.Cut(text, "?")
	p, host := hostOf(k, pattern), hostOf(k, text)
	switch k {
	case kindNumber:
		return false
	case kindBool:
		return booleanWords[pattern] == booleanWords[text]
	case kindPath:
		schemeless := p == pattern && strings.Contains(p, ".") && host != text && matchesSegments(p, host)
		if schemeless || leadsTo(pattern, text) {
			return true
		}
	}
	return loopback(p) && loopback(host)
}

func loopback(host string) bool { return host == "localhost" || strings.HasPrefix(host, "127.") }

// leadsTo reports whether a path may be one that the pattern means, if working directories are unknown: the end of a
// path may match a relative pattern, and a relative path may match the end of a pattern. It ignores ends that are all
// wildcards, because they would assume a working directory in the very folder that the pattern names.
func leadsTo(pattern, text string) bool {
	p, patternRooted := strings.CutPrefix(pattern, "/")
	t, textRooted := strings.CutPrefix(text, "/")
	named := func(end string) bool { return strings.Trim(end, "*?/") != "" && matchesOrFolder(end, t) }
	return !patternRooted && anyEnd(t, func(end string) bool { return matchesOrFolder(p, end) }) || !textRooted &&
		anyEnd(p, named)
}

// anyEnd reports whether holds is true of a path, or of the rest of it without some of its first folders.
func anyEnd(path string, holds func(end string) bool) bool {
	for more := true; more; _, path, more = strings.Cut(path, "/") {
		if holds(path) {
			return true
		}
	}
	return false
}

// matchesOrFolder is like spans, and also matches the folder of a /** itself.
func matchesOrFolder(pattern, text string) bool {
	folder, deep := strings.CutSuffix(pattern, "/**")
	return matchesSegments(pattern, text) || deep && matchesSegments(folder, text)
}

// matchesAll reports whether a pattern matches any one value.
func matchesAll(pattern string) bool { return pattern == "*" || pattern == "**" }

// matchesSegments matches a text segment by segment with path.Match. A /** at the end matches any number of segments. A
// pattern for the contents of a folder does not match the folder itself.
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
		if !more {
			return follows == deep && (!deep || restText != "")
		}
		if !follows {
			return false
		}
		pattern, text = restPattern, restText
	}
}
