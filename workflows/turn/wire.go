package turn

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// maxWire is the longest function name that providers accept (^[a-zA-Z0-9_-]{1,64}$, OpenAI API reference).
const maxWire = 64

// hashed matches every name that ends like a hash. A tool whose own name ends like this also gets a hash. Otherwise a
// server, which chooses the names of its tools, could claim the wire name of another server's tool.
var hashed = regexp.MustCompile(`_[0-9a-f]{16}$`)

// WireName returns the name under which providers know the tool with this catalogue ID. Letters, digits, _ and -
// stay, and a slash becomes _. If another character had to be replaced, or if the name would be ambiguous, exceed 64
// bytes or end like a hash, it is truncated and ends in 16 hex digits of the ID's SHA-256. So two IDs never share a
// name: finding a second ID for a given name takes 2^64 attempts. The name depends on the ID alone.
func WireName(id string) string {
	var b strings.Builder
	exact := id != ""
	parts := strings.Split(id, "/")
	last := len(parts) - 1
	if last > 2 || last > 1 && parts[0] != "mcp" {
		exact = false // a slash inside the tool's own name
	}
	for i, part := range parts {
		if i > 0 {
			b.WriteByte('_')
		}
		if i < last && strings.Contains(part, "_") {
			exact = false // ambiguous with a slash, except in the last part
		}
		for _, r := range part {
			if wireRune(r) {
				b.WriteRune(r)
				continue
			}
			b.WriteByte('_')
			exact = false
		}
	}
	name := b.String()
	if exact && len(name) <= maxWire && !hashed.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(id))
	suffix := "_" + hex.EncodeToString(sum[:8])
	if len(name) > maxWire-len(suffix) {
		name = name[:maxWire-len(suffix)]
	}
	return name + suffix
}

// wireRune reports whether providers accept r in a function name.
func wireRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}
