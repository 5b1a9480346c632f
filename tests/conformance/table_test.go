package main

import (
	"fmt"
	"strings"
)

// part is a part of the suite.
type part string

const (
	core       part = "core"
	backcompat part = "backcompat"
	draft      part = "draft"
	extension  part = "extensions"
)

// timedScenario measures when the client comes back, with a tolerance of 200 ms.
const timedScenario = "sse-retry"

// scenario is one of the suite's, with the reason where it is not met.
type scenario struct {
	name  string
	part  part
	unmet string
	// givesUp: a client that does it right cannot connect in the end.
	givesUp bool
}

// scenarios are those of version 0.1.16 for clients.
var scenarios = []scenario{
	{name: "initialize", part: core},
	{name: "tools_call", part: core},
	{name: "elicitation-sep1034-client-defaults", part: core},
	{name: timedScenario, part: core},
	{name: "auth/metadata-default", part: core},
	{name: "auth/metadata-var1", part: core},
	{name: "auth/metadata-var2", part: core},
	{name: "auth/metadata-var3", part: core},
	{name: "auth/basic-cimd", part: core},
	{name: "auth/scope-from-www-authenticate", part: core},
	{name: "auth/scope-from-scopes-supported", part: core},
	{name: "auth/scope-omitted-when-undefined", part: core},
	{name: "auth/scope-step-up", part: core},
	{name: "auth/scope-retry-limit", part: core, givesUp: true},
	{name: "auth/token-endpoint-auth-basic", part: core},
	{name: "auth/token-endpoint-auth-post", part: core},
	{name: "auth/token-endpoint-auth-none", part: core},
	{name: "auth/pre-registration", part: core},
	{name: "auth/2025-03-26-oauth-metadata-backcompat", part: backcompat, unmet: "its server gives another issuer than the address that it was asked at, which is refused (RFC 8414, 3.3)"},
	{name: "auth/2025-03-26-oauth-endpoint-fallback", part: backcompat},
	{name: "auth/resource-mismatch", part: draft, givesUp: true},
	{name: "auth/offline-access-scope", part: draft},
	{name: "auth/offline-access-not-supported", part: draft},
	{name: "auth/client-credentials-jwt", part: extension, unmet: "the host signs no assertions: `oauth` has a client secret, and no private key"},
	{name: "auth/client-credentials-basic", part: extension},
	{name: "auth/cross-app-access-complete-flow", part: extension, unmet: "the host takes part in no exchange of tokens with a company's identity provider"},
}

// table is what docs/mcp.md says of the suite.
func table() string {
	met := map[part]int{}
	all := map[part]int{}
	var unmet strings.Builder
	for _, s := range scenarios {
		all[s.part]++
		if s.unmet == "" {
			met[s.part]++
			continue
		}
		fmt.Fprintf(&unmet, "| `%s` | %s | %s |\n", s.name, s.part, s.unmet)
	}
	var b strings.Builder
	b.WriteString("| part of the suite | scenarios met |\n|---|---|\n")
	for _, p := range []part{core, backcompat, draft, extension} {
		fmt.Fprintf(&b, "| %s | %d of %d |\n", p, met[p], all[p])
	}
	b.WriteString("\n| not met | part | why |\n|---|---|---|\n" + unmet.String())
	return b.String()
}
