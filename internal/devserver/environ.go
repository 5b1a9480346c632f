package devserver

import (
	"slices"
	"strings"

	"github.com/everturn/everturn/internal/childenv"
)

// buildVariables are the variables that go, git and the C compiler need in addition to childenv.Base to fetch and build
// a program. A name that ends in * stands for all variables with that prefix.
var buildVariables = []string{
	"GO*", "CGO_*", "CC", "CXX", "GIT_SSL_*", "SSL_CERT_*", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// allowedVariables returns the entries of environ ("NAME=value") whose names are in childenv.Base or in more. A name
// in more may end in *, which stands for all variables with that prefix.
func allowedVariables(environ []string, more ...string) []string {
	names := slices.Concat(childenv.Base, more)
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !slices.ContainsFunc(names, func(allow string) bool {
			prefix, any := strings.CutSuffix(allow, "*")
			return name == allow || any && strings.HasPrefix(name, prefix)
		})
	})
}
