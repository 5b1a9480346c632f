package journal

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// publish writes the catalogue of an available server as the latest version of the server's catalogue. It replaces the
// row of the same version, and the row that publishOutage wrote if the server was unavailable before it was ever
// available with this configuration. It changes nothing if the latest version has the same content.
func publish(t *tx, c turn.Catalogue) error {
	content, hash, err := encodeCatalogue(c)
	if err != nil {
		return err
	}
	var latestVersion, latestHash string
	err = t.Row(`SELECT version, hash FROM catalogues WHERE server = ? ORDER BY id DESC LIMIT 1`, c.Server).
		Scan(&latestVersion, &latestHash)
	isUnchanged := err == nil && latestVersion == c.Version() && latestHash == hash
	if ignoreNoRows(err) != nil || isUnchanged {
		return err
	}
	unavailable := turn.Catalogue{ConfigHash: c.ConfigHash}.Version() // a version without tools
	if err := t.Exec(`DELETE FROM catalogues WHERE server = ? AND version IN (?, ?)`, c.Server, c.Version(),
		unavailable); err != nil {
		return err
	}
	if err := insertVersion(t, c, content, hash); err != nil {
		return err
	}
	return t.Exec(`DELETE FROM catalogues WHERE server = ?1 AND id NOT IN (SELECT id FROM catalogues
		WHERE server = ?1 ORDER BY id DESC LIMIT ?2)`, c.Server, MaxCatalogueVersions)
}

// publishOutage records that a server is unavailable to the workers with the configuration c.ConfigHash. All versions
// with this configuration keep their tools and get c.Problem. If there is none, it inserts a version without tools.
// Since stays the time of the first Problem.
func publishOutage(t *tx, c turn.Catalogue) error {
	type row struct {
		id int64
		c  turn.Catalogue
	}
	var rows []row
	err := t.Each(func(result Rows) error {
		var r row
		var content []byte
		if err := result.Scan(&r.id, &content); err != nil {
			return err
		}
		err := json.Unmarshal(content, &r.c)
		if r.c.ConfigHash == c.ConfigHash { // otherwise the server may be available with that configuration
			rows = append(rows, r)
		}
		return err
	}, `SELECT id, content FROM catalogues WHERE server = ? ORDER BY id`, c.Server)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		c.Hash, c.Tools = "", nil
		content, hash, err := encodeCatalogue(c)
		if err != nil {
			return err
		}
		return insertVersion(t, c, content, hash)
	}
	for _, r := range rows {
		if r.c.Problem == "" { // the outage has just begun
			r.c.Since = c.Since
		}
		r.c.Problem, r.c.Required, r.c.Grace = c.Problem, c.Required, c.Grace
		content, hash, err := encodeCatalogue(r.c)
		if err == nil {
			err = t.Exec(`UPDATE catalogues SET hash = ?, content = ? WHERE id = ?`, hash, content, r.id)
		}
		if err == nil {
			err = review(t, r.id, r.c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// encodeCatalogue returns a catalogue as JSON, and the hash of the JSON. Since is left out of a catalogue without a
// Problem, so that an unchanged catalogue has an unchanged hash.
func encodeCatalogue(c turn.Catalogue) (content, hash string, err error) {
	if c.Problem == "" {
		c.Since = time.Time{}
	}
	b, err := json.Marshal(c)
	if err == nil && len(b) > MaxBlobBytes {
		err = fmt.Errorf("the catalogue is %d bytes; the maximum is %d: allow fewer of its tools", len(b),
			MaxBlobBytes)
	}
	return string(b), HashOf(b), err
}

// insertVersion inserts a catalogue as the latest version of its server, unless the journal has this version, and
// reviews it. content and hash are the result of encodeCatalogue.
func insertVersion(t *tx, c turn.Catalogue, content, hash string) error {
	err := t.Exec(`INSERT INTO catalogues (server, version, hash, content, view_hash, view) VALUES (?, ?, ?, ?, '', '')
		ON CONFLICT DO NOTHING`, c.Server, c.Version(), hash, content)
	if err != nil {
		return err
	}
	var id int64
	if err := t.Row(`SELECT id FROM catalogues WHERE server = ? AND version = ?`, c.Server, c.Version()).
		Scan(&id); err != nil {
		return err
	}
	return review(t, id, c)
}
