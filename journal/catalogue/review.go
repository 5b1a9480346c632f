package catalogue

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// review approves the tools of a catalogue that need no operator, and writes the catalogue that turns see to its row. Only a
// catalogue without a Problem makes its configuration known: a server that was unavailable at first still counts as
// published for the first time afterwards.
func review(t *tables.Tx, id int64, c turn.Catalogue) error {
	accepted, err := approvedHashes(t.Querier, c.Server)
	if err != nil {
		return err
	}
	var known int
	err = t.Row(`SELECT count(*) FROM config_versions WHERE server = ? AND config_hash = ?`, c.Server,
		c.ConfigHash).Scan(&known)
	if err == nil && known == 0 && c.Problem == "" {
		err = insertConfigVersion(t, c.Server, c.ConfigHash)
	}
	if err != nil {
		return err
	}
	take, hold := Review(c, accepted, known == 0)
	for _, d := range take {
		if err := approve(t, c.Server, d, "", time.Time{}); err != nil {
			return err
		}
	}
	if len(take) > 0 {
		if err := forgetApprovals(t, c.Server); err != nil {
			return err
		}
	}
	return saveView(t, id, c, hold)
}

// maxApprovalsOfServer bounds the approved tool versions of a server that may change its tools. Another check refuses a
// server with more tools than that at once.
const maxApprovalsOfServer = 4096

// forgetApprovals deletes the oldest approvals beyond maxApprovalsOfServer.
func forgetApprovals(t *tables.Tx, server string) error {
	return t.Exec(`DELETE FROM approved_tools WHERE server = ?1 AND id NOT IN (SELECT id FROM approved_tools
		WHERE server = ?1 ORDER BY id DESC LIMIT ?2)`,
		server, maxApprovalsOfServer)
}

// approvedHashes returns the hashes of a server's approved tools, by tool ID.
func approvedHashes(q tables.Querier, server string) (map[string][]string, error) {
	out := map[string][]string{}
	err := q.Each(func(rows tables.Rows) error {
		var tool, hash string
		err := rows.Scan(&tool, &hash)
		out[tool] = append(out[tool], hash)
		return err
	}, `SELECT tool, hash FROM approved_tools WHERE server = ?`, server)
	return out, err
}

func insertConfigVersion(t *tables.Tx, server, setup string) error {
	if err := t.Exec(`INSERT INTO config_versions (server, config_hash) VALUES (?, ?)`, server, setup); err != nil {
		return err
	}
	return t.Exec(`DELETE FROM config_versions WHERE server = ?1 AND id NOT IN (SELECT id FROM config_versions
		WHERE server = ?1 ORDER BY id DESC LIMIT ?2)`,
		server, MaxConfigVersions)
}

// approve records this version of the tool as the latest approved one.
func approve(t *tables.Tx, server string, d turn.Descriptor, by string, at time.Time) error {
	content, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := t.Exec(`DELETE FROM approved_tools WHERE server = ? AND tool = ? AND hash = ?`, server, d.ID,
		d.Hash); err != nil {
		return err
	}
	err = t.Exec(`INSERT INTO approved_tools (server, tool, hash, descriptor, approved_by, at) VALUES (?, ?, ?, ?, ?, ?)`,
		server, d.ID, d.Hash, string(content), record.Preview(record.CleanText(by), record.PreviewBytes), tables.Nanos(at))
	if err != nil {
		return err
	}
	return t.Exec(`DELETE FROM approved_tools WHERE server = ?1 AND tool = ?2 AND id NOT IN
		(SELECT id FROM approved_tools WHERE server = ?1 AND tool = ?2 ORDER BY id DESC LIMIT ?3)`, server, d.ID, MaxApprovedVersions)
}

// lastApproved returns the version of a tool that was approved last, nil if none was.
func lastApproved(q tables.Querier, server, tool string) (*turn.Descriptor, error) {
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

// saveView writes a catalogue as turns see it, with the tools in hold quarantined.
func saveView(t *tables.Tx, id int64, c turn.Catalogue, hold []turn.Descriptor) error {
	isHeld := func(d turn.Descriptor) bool {
		return slices.ContainsFunc(hold, func(h turn.Descriptor) bool { return h.ID == d.ID && h.Hash == d.Hash })
	}
	c.Tools = slices.DeleteFunc(slices.Clone(c.Tools), isHeld)
	for _, d := range hold {
		accepted, err := lastApproved(t.Querier, c.Server, d.ID)
		if err != nil {
			return err
		}
		c.Quarantined = append(c.Quarantined, turn.QuarantinedTool{Now: d, Approved: accepted})
	}
	view, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return t.Exec(`UPDATE catalogues SET view_hash = ?, view = ? WHERE id = ?`, record.HashOf(view), string(view), id)
}

// ApproveTools records the operator's approval of quarantined tools as they are now: of the named ones, or of all of
// the server's if none is named. It returns them. ErrNotFound for a server that has published nothing, and for names of
// tools that are not quarantined; ErrConflict if a tool is not the one that the operator saw
// (ApproveToolsInput.Hashes). After an error no tool is approved.
func (r Registry) ApproveTools(ctx context.Context, in ApproveToolsInput) (out []turn.QuarantinedTool, err error) {
	err = r.tables.Write(ctx, fmt.Sprintf("approving tools of server %q", in.Server), func(t *tables.Tx) error {
		if err := lockCatalogue(t, in.Server); err != nil {
			return err
		}
		if done, err := isApproved(t, in.Server, out); done || err != nil {
			return err
		}
		held, err := quarantined(t.Querier, in)
		if err != nil {
			return err
		}
		if out, err = chooseQuarantined(held, in); err != nil || len(out) == 0 {
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

// quarantined returns the quarantined tools of the versions of a server that are current: see Registry.Catalogues. If
// the operator saw one of several versions of a tool, it is that one.
func quarantined(q tables.Querier, in ApproveToolsInput) (held []turn.QuarantinedTool, err error) {
	list, err := versions(q)
	if err != nil {
		return nil, err
	}
	running, err := offers(q)
	if err != nil {
		return nil, err
	}
	known := false
	for _, v := range choose(list, nil, running) {
		if v.server != in.Server {
			continue
		}
		known = true
		c, err := view(q, v.id)
		if err != nil {
			return nil, err
		}
		for _, d := range c.Quarantined {
			i := slices.IndexFunc(held, func(h turn.QuarantinedTool) bool { return h.Now.ID == d.Now.ID })
			switch {
			case i < 0 || in.Hashes == nil && held[i].Now.Hash != d.Now.Hash:
				held = append(held, d)
			case in.seen(d) == d.Now.Hash:
				held[i] = d
			}
		}
	}
	if !known {
		return nil, sql.ErrNoRows
	}
	return held, nil
}

// reviewAll reviews every version of a server again.
func reviewAll(t *tables.Tx, server string) error {
	list, err := versions(t.Querier)
	if err != nil {
		return err
	}
	for _, v := range list {
		if v.server != server {
			continue
		}
		c, err := readCatalogue(t.Querier, `SELECT content FROM catalogues WHERE id = ?`, v.id)
		if err == nil {
			err = review(t, v.id, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isApproved reports whether an earlier run of this transaction, which was lost while it was being committed, has
// approved these tools.
func isApproved(t *tables.Tx, server string, tools []turn.QuarantinedTool) (bool, error) {
	if !t.Again() || len(tools) == 0 {
		return false, nil
	}
	approved, err := approvedHashes(t.Querier, server)
	isMissing := func(d turn.QuarantinedTool) bool { return !slices.Contains(approved[d.Now.ID], d.Now.Hash) }
	return err == nil && !slices.ContainsFunc(tools, isMissing), err
}
