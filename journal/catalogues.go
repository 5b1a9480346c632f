package journal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// LocalServer is the catalogue of the program's own tools, which need no approval: they change with the program.
const LocalServer = "local"

// ApproveToolsInput is an operator's word for tools of a server.
type ApproveToolsInput struct {
	Server string
	// Tools are IDs ("mcp/files/read") or the server's own names ("read"); empty means all that are held.
	Tools []string
	// Hashes are, by tool ID or name, what the operator saw (turn.QuarantinedTool's Now.Hash). If they are given, a tool that has
	// another hash now, or that is not among them, is not accepted. Nil asks nothing.
	Hashes map[string]string
	By     string
	At     time.Time
}

// ToolName is the server's own name of a tool: what follows the server in its ID.
func ToolName(server, id string) string {
	for _, prefix := range []string{"mcp/" + server + "/", server + "/"} {
		if name, ok := strings.CutPrefix(id, prefix); ok {
			return name
		}
	}
	return id
}

// Bounds of what is remembered of servers, each with the oldest given up first.
const (
	// MaxApprovedVersions is how many versions of one tool are accepted at once.
	MaxApprovedVersions = 16
	// MaxSetups is how many configurations of one server are known.
	MaxSetups = 64
)

// outlast returns the catalogue to publish in place of before: while a server is unavailable, its last good tools stay,
// as long as its configuration is the same, and the time at which it became unavailable.
func outlast(c, before turn.Catalogue) turn.Catalogue {
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

// Review says what becomes of the tools that a server publishes: those to accept from now on, and those to hold. The
// others are accepted already. accepted are the hashes that are, by tool ID; fresh says that the server's configuration
// is one that it was never published with.
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

// choose returns what of the held tools an operator means, or why that cannot be taken: see Store.Accept.
func choose(held []turn.QuarantinedTool, in ApproveToolsInput) ([]turn.QuarantinedTool, error) {
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
		return nil, fmt.Errorf("%s of server %q: nothing of that name is held: %w", strings.Join(missing, ", "), in.Server, ErrNotFound)
	}
	var out []turn.QuarantinedTool
	for i, d := range held {
		if len(in.Tools) > 0 && !chosen[i] {
			continue
		}
		if err := checkSeen(d, in); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// checkSeen refuses a tool that is not what the operator saw, if that is known.
func checkSeen(d turn.QuarantinedTool, in ApproveToolsInput) error {
	if in.Hashes == nil {
		return nil
	}
	seen, ok := in.Hashes[d.Now.ID]
	if !ok {
		seen = in.Hashes[ToolName(in.Server, d.Now.ID)]
	}
	if seen != d.Now.Hash {
		return fmt.Errorf("tool %s has the hash %.8q now, and %.8q was looked at: look at it again: %w", d.Now.ID, d.Now.Hash, seen, ErrConflict)
	}
	return nil
}
