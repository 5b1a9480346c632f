package turn

import (
	"net/netip"
	"path"
	"strconv"
	"strings"
)

// address is what a pattern says of addresses, whatever their scheme.
type address struct {
	host, path string
	bare       bool // names it also where a text has neither scheme nor slashes
}

// addressIn is the address that a pattern names: one with a scheme, or what begins like the name of a host.
func addressIn(pattern string) (address, bool) {
	before, rest, whole := strings.Cut(pattern, "://")
	if !whole {
		rest, whole = strings.CutPrefix(pattern, "//")
		before = ""
	}
	if !whole {
		rest = pattern
	}
	host, _, _ := strings.Cut(rest, "/")
	if before == "file" || host == "" || !whole && strings.Index(host, ".") <= 0 {
		return address{}, false
	}
	a := address{host: strings.TrimRight(host, "."), path: rest[len(host):], bare: whole && strings.Trim(host, "*?.") != ""}
	for _, port := range []string{":443", ":80"} {
		a.host = strings.TrimSuffix(a.host, port)
	}
	if host == "**" {
		a.path = "/**"
	}
	return a, true
}

// touches reports whether some reader may call with a text what the address names.
func (a address) touches(reading string) bool {
	for _, found := range a.authorities(reading) {
		authority, _, _ := strings.Cut(found, "/")
		if strings.Contains(withoutQuery(authority), "$") {
			return true
		}
		for _, host := range hosts(authority) {
			if ok, err := path.Match(a.host, host); err == nil && ok && host != "" && a.holds(found[len(authority):]) {
				return true
			}
		}
	}
	return false
}

// holds reports whether a path on the named host is the one that is named.
func (a address) holds(rest string) bool {
	if a.path == "" || a.path == "/" {
		return path.Clean("/"+rest) == "/"
	}
	if strings.Contains(rest, "$") {
		return true
	}
	pattern, clean := path.Clean(a.path), path.Clean("/"+rest)
	folder, deep := strings.CutSuffix(pattern, "/**")
	return spans(pattern, clean) || deep && (spans(folder, clean) || folder == "" && clean == "/")
}

// authorities are a text from where the host may begin in it. Readers differ in how many slashes they want before it.
func (a address) authorities(reading string) []string {
	var found []string
	if s := scheme.FindString(reading); s != "" {
		rest := reading[len(s):]
		switch {
		case s == "file:":
			if host, ok := strings.CutPrefix(rest, "//"); ok {
				found = append(found, host)
			}
		case strings.HasPrefix(rest, "//"), web.MatchString(reading), s == "ftp:":
			found = append(found, strings.TrimLeft(rest, "/"))
		}
	}
	switch {
	case strings.HasPrefix(reading, "//"):
		found = append(found, strings.TrimLeft(reading, "/"))
	case a.bare && !strings.HasPrefix(reading, "/"):
		found = append(found, reading)
	}
	return found
}

// hosts are what readers may take for the host in what stands before a path: what is before or behind an @, as far as its
// characters are those of hosts, with its port and without.
func hosts(authority string) []string {
	var found []string
	for piece := range strings.SplitSeq(authority, "@") {
		piece = withoutQuery(piece)
		end := strings.IndexFunc(piece, func(r rune) bool { return !inHost(r) })
		if strings.HasPrefix(piece, "[") {
			end = strings.Index(piece, "]") + 1
		}
		host, rest := piece, ""
		if end >= 0 {
			host, rest = piece[:end], piece[end:]
		}
		host = strings.TrimRight(host, ".")
		found = append(found, piece, host)
		if port, ok := strings.CutPrefix(rest, ":"); ok {
			found = append(found, host+":"+strings.TrimLeft(port, "0"))
		}
		if dotted, ok := numericHost(host); ok {
			found = append(found, dotted)
		}
	}
	return found
}

func inHost(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-'
}

// numericHost writes an address of IPv4 the usual way: as inet_aton takes it, in one to four numbers, the last of which
// fills up the rest, or within one of IPv6.
func numericHost(host string) (string, bool) {
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return ip.Unmap().String(), true
	}
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return "", false
	}
	var whole uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 0, 32)
		room := 8
		if i == len(parts)-1 {
			room = 8 * (5 - len(parts))
		}
		if err != nil || n>>room != 0 {
			return "", false
		}
		whole = whole<<room | n
	}
	ip := netip.AddrFrom4([4]byte{byte(whole >> 24), byte(whole >> 16), byte(whole >> 8), byte(whole)})
	return ip.String(), true
}
