package turn

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// HostRule makes the calls of a tool with an argument url need an approval unless the URL's host is listed. An address
// can carry to any server what the model has read.
type HostRule struct {
	Listed []string `json:"listed,omitempty"` // patterns (path.Match) of hosts, in lower case
}

// Lists reports whether a call goes to a host that is listed. A nil rule lists nothing.
func (r *HostRule) Lists(arguments json.RawMessage) bool {
	return r != nil && r.ListsHost(HostOf(string(arguments)))
}

// ListsHost reports whether a host is listed.
func (r *HostRule) ListsHost(host string) bool {
	return host != "" && slices.ContainsFunc(r.Listed, func(pattern string) bool {
		ok, _ := path.Match(pattern, host) // the patterns have been checked
		return ok
	})
}

// ask returns why a call needs an approval, and the widest grant that would replace it; empty if it needs none.
func (r *HostRule) ask(t Tool, arguments json.RawMessage) (why string, widest GrantScope) {
	if r == nil || r.Lists(arguments) {
		return "", ""
	}
	host := HostOf(string(arguments))
	if host == "" {
		return fmt.Sprintf("policy requires approval of %s with an address whose host is not plain", t.ID), GrantCall
	}
	return fmt.Sprintf("%s would send a request to %s, which is not listed ([web] hosts)", t.ID, host), GrantHost
}

// HostOf returns the host of the argument url, in lower case. It is empty if there is no such argument, or if readers
// may take its host differently.
func HostOf(arguments string) string {
	fields, err := strictObject(arguments)
	if err != nil {
		return ""
	}
	address, err := stringField(fields, "url")
	if err != nil {
		return ""
	}
	u, err := url.Parse(address)
	if err != nil || u.User != nil {
		return ""
	}
	host := strings.ToLower(u.Hostname())
	if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return host
}

// HostGrant returns the ArgumentsHash of a grant of scope GrantHost; empty if the arguments name no host.
func HostGrant(arguments string) string {
	host := HostOf(arguments)
	if host == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("host " + host))
	return hex.EncodeToString(sum[:])
}
