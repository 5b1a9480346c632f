package journal

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Right is what a token permits its holder to do. No right implies another.
type Right string

// The rights.
const (
	RightRead       Right = "read"       // to read sessions, their events and their requests
	RightSend       Right = "send"       // to send messages, and to stop turns
	RightDecide     Right = "decide"     // to decide requests
	RightAdminister Right = "administer" // to change what concerns the whole tenant
)

// Rights returns all rights.
func Rights() []Right { return []Right{RightRead, RightSend, RightDecide, RightAdminister} }

// Bounds of tokens. A principal has the length that is recorded with a decision: see workflows.DecideInput.
const (
	// MaxPrincipalBytes bounds the name of a principal.
	MaxPrincipalBytes = 120
	// MaxTokens bounds the tokens of a tenant that are neither revoked nor expired.
	MaxTokens = 1000
)

// The prefixes of secrets, by which scanners can find one that was published by mistake. The hash covers the prefix, so
// that the secret of a link is none of a token.
const (
	secretPrefix     = "evt_"
	linkSecretPrefix = "evl_"
)

// secretBytes is the number of random bytes in a secret.
const secretBytes = 20

// Token is a bearer token: whoever has its secret acts for the principal, in one tenant and with these rights. The
// journal has only the SHA-256 of the secret.
type Token struct {
	ID        string    `json:"id"`
	Tenant    string    `json:"tenant,omitempty"` // empty: the default tenant
	Principal string    `json:"principal"`
	Rights    []Right   `json:"rights"` // in the order of Rights
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero: never
	RevokedAt time.Time `json:"revoked_at,omitzero"` // zero: it is not revoked
}

// Allows reports whether the token has a right. It does not check whether the token is active.
func (t Token) Allows(r Right) bool { return slices.Contains(t.Rights, r) }

// Active reports whether the token is neither revoked nor expired.
func (t Token) Active(now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}

// CreateTokenInput is the input of DB.CreateToken.
type CreateTokenInput struct {
	Principal string // printable text of 1 to MaxPrincipalBytes bytes
	Rights    []Right
	ExpiresAt time.Time // zero: never
}

// check returns in with its rights in the order of Rights, or an error that wraps ErrInvalid.
func (in CreateTokenInput) check(now time.Time) (CreateTokenInput, error) {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	p, asked := in.Principal, in.Rights
	in.Rights = slices.DeleteFunc(Rights(), func(r Right) bool { return !slices.Contains(asked, r) })
	unknown := slices.IndexFunc(asked, func(r Right) bool { return !slices.Contains(Rights(), r) })
	switch {
	case p == "" || len(p) > MaxPrincipalBytes:
		return in, fmt.Errorf("%w: the principal is %d bytes; it must have 1 to %d", ErrInvalid, len(p), MaxPrincipalBytes)
	case !utf8.ValidString(p) || strings.ContainsFunc(p, unprintable) || strings.TrimSpace(p) != p:
		return in, fmt.Errorf("%w: the principal %q has spaces around it, or characters that cannot be printed",
			ErrInvalid, p)
	case unknown >= 0:
		return in, fmt.Errorf("%w: unknown right %.40q; the rights are %v", ErrInvalid, string(asked[unknown]), Rights())
	case len(in.Rights) == 0:
		return in, fmt.Errorf("%w: a token needs at least one of the rights %v", ErrInvalid, Rights())
	case !in.ExpiresAt.IsZero() && (!in.ExpiresAt.After(now) || in.ExpiresAt.After(now.AddDate(100, 0, 0))):
		return in, fmt.Errorf("%w: the token must expire in the next 100 years, or never", ErrInvalid)
	}
	return in, nil
}

// CreateToken creates a token of the handle's tenant and returns it with its secret, which cannot be read again.
//
// Errors: ErrInvalid, also if the tenant has MaxTokens active tokens.
func (db *DB) CreateToken(ctx context.Context, in CreateTokenInput) (token Token, secret string, err error) {
	return db.createToken(ctx, "creating a token", newSecret("t-", secretPrefix), in)
}

// namedSecret is a new secret with the ID of its token.
type namedSecret struct{ ID, Secret string }

func newSecret(idPrefix, secretPrefix string) namedSecret {
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // never fails
	return namedSecret{idPrefix + strings.ToLower(rand.Text()[:12]),
		secretPrefix + strings.ToLower(base32.StdEncoding.EncodeToString(random))}
}

// createToken creates a token or a link.
func (db *DB) createToken(ctx context.Context, what string, n namedSecret, in CreateTokenInput) (token Token,
	secret string, err error) {
	err = db.write(ctx, what, func(t *tx) error {
		if t.Again() { // an earlier run may have created it
			if token, err = t.tokenOf(n.Secret); !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		now, err := databaseTime(t.querier)
		if err != nil {
			return err
		}
		in, err := in.check(now)
		if err == nil {
			err = t.checkTokens(now)
		}
		if err != nil {
			return err
		}
		token = Token{ID: n.ID, Tenant: t.Tenant, Principal: in.Principal, Rights: in.Rights, CreatedAt: now,
			ExpiresAt: in.ExpiresAt.UTC()}
		return t.insertToken(token, n.Secret)
	})
	if err != nil {
		return Token{}, "", err
	}
	return token, n.Secret, nil
}

func (t *tx) insertToken(token Token, secret string) error {
	return t.Exec(`INSERT INTO tokens (token_id, hash, tenant, principal, rights, created_at, expires_at, revoked_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, 0)`, token.ID, HashOf([]byte(secret)), token.Tenant, token.Principal,
		string(mustJSON(token.Rights)), nanos(token.CreatedAt), nanos(token.ExpiresAt))
}

// checkTokens returns an error if the tenant has MaxTokens active tokens. It locks the journal's row first, so that
// transactions that create tokens run one after the other.
func (t *tx) checkTokens(now time.Time) error {
	if err := t.LockRow(`SELECT 1 FROM journal`); err != nil {
		return err
	}
	var active int
	err := t.Row(`SELECT count(*) FROM tokens WHERE tenant = ? AND revoked_at = 0 AND (expires_at = 0 OR expires_at > ?)`,
		t.Tenant, nanos(now)).Scan(&active)
	if err == nil && active >= MaxTokens {
		err = fmt.Errorf("%w: the tenant has %d tokens, the maximum: revoke those that are not used", ErrInvalid, active)
	}
	return err
}

const tokenColumns = `token_id, tenant, principal, rights, created_at, expires_at, revoked_at`

// scanToken reads a row of tokenColumns.
func scanToken(scan scanner) (t Token, err error) {
	var rights string
	var created, expires, revoked int64
	if err = scan(&t.ID, &t.Tenant, &t.Principal, &rights, &created, &expires, &revoked); err != nil {
		return t, err
	}
	t.CreatedAt, t.ExpiresAt, t.RevokedAt = instant(created), instant(expires), instant(revoked)
	return t, json.Unmarshal([]byte(rights), &t.Rights)
}

// Tokens returns all tokens of the handle's tenant, also those that are revoked or expired, the oldest first.
func (db *DB) Tokens(ctx context.Context) ([]Token, error) {
	return get(ctx, db, "listing the tokens", func(q querier) ([]Token, error) {
		return collect(q, scanToken, `SELECT `+tokenColumns+` FROM tokens WHERE tenant = ? ORDER BY created_at, token_id`,
			q.Tenant)
	})
}

// RevokeToken revokes a token of the handle's tenant. If it is revoked already, nothing changes. ErrNotFound if there
// is none. The error does not repeat the ID, because it may be a secret that was given by mistake.
func (db *DB) RevokeToken(ctx context.Context, id string) error {
	id = CleanText(id)
	return db.write(ctx, "revoking a token", func(t *tx) error {
		var found int
		err := t.Row(`SELECT 1 FROM tokens WHERE tenant = ? AND token_id = ?`, t.Tenant, id).Scan(&found)
		if err != nil {
			return err
		}
		return t.Exec(`UPDATE tokens SET revoked_at = (SELECT now FROM clock) WHERE token_id = ? AND revoked_at = 0`, id)
	})
}

// TokenBySecret returns the token of a secret, of any tenant, so that a server can learn for which tenant a request is.
// The token may be revoked or expired: see Token.Active. ErrNotFound if the secret belongs to no token, or to a link.
func (db *DB) TokenBySecret(ctx context.Context, secret string) (Token, error) {
	return db.tokenBySecret(ctx, "finding a token", secretPrefix, secret)
}

func (db *DB) tokenBySecret(ctx context.Context, what, prefix, secret string) (Token, error) {
	return get(ctx, db, what, func(q querier) (Token, error) {
		if !strings.HasPrefix(secret, prefix) {
			return Token{}, sql.ErrNoRows
		}
		return q.tokenOf(secret)
	})
}

// tokenOf returns the token, or the link, of a secret, of any tenant.
func (q querier) tokenOf(secret string) (Token, error) {
	return scanToken(q.Row(`SELECT `+tokenColumns+` FROM tokens WHERE hash = ?`, HashOf([]byte(secret))).Scan)
}
