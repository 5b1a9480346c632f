package devstack

import (
	"slices"
	"strings"
)

// The variables that the children of this program get. Keys of providers and servers are not among them: a child's
// environment can be read by every process of the same user.
var (
	serverVariables = []string{"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "USER", "LOGNAME"}
	// buildVariables are what go, git and the C compiler need beside these to fetch and build a program. One that ends
	// in * names all variables that begin so.
	buildVariables = []string{
		"GO*", "CGO_*", "CC", "CXX", "GIT_SSL_*", "SSL_CERT_*", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	}
)

// allowed returns the entries of environ ("NAME=value") whose names are in the lists.
func allowed(environ []string, lists ...[]string) []string {
	names := slices.Concat(lists...)
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !slices.ContainsFunc(names, func(allow string) bool {
			prefix, any := strings.CutSuffix(allow, "*")
			return name == allow || any && strings.HasPrefix(name, prefix)
		})
	})
}
