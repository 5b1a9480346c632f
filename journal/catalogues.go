package journal

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
	// Hashes are the hashes of the tools that the operator saw (Now.Hash of turn.QuarantinedTool), by tool ID or
	// name. A tool that has another hash now, or that Hashes does not name, is not approved. Nil skips this check.
	Hashes map[string]string
	By     string
	At     time.Time
}

// seen returns the hash of a tool that the operator saw; empty if in.Hashes does not name the tool.
func (in ApproveToolsInput) seen(d turn.QuarantinedTool) string {
	return cmp.Or(in.Hashes[d.Now.ID], in.Hashes[ToolName(in.Server, d.Now.ID)])
}

// ToolName returns the server's own name of a tool: the part of its ID after the server ("read" of "mcp/files/read"),
// or the whole ID if it is a tool of another server.
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
	// maxConfigVersions bounds the known configurations of one server.
	maxConfigVersions = 64
	// MaxCatalogueVersions bounds the catalogues of one server that workers with other configurations or programs have
	// published.
	MaxCatalogueVersions = 8
)

// reviewTools decides about the tools that a server publishes. It returns the tools to approve now and the tools to
// quarantine; the others are approved already. approved are the hashes of all approved versions, by tool ID. newConfig
// means that the server was never published with this configuration: then tools without an approved version are
// approved, because the operator has just configured the server. With c.AllowToolChanges all tools are approved.
// reviewTools returns none for LocalServer.
func reviewTools(c turn.Catalogue, approved map[string][]string,
	newConfig bool) (toApprove, toQuarantine []turn.Descriptor) {
	if c.Server == LocalServer {
		return nil, nil
	}
	for _, d := range c.Tools {
		hashes := approved[d.ID]
		switch {
		case slices.Contains(hashes, d.Hash):
		case c.AllowToolChanges || newConfig && len(hashes) == 0:
			toApprove = append(toApprove, d)
		default:
			toQuarantine = append(toQuarantine, d)
		}
	}
	return toApprove, toQuarantine
}

// chooseQuarantined returns the quarantined tools that in.Tools names, or all of them if in.Tools is empty. It
// returns an error if no tool has one of the names, or a tool is not the one that the operator saw.
func chooseQuarantined(quarantined []turn.QuarantinedTool, in ApproveToolsInput) ([]turn.QuarantinedTool, error) {
	var missing []string
	chosen := map[int]bool{}
	for _, name := range in.Tools {
		found := false
		for i, d := range quarantined {
			if d.Now.ID == name || ToolName(in.Server, d.Now.ID) == name {
				found, chosen[i] = true, true
			}
		}
		if !found {
			missing = append(missing, preview(CleanText(name), 80))
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s of server %q: no quarantined tool has this name: %w", strings.Join(missing, ", "),
			in.Server, ErrNotFound)
	}
	var out []turn.QuarantinedTool
	for i, d := range quarantined {
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

// checkReviewedHash returns an ErrConflict if in.Hashes is set and the operator saw the tool with another hash than
// it has now, or did not see it.
func checkReviewedHash(d turn.QuarantinedTool, in ApproveToolsInput) error {
	if in.Hashes == nil {
		return nil
	}
	if seen := in.seen(d); seen != d.Now.Hash {
		return fmt.Errorf("tool %s has the hash %.8q now, not %.8q: it has changed since it was shown; review it again: %w",
			d.Now.ID, d.Now.Hash, seen, ErrConflict)
	}
	return nil
}

// PublishCatalogue records the catalogue that a worker got from a server, as the latest version of the server's
// catalogue. If c has a Problem, because the server is unavailable, the versions with the same ConfigHash get the
// Problem and keep their tools; their Since is that of the first Problem. c.Quarantined is ignored. Unchanged content
// changes nothing.
//
// All tools of a server that is published for the first time are approved. Later, a new tool is approved if the
// server's configuration (ConfigHash) is new, and a changed tool only if AllowToolChanges is set. An approval stays:
// a tool that disappears and returns unchanged, or that two workers publish in two versions, needs no second
// approval.
//
// Catalogues and descriptors are stored in their rows, however long they are, and not in blobs, which are never
// removed: the pages of a replaced row are used again, so a server that keeps changing its tools does not grow the
// database.
func (db *DB) PublishCatalogue(ctx context.Context, c turn.Catalogue) error {
	doing := fmt.Sprintf("publishing the catalogue of %q", c.Server)
	c.Quarantined = nil
	return db.write(ctx, doing, func(t *tx) error {
		if err := errors.Join(checkID("server", c.Server), lockCatalogue(t, c.Server)); err != nil {
			return err
		}
		if c.Problem != "" {
			return publishOutage(t, c)
		}
		return publish(t, c)
	})
}

// lockCatalogue locks all versions of a server's catalogue until the transaction ends. It locks a row of tool_servers
// in place of their rows, because the transaction may insert and delete versions. It does nothing if the database has
// one writer at a time.
func lockCatalogue(t *tx, server string) error {
	if t.Lock() == "" {
		return nil
	}
	if err := t.Exec(`INSERT INTO tool_servers (server) VALUES (?) ON CONFLICT DO NOTHING`, server); err != nil {
		return err
	}
	return t.LockRow(`SELECT 1 FROM tool_servers WHERE server = ?`, server)
}

// Catalogues returns the catalogues of all servers, ordered by server: those versions that running workers offer, the
// latest published first, or the latest version if no running worker offers the server. In each, Tools are the approved
// tools and Quarantined are the others; Hash covers both. No tool of LocalServer is ever quarantined.
func (db *DB) Catalogues(ctx context.Context) ([]turn.Catalogue, error) {
	return db.OfferedBy(ctx, nil)
}

// OfferedBy is Catalogues for one worker: the first catalogue of each server is the version that this worker offers.
// own are the worker's versions, by server. If the worker has not got the server's tools yet, the first one is the
// latest version with the worker's configuration.
func (db *DB) OfferedBy(ctx context.Context, own map[string]string) ([]turn.Catalogue, error) {
	return get(ctx, db, "reading the catalogues", func(q querier) ([]turn.Catalogue, error) { return db.offeredBy(q, own) })
}

// offeredBy is OfferedBy within a transaction.
func (db *DB) offeredBy(q querier, own map[string]string) ([]turn.Catalogue, error) {
	list, running, err := readVersions(q)
	if err != nil {
		return nil, err
	}
	return db.cache.get(chooseVersions(list, own, running), list,
		func(id int64) (turn.Catalogue, error) { return readView(q, id) })
}

// readVersions returns all versions of all catalogues, ordered by server, the latest version of each first; and the set
// of those that running workers offer, as "<server> <version>".
func readVersions(q querier) (list []catalogueVersion, running map[string]bool, err error) {
	running = map[string]bool{}
	err = q.Each(func(rows Rows) error {
		var v catalogueVersion
		var text string
		if err := rows.Scan(&v.id, &v.server, &v.version, &v.hash, &text); err != nil {
			return err
		}
		if v.id != 0 {
			list = append(list, v)
			return nil
		}
		var offers map[string]string
		err := json.Unmarshal([]byte(text), &offers)
		for server, version := range offers {
			running[server+" "+version] = true
		}
		return err
	}, `SELECT id, server, version, view_hash, '' FROM catalogues
		UNION ALL SELECT 0, '', '', '', offers FROM workers WHERE seen_at >= (SELECT now FROM clock) - ?
		ORDER BY 2, 1 DESC`, int64(fleet.WorkerExpiry))
	return list, running, err
}

// chooseVersions returns the versions that OfferedBy returns. list has all versions, ordered by server, the latest
// version first. own are the versions that the worker offers, by server; running is the set of readVersions.
func chooseVersions(list []catalogueVersion, own map[string]string, running map[string]bool) (out []catalogueVersion) {
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to].server == list[from].server {
			to++
		}
		ofServer := list[from:to]
		first := ownVersion(ofServer, own[list[from].server])
		if first >= 0 {
			out = append(out, ofServer[first])
		}
		n := len(out)
		for i, v := range ofServer {
			if i != first && running[v.server+" "+v.version] {
				out = append(out, v)
			}
		}
		if first < 0 && len(out) == n { // no running worker offers the server
			out = append(out, ofServer[0])
		}
		from = to
	}
	return out
}

// ownVersion returns the index of the version own in the versions of a server or, if it is not there, of the latest one
// with the same configuration; -1 if there is none. own is empty if the worker does not offer the server. See
// turn.Catalogue.Version.
func ownVersion(ofServer []catalogueVersion, own string) int {
	if i := slices.IndexFunc(ofServer, func(v catalogueVersion) bool { return v.version == own }); i >= 0 || own == "" {
		return i
	}
	config, _, _ := strings.Cut(own, "/")
	return slices.IndexFunc(ofServer, func(v catalogueVersion) bool { return strings.HasPrefix(v.version, config+"/") })
}

// readView returns the catalogue of a row as turns see it, without its quarantined tools among Tools.
func readView(q querier, id int64) (turn.Catalogue, error) {
	return readCatalogue(q, `SELECT view FROM catalogues WHERE id = ?`, id)
}

// readCatalogue returns the catalogue in the first column of a query, which is JSON.
func readCatalogue(q querier, query string, args ...any) (c turn.Catalogue, err error) {
	var content []byte
	if err := q.Row(query, args...).Scan(&content); err != nil {
		return c, err
	}
	return c, json.Unmarshal(content, &c)
}

// catalogueVersion is a row of the table catalogues, without the catalogue.
type catalogueVersion struct {
	id      int64
	server  string
	version string // turn.Catalogue.Version
	hash    string // of the catalogue as turns see it
}

// catalogueCache holds decoded catalogues as turns see them, because every turn reads them and they rarely change.
type catalogueCache struct {
	mu     sync.Mutex
	byHash map[string]turn.Catalogue
}

// get returns the catalogues of the wanted versions, and loads those that are not cached; other calls wait meanwhile.
// list has all versions: get removes catalogues of other versions from the cache.
func (cache *catalogueCache) get(wanted, list []catalogueVersion, load func(id int64) (turn.Catalogue, error)) ([]turn.Catalogue, error) {
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
		c.Tools, c.Quarantined = slices.Clone(c.Tools), slices.Clone(c.Quarantined) // the caller may change them
		out = append(out, c)
	}
	cache.byHash = kept
	return out, nil
}
