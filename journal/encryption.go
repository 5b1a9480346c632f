package journal

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tink-crypto/tink-go/v2/daead/subtle"
)

// Keys encrypts and decrypts the content of a journal; codec.Keys implements it. Open must get the associated data that
// Seal got.
type Keys interface {
	Seal(plain, associated []byte) ([]byte, error)
	Open(sealed, associated []byte) ([]byte, error)
}

// contentLabel and idLabel are the associated data of content, and of the journal's ID.
var contentLabel, idLabel = []byte("everturn journal content"), []byte("everturn journal id")

// sealedPrefix begins the ID in the table journal if the journal is encrypted. hashPrefix begins a sealed hash.
const (
	sealedPrefix = "sealed:"
	hashPrefix   = "~"
)

// sealer encrypts the content and the hashes of an encrypted journal. Its methods, except for sealHash and openHash,
// accept a nil sealer, which changes nothing.
//
// A journal is encrypted as a whole and from its beginning, so a row need not say whether it is sealed. Content is
// sealed with the keyset. Hashes are sealed too, because anyone could confirm a guess of a short text by its plain
// hash. They are sealed deterministically, with a key of the journal's own, so that rows can be found by them. That
// key is sealed with the keyset and stored with the journal's ID in the column journal.id.
type sealer struct {
	keys   Keys
	id     string // of the journal
	hashes *subtle.AESSIV
}

// identity is the plain content of the column journal.id of an encrypted journal.
type identity struct {
	ID      string `json:"id"`
	HashKey []byte `json:"hash_key"`
}

// Sealed returns the journal with its content encrypted by keys. A journal that has no content yet becomes an encrypted
// one. If keys is nil, Sealed only checks that the journal is not encrypted. The error wraps ErrSealed if the
// journal has plain content and keys is not nil, or if it is encrypted and keys is nil.
func (db *DB) Sealed(ctx context.Context, keys Keys) (*DB, error) {
	id, err := db.ID(ctx)
	if err != nil {
		return nil, err
	}
	if keys == nil {
		if strings.HasPrefix(id, sealedPrefix) {
			return nil, fmt.Errorf("%w: this journal is encrypted: set [encryption] journal = true, and its keys",
				ErrSealed)
		}
		return db, nil
	}
	if !strings.HasPrefix(id, sealedPrefix) {
		if id, err = db.encrypt(ctx, keys); err != nil {
			return nil, err
		}
	}
	copied := *db
	copied.sealer, err = openSealer(keys, id)
	return &copied, err
}

// Encrypted reports whether the journal's content is encrypted.
func (db *DB) Encrypted(ctx context.Context) (bool, error) {
	if db.sealer != nil {
		return true, nil
	}
	id, err := db.ID(ctx)
	return strings.HasPrefix(id, sealedPrefix), err
}

// encrypt makes an empty journal an encrypted one and returns the new, sealed content of journal.id. The error wraps
// ErrSealed if the journal has content.
func (db *DB) encrypt(ctx context.Context, keys Keys) (sealed string, err error) {
	err = db.write(ctx, "encrypting the journal", func(t *tx) error {
		var id string
		if err := t.Row(`SELECT id FROM journal` + t.Lock()).Scan(&id); err != nil {
			return err
		}
		if strings.HasPrefix(id, sealedPrefix) { // another process was faster
			sealed = id
			return nil
		}
		err := checkEmpty(t)
		if errors.Is(err, ErrExists) {
			return fmt.Errorf("%w: this journal has plain content: stop the workers, copy it with `everturn journal copy` and "+
				"use the copy, or set [encryption] journal = false", ErrSealed)
		}
		if err != nil {
			return err
		}
		plain := identity{ID: id, HashKey: make([]byte, subtle.AESSIVKeySize)}
		_, _ = rand.Read(plain.HashKey) // never fails
		b, err := keys.Seal(mustJSON(plain), idLabel)
		if err != nil {
			return err
		}
		sealed = sealedPrefix + base64.RawURLEncoding.EncodeToString(b)
		return t.Exec(`UPDATE journal SET id = ? WHERE id = ?`, sealed, id)
	})
	return sealed, err
}

// openSealer returns the sealer of an encrypted journal. sealed is the content of the column journal.id.
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

// content is a column of text that an encrypted journal seals, unless it is null or empty. It is used as an argument of
// statements and as a destination of Scan.
type content struct{ sql.NullString }

// contentOf returns content that is not null.
func contentOf(s string) content { return content{sql.NullString{String: s, Valid: true}} }

// contentOrNull returns content that is null if s is empty.
func contentOrNull(s string) content { return content{textOrNull(s)} }

// contentInto is a destination for content that is not null.
type contentInto struct{ to *string }

// intoContent returns a destination of Scan that stores content in s; null becomes "".
func intoContent(s *string) *contentInto { return &contentInto{s} }

// Scan implements sql.Scanner.
func (c *contentInto) Scan(v any) error {
	var n sql.NullString
	err := n.Scan(v)
	*c.to = n.String
	return err
}

// seal returns b encrypted with the keyset.
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

// sealText returns a text of content encrypted with the keyset, in base64. An empty text stays empty.
func (s *sealer) sealText(text string) (string, error) {
	if s == nil || text == "" {
		return text, nil
	}
	b, err := s.seal([]byte(text))
	return base64.RawStdEncoding.EncodeToString(b), err
}

// openText reverses sealText, in place.
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

// sealHash returns a SHA-256 in lower-case hex sealed with the journal's own key, and any other text unchanged, so that
// it may be used for every string argument. An upper-case hash stays, because openHash would return it in lower case. A
// hash is always sealed to the same text.
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

// openHash reverses sealHash, in place. A text that only looks like a sealed hash, such as a caller's ID, does not
// decrypt, and stays unchanged.
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

// sealArguments returns the arguments of a statement with content and hashes sealed.
func (s *sealer) sealArguments(args []any) ([]any, error) {
	if s == nil {
		return args, nil
	}
	out := make([]any, len(args))
	for i, a := range args {
		var err error
		switch a := a.(type) {
		case content:
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

// openScanned opens, in place, the destinations of a row that was scanned: it reverses sealArguments.
func (s *sealer) openScanned(into []any) error {
	for _, d := range into {
		switch d := d.(type) {
		case *content:
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
	return r.sealer.openScanned(into)
}

// sealedRows is the result of a query of an encrypted journal.
type sealedRows struct {
	Rows
	sealer *sealer
}

func (r sealedRows) Scan(into ...any) error { return sealedRow{r.Rows, r.sealer}.Scan(into...) }
