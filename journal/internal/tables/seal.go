package tables

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tink-crypto/tink-go/v2/daead/subtle"

	"github.com/everturn/everturn/journal/record"
)

// Keys seals the content of a journal. codec.Keys implements it. The associated data must be the same for both.
type Keys interface {
	Seal(plain, associated []byte) ([]byte, error)
	Open(sealed, associated []byte) ([]byte, error)
}

// contentLabel and idLabel are the associated data of content, and of the journal's ID.
var contentLabel, idLabel = []byte("everturn journal content"), []byte("everturn journal id")

// sealedPrefix begins an encrypted journal's id, hashPrefix a sealed hash.
const (
	sealedPrefix = "sealed:"
	hashPrefix   = "~"
)

// sealer seals what an encrypted journal keeps. Its methods accept a nil sealer, which seals nothing.
//
// A journal is encrypted as a whole and from its beginning, so that no row says whether it is sealed. Content is sealed
// with the keyset. Hashes are sealed with a key of the journal's own, and always to the same text, so that rows can be
// found by them; a plain hash of a short text would reveal the text to whoever can guess it. The journal's key is in
// the column journal.id, together with the ID, sealed with the keyset.
type sealer struct {
	keys   Keys
	id     string // of the journal
	hashes *subtle.AESSIV
}

// identity is the plain content of an encrypted journal's id.
type identity struct {
	ID      string `json:"id"`
	HashKey []byte `json:"hash_key"`
}

// Sealed returns the journal with the content encryption of keys. With nil, it only checks that the journal is not
// encrypted. It encrypts a journal that has no content yet. record.ErrSealed if the journal has plain content, or if
// there are no keys and it is encrypted.
func (h *Handle) Sealed(ctx context.Context, keys Keys) (*Handle, error) {
	id, err := h.ID(ctx)
	if err != nil {
		return nil, err
	}
	if keys == nil {
		if strings.HasPrefix(id, sealedPrefix) {
			return nil, fmt.Errorf("%w: this journal is encrypted: set [encryption] journal = true, and its keys",
				record.ErrSealed)
		}
		return h, nil
	}
	if !strings.HasPrefix(id, sealedPrefix) {
		if id, err = h.encrypt(ctx, keys); err != nil {
			return nil, err
		}
	}
	of := *h
	of.sealer, err = openSealer(keys, id)
	return &of, err
}

// Encrypted reports whether the journal's content is encrypted.
func (h *Handle) Encrypted(ctx context.Context) (bool, error) {
	if h.sealer != nil {
		return true, nil
	}
	id, err := h.ID(ctx)
	return strings.HasPrefix(id, sealedPrefix), err
}

// encrypt makes an empty journal an encrypted one and returns its sealed ID.
func (h *Handle) encrypt(ctx context.Context, keys Keys) (sealed string, err error) {
	err = h.Write(ctx, "encrypting the journal", func(t *Tx) error {
		var id string
		if err := t.Row(`SELECT id FROM journal` + t.Lock()).Scan(&id); err != nil {
			return err
		}
		if strings.HasPrefix(id, sealedPrefix) { // another process was faster
			sealed = id
			return nil
		}
		if err := checkEmpty(t); err != nil {
			return fmt.Errorf("%w: this journal has plain content: stop the workers, copy it with `everturn journal copy` and "+
				"use the copy, or set [encryption] journal = false", record.ErrSealed)
		}
		plain := identity{ID: id, HashKey: make([]byte, subtle.AESSIVKeySize)}
		_, _ = rand.Read(plain.HashKey) // never fails
		b, err := keys.Seal(record.MustJSON(plain), idLabel)
		if err != nil {
			return err
		}
		sealed = sealedPrefix + base64.RawURLEncoding.EncodeToString(b)
		return t.Exec(`UPDATE journal SET id = ? WHERE id = ?`, sealed, id)
	})
	return sealed, err
}

func openSealer(keys Keys, sealed string) (*sealer, error) {
	var plain identity
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(sealed, sealedPrefix))
	if err == nil {
		b, err = keys.Open(b, idLabel)
	}
	if err == nil {
		err = json.Unmarshal(b, &plain)
	}
	if err != nil {
		return nil, fmt.Errorf("opening an encrypted journal: %w", err)
	}
	siv, err := subtle.NewAESSIV(plain.HashKey)
	if err != nil {
		return nil, fmt.Errorf("opening an encrypted journal: %w", err)
	}
	return &sealer{keys: keys, id: plain.ID, hashes: siv}, nil
}

// Content is a column of content, as an argument and as a destination. An encrypted journal seals it, unless it is null
// or empty.
type Content struct{ sql.NullString }

// ContentOf is content that is not null.
func ContentOf(s string) Content { return Content{sql.NullString{String: s, Valid: true}} }

// ContentOrNull is null if s is empty.
func ContentOrNull(s string) Content { return Content{Null(s)} }

// contentInto is a destination for content that is not null.
type contentInto struct{ to *string }

// Into scans content that is not null into s.
func Into(s *string) *contentInto { return &contentInto{s} }

// Scan implements sql.Scanner.
func (c *contentInto) Scan(v any) error {
	var n sql.NullString
	err := n.Scan(v)
	*c.to = n.String
	return err
}

// seal returns bytes as they are stored.
func (s *sealer) seal(b []byte) ([]byte, error) {
	if s == nil {
		return b, nil
	}
	return s.keys.Seal(b, contentLabel)
}

// open reverses seal.
func (s *sealer) open(b []byte) ([]byte, error) {
	if s == nil {
		return b, nil
	}
	return s.keys.Open(b, contentLabel)
}

func (s *sealer) sealText(text string) (string, error) {
	if s == nil || text == "" {
		return text, nil
	}
	b, err := s.seal([]byte(text))
	return base64.RawStdEncoding.EncodeToString(b), err
}

func (s *sealer) openText(sealed *string) error {
	if s == nil || *sealed == "" {
		return nil
	}
	b, err := base64.RawStdEncoding.DecodeString(*sealed)
	if err == nil {
		b, err = s.open(b)
	}
	if err != nil {
		return fmt.Errorf("reading encrypted content: %w", err)
	}
	*sealed = string(b)
	return nil
}

// sealHash seals a SHA-256 in hex, and returns every other text as it is.
func (s *sealer) sealHash(text string) (string, error) {
	if len(text) != 2*sha256Bytes || text != strings.ToLower(text) {
		return text, nil
	}
	hash, err := hex.DecodeString(text)
	if err != nil {
		return text, nil
	}
	b, err := s.hashes.EncryptDeterministically(hash, nil)
	return hashPrefix + base64.RawURLEncoding.EncodeToString(b), err
}

// openHash reverses sealHash. An ID that only looks like a sealed hash is not authentic, and stays as it is.
func (s *sealer) openHash(sealed *string) {
	encoded, ok := strings.CutPrefix(*sealed, hashPrefix)
	b, err := base64.RawURLEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return
	}
	if hash, err := s.hashes.DecryptDeterministically(b, nil); err == nil {
		*sealed = hex.EncodeToString(hash)
	}
}

const sha256Bytes = 32

// arguments returns the arguments of a statement as they are stored.
func (s *sealer) arguments(args []any) ([]any, error) {
	if s == nil {
		return args, nil
	}
	out := make([]any, len(args))
	for i, a := range args {
		var err error
		switch a := a.(type) {
		case Content:
			a.String, err = s.sealText(a.String)
			out[i] = a
		case string:
			out[i], err = s.sealHash(a)
		case sql.NullString:
			a.String, err = s.sealHash(a.String)
			out[i] = a
		default:
			out[i] = a
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// reveal turns the destinations of a row into what was stored.
func (s *sealer) reveal(into []any) error {
	for _, d := range into {
		switch d := d.(type) {
		case *Content:
			if err := s.openText(&d.String); err != nil {
				return err
			}
		case *contentInto:
			if err := s.openText(d.to); err != nil {
				return err
			}
		case *string:
			s.openHash(d)
		case *sql.NullString:
			s.openHash(&d.String)
		}
	}
	return nil
}

// sealedRow is a row, or the current row of a result, of an encrypted journal.
type sealedRow struct {
	Row
	sealer *sealer
}

func (r sealedRow) Scan(into ...any) error {
	if err := r.Row.Scan(into...); err != nil {
		return err
	}
	return r.sealer.reveal(into)
}

// sealedRows is the result of a query of an encrypted journal.
type sealedRows struct {
	Rows
	sealer *sealer
}

func (r sealedRows) Scan(into ...any) error { return sealedRow{r.Rows, r.sealer}.Scan(into...) }
