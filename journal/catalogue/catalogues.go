package catalogue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/journal/fleet"
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

// seen returns the version of a tool that the operator saw, or an empty string.
func (in ApproveToolsInput) seen(d turn.QuarantinedTool) string {
	return cmp.Or(in.Hashes[d.Now.ID], in.Hashes[ToolName(in.Server, d.Now.ID)])
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
	// MaxVersions bounds the catalogues of one server that workers with other configurations or programs have published.
	MaxVersions = 8
)

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
	if seen := in.seen(d); seen != d.Now.Hash {
		return fmt.Errorf("tool %s has the hash %.8q now, not %.8q: it has changed since it was shown; review it again: %w",
			d.Now.ID, d.Now.Hash, seen, record.ErrConflict)
	}
	return nil
}

// PublishCatalogue makes c current: what the workers offer that have this version of the server. Unchanged content
// changes nothing. All tools of a server that is published for the first time are approved. Later, a new tool is
// approved if the server's configuration (ConfigHash) is new, and a changed tool only if AllowToolChanges is set. An
// approval stays: a tool that disappears and returns unchanged, or that two workers publish in two versions, needs no
// second approval. c.Quarantined is ignored. A catalogue with a Problem keeps the tools of its configuration's versions,
// and the Since of the first one with a Problem.
//
// Catalogues, views of them and descriptors are kept in their rows, however long they are: a replaced row
// gives its pages back, so a server that changes its tools endlessly does not grow the database. Blobs are never
// removed.
func (r Registry) PublishCatalogue(ctx context.Context, c turn.Catalogue) error {
	doing := fmt.Sprintf("publishing the catalogue of %q", c.Server)
	c.Quarantined = nil
	return r.tables.Write(ctx, doing, func(t *tables.Tx) error {
		if err := errors.Join(record.CheckID("server", c.Server), lockCatalogue(t, c.Server)); err != nil {
			return err
		}
		if c.Problem != "" {
			return publishOutage(t, c)
		}
		return publish(t, c)
	})
}

// lockCatalogue locks all versions of a server, of which a transaction may insert and delete some.
func lockCatalogue(t *tables.Tx, server string) error {
	if t.Lock() == "" {
		return nil
	}
	if err := t.Exec(`INSERT INTO tool_servers (server) VALUES (?) ON CONFLICT DO NOTHING`, server); err != nil {
		return err
	}
	return t.LockRow(`SELECT 1 FROM tool_servers WHERE server = ?`, server)
}

// Catalogues returns the catalogues that running workers offer, ordered by server and, if workers offer several versions
// of one, the latest published first. Of a server that no running worker offers, it returns the latest. Tools are the
// approved tools, Quarantined the others. Hash covers both. No tool of LocalServer is ever quarantined.
func (r Registry) Catalogues(ctx context.Context) ([]turn.Catalogue, error) {
	return r.OfferedBy(ctx, nil)
}

// OfferedBy is like Catalogues, but the first catalogue of each server is the one that a worker offers itself. own are
// the versions of the worker's servers, by server. If the worker has not got the server's tools yet, it is the latest one
// of its configuration.
func (r Registry) OfferedBy(ctx context.Context, own map[string]string) (out []turn.Catalogue, err error) {
	err = r.tables.Read(ctx, "reading the catalogues", func(q tables.Querier) error {
		list, err := versions(q)
		if err != nil {
			return err
		}
		running, err := offers(q)
		if err == nil {
			out, err = r.cache.get(choose(list, own, running), list,
				func(id int64) (turn.Catalogue, error) { return view(q, id) })
		}
		return err
	})
	return out, err
}

// versions returns all versions, ordered by server, the latest version first.
func versions(q tables.Querier) ([]version, error) {
	return tables.Collect(q, func(scan tables.Scanner) (v version, err error) {
		err = scan(&v.id, &v.server, &v.version, &v.hash)
		return v, err
	}, `SELECT id, server, version, view_hash FROM catalogues ORDER BY server, id DESC`)
}

// offers returns the versions that running workers offer, as "server version".
func offers(q tables.Querier) (map[string]bool, error) {
	out := map[string]bool{}
	err := q.Each(func(rows tables.Rows) error {
		var text string
		var offers map[string]string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		err := json.Unmarshal([]byte(text), &offers)
		for server, v := range offers {
			out[server+" "+v] = true
		}
		return err
	}, `SELECT offers FROM workers WHERE seen_at >= (SELECT now FROM clock) - ?`, int64(fleet.WorkerExpiry))
	return out, err
}

// choose returns the versions of list that OfferedBy returns. list is ordered by server, the latest version first.
func choose(list []version, own map[string]string, running map[string]bool) (out []version) {
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to].server == list[from].server {
			to++
		}
		of := list[from:to]
		first := pick(of, own[list[from].server])
		if first >= 0 {
			out = append(out, of[first])
		}
		n := len(out)
		for i, v := range of {
			if i != first && running[v.server+" "+v.version] {
				out = append(out, v)
			}
		}
		if first < 0 && len(out) == n {
			out = append(out, of[0])
		}
		from = to
	}
	return out
}

// pick returns the index of the version that a worker offers itself, or of the latest one of its configuration; -1 if
// there is none.
func pick(of []version, own string) int {
	if i := slices.IndexFunc(of, func(v version) bool { return v.version == own }); i >= 0 || own == "" {
		return i
	}
	config, _, _ := strings.Cut(own, "/")
	return slices.IndexFunc(of, func(v version) bool { return strings.HasPrefix(v.version, config+"/") })
}

// view returns a catalogue as turns see it.
func view(q tables.Querier, id int64) (turn.Catalogue, error) {
	return readCatalogue(q, `SELECT view FROM catalogues WHERE id = ?`, id)
}

func readCatalogue(q tables.Querier, query string, args ...any) (c turn.Catalogue, err error) {
	var content []byte
	if err := q.Row(query, args...).Scan(&content); err != nil {
		return c, err
	}
	return c, json.Unmarshal(content, &c)
}

// version identifies a catalogue as turns see it.
type version struct {
	id                    int64
	server, version, hash string
}

// Cache has the current catalogues as turns see them, decoded: every turn reads them, and they rarely change.
type Cache struct {
	mu     sync.Mutex
	byHash map[string]turn.Catalogue
}

// get returns the wanted catalogues of list, loads those that are not cached and forgets those that are not in list.
func (cache *Cache) get(wanted, list []version, load func(id int64) (turn.Catalogue, error)) ([]turn.Catalogue, error) {
	cache.mu.Lock()
	defer cache.mu.Unlock()
	var out []turn.Catalogue
	kept := make(map[string]turn.Catalogue, len(list))
	for _, v := range list {
		if c, ok := cache.byHash[v.hash]; ok {
			kept[v.hash] = c
		}
	}
	for _, v := range wanted {
		c, ok := kept[v.hash]
		if !ok {
			var err error
			if c, err = load(v.id); err != nil {
				return nil, err
			}
			kept[v.hash] = c
		}
		c.Tools, c.Quarantined = slices.Clone(c.Tools), slices.Clone(c.Quarantined)
		out = append(out, c)
	}
	cache.byHash = kept
	return out, nil
}
