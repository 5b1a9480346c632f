package journal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// LocalServer is the server name of the program's own tools. They need no approval, because they change with the
// program.
const LocalServer = "local"

// ApproveToolsInput is an operator's approval of tools of a server.
type ApproveToolsInput struct {
	Server string
	// Tools are IDs ("mcp/files/read") or the server's own names ("read"); empty means all quarantined tools.
	Tools []string
	// Hashes are the versions that the operator saw, by tool ID or name (turn.QuarantinedTool's Now.Hash). If Hashes is
	// not nil, a tool that has another hash now, or that Hashes does not name, is not approved. Nil skips this check.
	Hashes map[string]string
	By     string
	At     time.Time
}

// ToolName returns the server's own name of a tool: the part of its ID after the server.
func ToolName(server, id string) string {
	for _, prefix := range []string{"mcp/" + server + "/", server + "/"} {
		if name, ok := strings.CutPrefix(id, prefix); ok {
			return name
		}
	}
	return id
}

// Bounds of what the journal remembers of servers. The oldest entries are deleted first.
const (
	// MaxApprovedVersions bounds the approved versions of one tool.
	MaxApprovedVersions = 16
	// MaxConfigVersions bounds the known configurations of one server.
	MaxConfigVersions = 64
)

// keepDuringOutage returns the catalogue to publish in place of before. While a server is unavailable, the time at
// which it became unavailable stays and, if its configuration is the same, so do its last good tools.
func keepDuringOutage(c, before turn.Catalogue) turn.Catalogue {
	if c.Problem == "" {
		c.Since = time.Time{}
		return c
	}
	if before.Problem != "" {
		c.Since = before.Since
	}
	if before.ConfigHash == c.ConfigHash {
		c.Tools = before.Tools
	}
	return c
}

// Review decides about the tools that a server publishes: take are the tools to approve now, hold the tools to
// quarantine. The others are approved already. accepted are the approved hashes, by tool ID; fresh means that the
// server was never published with this configuration.
func Review(c turn.Catalogue, accepted map[string][]string, fresh bool) (take, hold []turn.Descriptor) {
	if c.Server == LocalServer {
		return nil, nil
	}
	for _, d := range c.Tools {
		known := accepted[d.ID]
		switch {
		case slices.Contains(known, d.Hash):
		case c.AllowToolChanges || fresh && len(known) == 0:
			take = append(take, d)
		default:
			hold = append(hold, d)
		}
	}
	return take, hold
}

// chooseQuarantined returns the quarantined tools that the operator names, or an error if they cannot be approved: see
// DB.ApproveTools.
func chooseQuarantined(held []turn.QuarantinedTool, in ApproveToolsInput) ([]turn.QuarantinedTool, error) {
	var missing []string
	chosen := map[int]bool{}
	for _, name := range in.Tools {
		found := false
		for i, d := range held {
			if d.Now.ID == name || ToolName(in.Server, d.Now.ID) == name {
				found, chosen[i] = true, true
			}
		}
		if !found {
			missing = append(missing, Preview(CleanText(name), 80))
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s of server %q: no quarantined tool has this name: %w", strings.Join(missing, ", "),
			in.Server, ErrNotFound)
	}
	var out []turn.QuarantinedTool
	for i, d := range held {
		if len(in.Tools) > 0 && !chosen[i] {
			continue
		}
		if err := checkReviewedHash(d, in); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// checkReviewedHash refuses a tool that differs from the one that the operator saw, if in.Hashes is set.
func checkReviewedHash(d turn.QuarantinedTool, in ApproveToolsInput) error {
	if in.Hashes == nil {
		return nil
	}
	seen, ok := in.Hashes[d.Now.ID]
	if !ok {
		seen = in.Hashes[ToolName(in.Server, d.Now.ID)]
	}
	if seen != d.Now.Hash {
		return fmt.Errorf("tool %s has the hash %.8q now, not %.8q: it has changed since it was shown; review it again: %w",
			d.Now.ID, d.Now.Hash, seen, ErrConflict)
	}
	return nil
}
