package form

import (
	"net/netip"
	"net/url"
	"strings"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// Address is an address that a server asks the user to open. This program never opens it.
type Address struct {
	URL  string // complete, with invisible characters written out
	Host string // the host that the address really leads to
	// Warnings list what may be deceptive about the address.
	Warnings []string
}

// AddressOf returns the address raw of a server in a form that is safe to show, with warnings about what may deceive
// the user.
func AddressOf(raw string) Address {
	a := Address{URL: strings.ReplaceAll(termsafe.Visible(raw), "\n", `\n`)}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		a.Warnings = append(a.Warnings, "it is not the address of a web page")
		return a
	}
	a.Host = word(u.Host, shownTitle)
	for _, check := range []struct {
		suspicious bool
		warning    string
	}{
		{u.Scheme != "https", "it is not an https address (" + word(u.Scheme, 20) + ")"},
		{u.User != nil, "the part before the @ is not the host"},
		{isNonASCII(u.Hostname()), "the host name may contain look-alike characters"},
		{isIPAddress(u.Hostname()), "the host is an IP address"},
		{u.Port() != "" && u.Port() != "443", "the port is unusual"},
	} {
		if check.suspicious {
			a.Warnings = append(a.Warnings, check.warning)
		}
	}
	return a
}

// isNonASCII reports whether a host name contains characters other than ASCII, as they are or encoded (xn--, RFC 5890).
func isNonASCII(host string) bool {
	return strings.IndexFunc(host, func(r rune) bool { return r > 0x7e }) >= 0 || strings.Contains(strings.ToLower(host),
		"xn--")
}

func isIPAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}
