package main

import (
	"fmt"
	"slices"
	"strings"
)

// part is a part of the suite.
type part string

const (
	core       part = "core"
	backcompat part = "backcompat"
	draft      part = "draft"
	extension  part = "extensions"
	newest     part = "2026-07-28" // the protocol's version; this suite has no name for the scenarios that test it
)

// timedScenario measures when the client reconnects, with a tolerance of 200 ms.
const timedScenario = "sse-retry"

// suite is one version of the suite, with its scenarios for clients.
type suite struct {
	pkg, version string
	scenarios    []scenario
}

// scenario is one of the suite's scenarios, with the reason if it is not met.
type scenario struct {
	name  string
	part  part
	unmet string
	// givesUp: a correct client cannot connect in this scenario.
	givesUp bool
}

// suites are the released version, and the next one, which is the first that supports the newest protocol.
var suites = []suite{
	{pkg: "@modelcontextprotocol/conformance", version: "0.1.16", scenarios: slices.Concat(both, []scenario{
		{name: "auth/2025-03-26-oauth-metadata-backcompat", part: backcompat,
			unmet: "its server gives another issuer than the address that it was asked at, which is refused (RFC 8414, 3.3)"},
		{name: "auth/cross-app-access-complete-flow", part: extension, unmet: enterprise},
	})},
	{pkg: "conformance-next", version: "0.2.0-alpha.11", scenarios: slices.Concat(both, []scenario{
		{name: "auth/2025-03-26-oauth-metadata-backcompat", part: backcompat},
		{name: "auth/authorization-server-migration", part: draft},
		{name: "auth/iss-supported", part: draft},
		{name: "auth/iss-not-advertised", part: draft},
		{name: "auth/iss-supported-missing", part: draft, givesUp: true},
		{name: "auth/iss-wrong-issuer", part: draft, givesUp: true},
		{name: "auth/iss-unexpected", part: draft, givesUp: true},
		{name: "auth/iss-normalized", part: draft, givesUp: true},
		{name: "auth/metadata-issuer-mismatch", part: draft, givesUp: true},
		{name: "auth/enterprise-managed-authorization", part: extension, unmet: enterprise},
		{name: "auth/dpop", part: extension, unmet: unbound},
		{name: "auth/dpop-nonce", part: extension, unmet: unbound},
		{name: "auth/wif-jwt-bearer", part: extension, unmet: assertions},
		{name: "request-metadata", part: newest},
		{name: "sep-2322-client-request-state", part: newest},
		{name: "http-standard-headers", part: newest},
		{name: "http-custom-headers", part: newest},
		{name: "http-invalid-tool-headers", part: newest},
		{name: "json-schema-ref-no-deref", part: newest},
		{name: "json-schema-2020-12-preservation", part: newest},
	})},
}

// The reasons why extensions are not met.
const (
	assertions = "the host signs no assertions: `oauth` has a client secret, and no private key"
	enterprise = "the host takes part in no exchange of tokens with a company's identity provider"
	unbound    = "the host's tokens are bearer tokens, bound to no key"
)

// both are the scenarios of both versions.
var both = []scenario{
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
	{name: "auth/2025-03-26-oauth-endpoint-fallback", part: backcompat},
	{name: "auth/resource-mismatch", part: draft, givesUp: true},
	{name: "auth/offline-access-scope", part: draft},
	{name: "auth/offline-access-not-supported", part: draft},
	{name: "auth/client-credentials-jwt", part: extension, unmet: assertions},
	{name: "auth/client-credentials-basic", part: extension},
}

// table returns the section of docs/mcp.md about the suites.
func table() string {
	var b, unmet strings.Builder
	parts := []part{core, backcompat, draft, extension, newest}
	b.WriteString("| scenarios met |")
	for _, p := range parts {
		fmt.Fprintf(&b, " %s |", p)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(parts)) + "\n")
	for _, s := range suites {
		fmt.Fprintf(&b, "| %s |", s.version)
		for _, p := range parts {
			if met, all := s.count(p); all > 0 {
				fmt.Fprintf(&b, " %d of %d |", met, all)
			} else {
				b.WriteString(" none |")
			}
		}
		b.WriteString("\n")
		for _, sc := range s.scenarios {
			if sc.unmet != "" {
				fmt.Fprintf(&unmet, "| `%s` | %s | %s | %s |\n", sc.name, s.version, sc.part, sc.unmet)
			}
		}
	}
	b.WriteString("\n| not met | of | part | why |\n|---|---|---|---|\n" + unmet.String())
	return b.String()
}

// count returns how many scenarios of a part are met, and how many there are.
func (s suite) count(p part) (met, all int) {
	for _, sc := range s.scenarios {
		if sc.part != p {
			continue
		}
		all++
		if sc.unmet == "" {
			met++
		}
	}
	return met, all
}
