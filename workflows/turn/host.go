package turn

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// HostRule requires an approval for calls of a tool whose argument url names a host that is not listed. A URL can
// send what the model has read to any server.
type HostRule struct {
	Listed []string `json:"listed,omitempty"` // patterns of hosts, in lower case, as those of rules
}

// Lists reports whether the host of the call's argument url is listed. It is false for a nil rule.
func (r *HostRule) Lists(arguments json.RawMessage) bool {
	return r != nil && r.ListsHost(HostOf(string(arguments)))
}

// ListsHost reports whether a host is listed.
func (r *HostRule) ListsHost(host string) bool {
	plain := host != "" && !strings.Contains(host, "%") // no address with a zone, whose end could be a domain
	return plain && slices.ContainsFunc(r.Listed, func(pattern string) bool { return matchesHost(pattern, host) })
}

// reasonToAsk returns why a call needs an approval, and the widest grant that would replace the approval. Both are
// empty if the call needs none.
func (r *HostRule) reasonToAsk(t Tool, arguments json.RawMessage) (why string, widest GrantScope) {
	if r == nil || r.Lists(arguments) {
		return "", ""
	}
	host := HostOf(string(arguments))
	if host == "" {
		return fmt.Sprintf("policy requires approval of %s with an address whose host is not plain", t.ID), GrantCall
	}
	return fmt.Sprintf("%s would send a request to %s, which is not listed ([web] hosts)", t.ID, host), GrantHost
}

// HostOf returns the host of the argument url, in lower case. It is empty if there is no such argument or it is no URL,
// or if other parsers might find a different host, because of a repeated key in the arguments, user information, or
// characters outside printable ASCII.
func HostOf(arguments string) string {
	fields, err := strictObject(arguments)
	if err != nil {
		return ""
	}
	address, err := stringField(fields, "url")
	if err != nil {
		return ""
	}
	u, err := url.Parse(address) //workflowcheck:ignore: its result depends only on the address
	if err != nil || u.User != nil {
		return ""
	}
	host := strings.ToLower(u.Hostname())
	if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return host
}

// HostGrant returns the hash that a grant of scope GrantHost has in place of its arguments' hash. It is empty if the
// arguments name no host.
func HostGrant(arguments string) string {
	host := HostOf(arguments)
	if host == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("host " + host))
	return hex.EncodeToString(sum[:])
}
