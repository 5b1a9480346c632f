package catalogue

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// Registry is the journal's record of tool servers. All tenants have the same.
type Registry struct {
	tables *tables.Handle
	cache  *Cache
}

// New returns the registry of a journal. All handles on the journal share one cache.
func New(h *tables.Handle, cache *Cache) Registry { return Registry{h, cache} }

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
			missing = append(missing, record.Preview(record.CleanText(name), 80))
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s of server %q: no quarantined tool has this name: %w", strings.Join(missing, ", "),
			in.Server, record.ErrNotFound)
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
			d.Now.ID, d.Now.Hash, seen, record.ErrConflict)
	}
	return nil
}

// PublishCatalogue makes c the current catalogue of its server. Unchanged content changes nothing. All tools of a
// server that is published for the first time are approved. Later, a new tool is approved if the server's configuration
// (ConfigHash) is new, and a changed tool only if AllowToolChanges is set. An approval stays: a tool that disappears
// and returns unchanged, or that two workers publish in two versions, needs no second approval. c.Quarantined is
// ignored. A catalogue with a Problem keeps the Since of the first one with a Problem and, if the server's
// configuration is the same, the tools of the one before.
//
// Catalogues, views of them and descriptors are kept in their rows, however long they are: a replaced row
// gives its pages back, so a server that changes its tools endlessly does not grow the database. Blobs are never
// removed.
func (s Registry) PublishCatalogue(ctx context.Context, c turn.Catalogue) error {
	doing := fmt.Sprintf("publishing the catalogue of %q", c.Server)
	c.Quarantined = nil
	return s.tables.Write(ctx, doing, func(t *tables.Tx) error {
		if err := errors.Join(record.CheckID("server", c.Server), lockCatalogue(t, c.Server)); err != nil {
			return err
		}
		before, err := readCatalogue(t.Querier, `SELECT content FROM catalogues WHERE server = ?`, c.Server)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		c := keepDuringOutage(c, before)
		content, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if len(content) > record.MaxBlobBytes {
			return fmt.Errorf("the catalogue is %d bytes; the maximum is %d: allow fewer of its tools", len(content),
				record.MaxBlobBytes)
		}
		hash, current := record.HashOf(content), ""
		err = t.Row(`SELECT hash FROM catalogues WHERE server = ?`, c.Server).Scan(&current)
		if tables.IgnoreNoRows(err) != nil || hash == current {
			return err
		}
		if current == "" {
			err = t.Exec(`INSERT INTO catalogues (server, hash, content, view_hash, view) VALUES (?, ?, ?, '', '')`, c.Server,
				hash, string(content))
		} else {
			err = t.Exec(`UPDATE catalogues SET hash = ?, content = ? WHERE server = ?`, hash, string(content), c.Server)
		}
		if err != nil {
			return err
		}
		return review(t, c)
	})
}

// lockCatalogue locks the catalogue of a server.
func lockCatalogue(t *tables.Tx, server string) error {
	return t.LockRow(`SELECT 1 FROM catalogues WHERE server = ?`, server)
}

// Catalogues returns the current catalogue of each server that has published one, ordered by server. Tools are the
// approved tools, Quarantined the others. Hash covers both. No tool of LocalServer is ever quarantined.
func (s Registry) Catalogues(ctx context.Context) (out []turn.Catalogue, err error) {
	err = s.tables.Read(ctx, "reading the catalogues", func(q tables.Querier) error {
		list, err := tables.Collect(q, func(scan tables.Scanner) (v version, err error) {
			err = scan(&v.server, &v.hash)
			return v, err
		}, `SELECT server, view_hash FROM catalogues ORDER BY server`)
		if err == nil {
			out, err = s.cache.get(list, func(server string) (turn.Catalogue, error) { return view(q, server) })
		}
		return err
	})
	return out, err
}

// view returns a server's catalogue as turns see it.
func view(q tables.Querier, server string) (turn.Catalogue, error) {
	return readCatalogue(q, `SELECT view FROM catalogues WHERE server = ?`, server)
}

func readCatalogue(q tables.Querier, query, server string) (c turn.Catalogue, err error) {
	var content []byte
	if err := q.Row(query, server).Scan(&content); err != nil {
		return c, err
	}
	return c, json.Unmarshal(content, &c)
}

// version identifies a catalogue as turns see it.
type version struct{ server, hash string }

// Cache has the current catalogues as turns see them, decoded: every turn reads them, and they rarely change.
type Cache struct {
	mu     sync.Mutex
	byHash map[string]turn.Catalogue
}

// get returns the catalogues in list, loads those that are not cached and forgets all others.
func (k *Cache) get(list []version, load func(server string) (turn.Catalogue, error)) ([]turn.Catalogue, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []turn.Catalogue
	kept := make(map[string]turn.Catalogue, len(list))
	for _, v := range list {
		c, ok := k.byHash[v.hash]
		if !ok {
			var err error
			if c, err = load(v.server); err != nil {
				return nil, err
			}
		}
		kept[v.hash] = c
		c.Tools, c.Quarantined = slices.Clone(c.Tools), slices.Clone(c.Quarantined)
		out = append(out, c)
	}
	k.byHash = kept
	return out, nil
}
