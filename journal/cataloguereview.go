package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// review approves the tools of a catalogue that need no approval by the operator, and writes the catalogue as turns
// see it to the row id. c is the catalogue as it was published. Only a catalogue without a Problem makes its
// configuration known, so that a server that was unavailable at first counts as published for the first time
// afterwards.
func review(t *tx, id int64, c turn.Catalogue) error {
	approved, err := approvedHashes(t.querier, c.Server)
	if err != nil {
		return err
	}
	var known int // 1 if the configuration is known, otherwise 0
	err = t.Row(`SELECT count(*) FROM config_versions WHERE server = ? AND config_hash = ?`, c.Server,
		c.ConfigHash).Scan(&known)
	if err == nil && known == 0 && c.Problem == "" {
		err = insertConfigVersion(t, c.Server, c.ConfigHash)
	}
	if err != nil {
		return err
	}
	toApprove, toQuarantine := reviewTools(c, approved, known == 0)
	for _, d := range toApprove {
		if err := approve(t, c.Server, d, "", time.Time{}); err != nil {
			return err
		}
	}
	if len(toApprove) > 0 {
		if err := pruneApprovals(t, c.Server); err != nil {
			return err
		}
	}
	return saveView(t, id, c, toQuarantine)
}

// maxApprovalsOfServer bounds the approved tool versions of a server, because a server that is trusted to change its
// tools could add versions without end. A worker accepts far fewer tools from a server at once.
const maxApprovalsOfServer = 4096

// pruneApprovals deletes the oldest approvals of a server beyond maxApprovalsOfServer.
func pruneApprovals(t *tx, server string) error {
	return t.Exec(`DELETE FROM approved_tools WHERE server = ?1 AND id NOT IN (SELECT id FROM approved_tools
		WHERE server = ?1 ORDER BY id DESC LIMIT ?2)`,
		server, maxApprovalsOfServer)
}

// approvedHashes returns the hashes of a server's approved tools, by tool ID.
func approvedHashes(q querier, server string) (map[string][]string, error) {
	out := map[string][]string{}
	err := q.Each(func(rows Rows) error {
		var tool, hash string
		err := rows.Scan(&tool, &hash)
		out[tool] = append(out[tool], hash)
		return err
	}, `SELECT tool, hash FROM approved_tools WHERE server = ?`, server)
	return out, err
}

// insertConfigVersion records that a server was published with a configuration, and deletes the oldest records of the
// server beyond maxConfigVersions.
func insertConfigVersion(t *tx, server, configHash string) error {
	if err := t.Exec(`INSERT INTO config_versions (server, config_hash) VALUES (?, ?)`, server, configHash); err != nil {
		return err
	}
	return t.Exec(`DELETE FROM config_versions WHERE server = ?1 AND id NOT IN (SELECT id FROM config_versions
		WHERE server = ?1 ORDER BY id DESC LIMIT ?2)`,
		server, maxConfigVersions)
}

// approve records this version of the tool as its latest approved one, and deletes the oldest approved versions beyond
// MaxApprovedVersions. by is the operator; empty if the tool needed no approval by the operator.
func approve(t *tx, server string, d turn.Descriptor, by string, at time.Time) error {
	content, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := t.Exec(`DELETE FROM approved_tools WHERE server = ? AND tool = ? AND hash = ?`, server, d.ID,
		d.Hash); err != nil {
		return err
	}
	err = t.Exec(`INSERT INTO approved_tools (server, tool, hash, descriptor, approved_by, at) VALUES (?, ?, ?, ?, ?, ?)`,
		server, d.ID, d.Hash, string(content), preview(CleanText(by), PreviewBytes), nanos(at))
	if err != nil {
		return err
	}
	return t.Exec(`DELETE FROM approved_tools WHERE server = ?1 AND tool = ?2 AND id NOT IN
		(SELECT id FROM approved_tools WHERE server = ?1 AND tool = ?2 ORDER BY id DESC LIMIT ?3)`, server, d.ID, MaxApprovedVersions)
}

// lastApproved returns the version of a tool that was approved last; nil if the tool was never approved.
func lastApproved(q querier, server, tool string) (*turn.Descriptor, error) {
	var content []byte
	err := q.Row(`SELECT descriptor FROM approved_tools WHERE server = ? AND tool = ? ORDER BY id DESC LIMIT 1`, server,
		tool).Scan(&content)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var d turn.Descriptor
	return &d, json.Unmarshal(content, &d)
}

// saveView writes a catalogue as turns see it to the row id: with the tools of toQuarantine in Quarantined and not in
// Tools.
func saveView(t *tx, id int64, c turn.Catalogue, toQuarantine []turn.Descriptor) error {
	isQuarantined := func(d turn.Descriptor) bool {
		return slices.ContainsFunc(toQuarantine, func(q turn.Descriptor) bool { return q.ID == d.ID && q.Hash == d.Hash })
	}
	c.Tools = slices.DeleteFunc(slices.Clone(c.Tools), isQuarantined)
	for _, d := range toQuarantine {
		approved, err := lastApproved(t.querier, c.Server, d.ID)
		if err != nil {
			return err
		}
		c.Quarantined = append(c.Quarantined, turn.QuarantinedTool{Now: d, Approved: approved})
	}
	view, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return t.Exec(`UPDATE catalogues SET view_hash = ?, view = ? WHERE id = ?`, HashOf(view), string(view), id)
}

// ApproveTools records the operator's approval of the current versions of a server's quarantined tools: of those that
// in.Tools names, or of all. It returns the tools that it approved. ErrNotFound if the server has published
// nothing or a named tool is not quarantined; ErrConflict if a tool is not the one that the operator saw, or was
// not seen (ApproveToolsInput.Hashes). After an error no tool is approved.
func (db *DB) ApproveTools(ctx context.Context, in ApproveToolsInput) (out []turn.QuarantinedTool, err error) {
	err = db.write(ctx, fmt.Sprintf("approving tools of server %q", in.Server), func(t *tx) error {
		if err := lockCatalogue(t, in.Server); err != nil {
			return err
		}
		// If this is another run of the transaction, out has the tools of the run before.
		if done, err := isApproved(t, in.Server, out); done || err != nil {
			return err
		}
		quarantined, err := currentQuarantined(t.querier, in)
		if err != nil {
			return err
		}
		if out, err = chooseQuarantined(quarantined, in); err != nil || len(out) == 0 {
			return err
		}
		for _, d := range out {
			if err := approve(t, in.Server, d.Now, in.By, in.At); err != nil {
				return err
			}
		}
		return reviewAll(t, in.Server)
	})
	return out, err
}

// currentQuarantined returns the quarantined tools of a server, from all catalogues of it that DB.Catalogues
// returns: workers with different configurations may publish a tool with different hashes. If in.Hashes is nil, each
// hash of a tool is returned once. Otherwise each tool is returned once: with the hash that the operator saw or, if no
// catalogue has that, with the latest one, which chooseQuarantined then refuses. The error is sql.ErrNoRows if the
// server has published nothing.
func currentQuarantined(q querier, in ApproveToolsInput) (list []turn.QuarantinedTool, err error) {
	all, running, err := readVersions(q)
	if err != nil {
		return nil, err
	}
	known := false
	for _, v := range chooseVersions(all, nil, running) {
		if v.server != in.Server {
			continue
		}
		known = true
		c, err := readView(q, v.id)
		if err != nil {
			return nil, err
		}
		for _, d := range c.Quarantined {
			i := slices.IndexFunc(list, func(other turn.QuarantinedTool) bool {
				return other.Now.ID == d.Now.ID && (in.Hashes != nil || other.Now.Hash == d.Now.Hash)
			})
			switch {
			case i < 0:
				list = append(list, d)
			case in.Hashes != nil && in.seen(d) == d.Now.Hash:
				list[i] = d
			}
		}
	}
	if !known {
		return nil, sql.ErrNoRows
	}
	return list, nil
}

// reviewAll reviews every version of a server's catalogue again, after tools were approved.
func reviewAll(t *tx, server string) error {
	list, _, err := readVersions(t.querier)
	if err != nil {
		return err
	}
	for _, v := range list {
		if v.server != server {
			continue
		}
		c, err := readCatalogue(t.querier, `SELECT content FROM catalogues WHERE id = ?`, v.id)
		if err == nil {
			err = review(t, v.id, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isApproved reports whether an earlier run of this transaction has approved these tools: the reply to its commit was
// lost, but it was committed.
func isApproved(t *tx, server string, tools []turn.QuarantinedTool) (bool, error) {
	if !t.Again() || len(tools) == 0 {
		return false, nil
	}
	approved, err := approvedHashes(t.querier, server)
	isMissing := func(d turn.QuarantinedTool) bool { return !slices.Contains(approved[d.Now.ID], d.Now.Hash) }
	return err == nil && !slices.ContainsFunc(tools, isMissing), err
}
