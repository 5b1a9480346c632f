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

// review approves the tools of a catalogue that need no operator, and writes the catalogue that turns see. Only a
// catalogue without a Problem makes its configuration known: a server that was unavailable at first still counts as
// published for the first time afterwards.
func (t *tx) review(c turn.Catalogue) error {
	accepted, err := t.approvedHashes(c.Server)
	if err != nil {
		return err
	}
	var known int
	err = t.row(`SELECT count(*) FROM config_versions WHERE server = ? AND config_hash = ?`, c.Server,
		c.ConfigHash).Scan(&known)
	if err == nil && known == 0 && c.Problem == "" {
		err = t.insertConfigVersion(c.Server, c.ConfigHash)
	}
	if err != nil {
		return err
	}
	take, hold := Review(c, accepted, known == 0)
	for _, d := range take {
		if err := t.approve(c.Server, d, "", time.Time{}); err != nil {
			return err
		}
	}
	if len(take) > 0 {
		if err := t.forgetApprovals(c.Server); err != nil {
			return err
		}
	}
	return t.saveView(c, hold)
}

// maxApprovalsOfServer bounds the approved tool versions of a server that may change its tools. Another check refuses a
// server with more tools than that at once.
const maxApprovalsOfServer = 4096

// forgetApprovals deletes the oldest approvals beyond maxApprovalsOfServer.
func (t *tx) forgetApprovals(server string) error {
	return t.exec(`DELETE FROM approved_tools WHERE server = ?1 AND id NOT IN (SELECT id FROM approved_tools
		WHERE server = ?1 ORDER BY id DESC LIMIT ?2)`,
		server, maxApprovalsOfServer)
}

// approvedHashes returns the hashes of a server's approved tools, by tool ID.
func (q querier) approvedHashes(server string) (map[string][]string, error) {
	out := map[string][]string{}
	err := q.each(func(rows Rows) error {
		var tool, hash string
		err := rows.Scan(&tool, &hash)
		out[tool] = append(out[tool], hash)
		return err
	}, `SELECT tool, hash FROM approved_tools WHERE server = ?`, server)
	return out, err
}

func (t *tx) insertConfigVersion(server, setup string) error {
	if err := t.exec(`INSERT INTO config_versions (server, config_hash) VALUES (?, ?)`, server, setup); err != nil {
		return err
	}
	return t.exec(`DELETE FROM config_versions WHERE server = ?1 AND id NOT IN (SELECT id FROM config_versions
		WHERE server = ?1 ORDER BY id DESC LIMIT ?2)`,
		server, MaxConfigVersions)
}

// approve records this version of the tool as the latest approved one.
func (t *tx) approve(server string, d turn.Descriptor, by string, at time.Time) error {
	content, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := t.exec(`DELETE FROM approved_tools WHERE server = ? AND tool = ? AND hash = ?`, server, d.ID,
		d.Hash); err != nil {
		return err
	}
	err = t.exec(`INSERT INTO approved_tools (server, tool, hash, descriptor, approved_by, at) VALUES (?, ?, ?, ?, ?, ?)`,
		server, d.ID, d.Hash, string(content), Preview(CleanText(by), PreviewBytes), nanos(at))
	if err != nil {
		return err
	}
	return t.exec(`DELETE FROM approved_tools WHERE server = ?1 AND tool = ?2 AND id NOT IN
		(SELECT id FROM approved_tools WHERE server = ?1 AND tool = ?2 ORDER BY id DESC LIMIT ?3)`, server, d.ID, MaxApprovedVersions)
}

// lastApproved returns the version of a tool that was approved last, nil if none was.
func (q querier) lastApproved(server, tool string) (*turn.Descriptor, error) {
	var content []byte
	err := q.row(`SELECT descriptor FROM approved_tools WHERE server = ? AND tool = ? ORDER BY id DESC LIMIT 1`, server,
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
func (t *tx) saveView(c turn.Catalogue, hold []turn.Descriptor) error {
	isHeld := func(d turn.Descriptor) bool {
		return slices.ContainsFunc(hold, func(h turn.Descriptor) bool { return h.ID == d.ID && h.Hash == d.Hash })
	}
	c.Tools = slices.DeleteFunc(slices.Clone(c.Tools), isHeld)
	for _, d := range hold {
		accepted, err := t.lastApproved(c.Server, d.ID)
		if err != nil {
			return err
		}
		c.Quarantined = append(c.Quarantined, turn.QuarantinedTool{Now: d, Approved: accepted})
	}
	view, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return t.exec(`UPDATE catalogues SET view_hash = ?, view = ? WHERE server = ?`, HashOf(view), string(view), c.Server)
}

// ApproveTools records the operator's approval of quarantined tools as they are now: of the named ones, or of all of
// the server's if none is named. It returns them. ErrNotFound for a server that has published nothing, and for names of
// tools that are not quarantined; ErrConflict if a tool is not the one that the operator saw
// (ApproveToolsInput.Hashes). After an error no tool is approved.
func (s *DB) ApproveTools(ctx context.Context, in ApproveToolsInput) (out []turn.QuarantinedTool, err error) {
	err = s.write(ctx, fmt.Sprintf("approving tools of server %q", in.Server), func(t *tx) error {
		if err := t.lockCatalogue(in.Server); err != nil {
			return err
		}
		if done, err := t.isApproved(in.Server, out); done || err != nil {
			return err
		}
		view, err := t.view(in.Server)
		if err != nil {
			return err
		}
		if out, err = chooseQuarantined(view.Quarantined, in); err != nil || len(out) == 0 {
			return err
		}
		for _, d := range out {
			if err := t.approve(in.Server, d.Now, in.By, in.At); err != nil {
				return err
			}
		}
		c, err := t.readCatalogue(`SELECT content FROM catalogues WHERE server = ?`, in.Server)
		if err != nil {
			return err
		}
		return t.review(c)
	})
	return out, err
}

// isApproved reports whether an earlier run of this transaction, which was lost while it was being committed, has
// approved these tools.
func (t *tx) isApproved(server string, tools []turn.QuarantinedTool) (bool, error) {
	if !t.Again() || len(tools) == 0 {
		return false, nil
	}
	approved, err := t.approvedHashes(server)
	isMissing := func(d turn.QuarantinedTool) bool { return !slices.Contains(approved[d.Now.ID], d.Now.Hash) }
	return err == nil && !slices.ContainsFunc(tools, isMissing), err
}
