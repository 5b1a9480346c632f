package journal

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
)

// LinkFor is how long a link can be spent.
const LinkFor = 10 * time.Minute

// CreateLink creates a link of the handle's tenant: a secret that SpendLink exchanges once, within LinkFor, for a
// token with the same principal and rights. in.ExpiresAt is ignored. The link is in the list of tokens; no request is
// accepted with its secret.
//
// Errors: those of CreateToken.
func (db *DB) CreateLink(ctx context.Context, in CreateTokenInput) (link Token, secret string, err error) {
	in.ExpiresAt = time.Now().Add(LinkFor)
	return db.createToken(ctx, "creating a link", newSecret("l-", linkSecretPrefix), in)
}

// LinkBySecret returns the link of a secret, of any tenant, without spending it. The link may be spent or expired: see
// Token.Active. ErrNotFound if the secret belongs to no link.
func (db *DB) LinkBySecret(ctx context.Context, secret string) (Token, error) {
	return db.tokenBySecret(ctx, "finding a link", linkSecretPrefix, secret)
}

// SpendLink revokes a link, of any tenant, and creates a token in its place that is valid for the given time. It
// returns the token and its secret.
//
// Errors: ErrNotFound if there is no such link, or it is spent or expired.
func (db *DB) SpendLink(ctx context.Context, linkSecret string, valid time.Duration) (token Token, secret string,
	err error) {
	n := newSecret("p-", secretPrefix)
	err = db.write(ctx, "spending a link", func(t *tx) error {
		if t.Again() { // an earlier run may have spent it
			if token, err = t.tokenOf(n.Secret); !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		if err := t.LockRow(`SELECT 1 FROM journal`); err != nil { // before the link is read: two may spend it at once
			return err
		}
		now, err := databaseTime(t.querier)
		if err != nil {
			return err
		}
		link, err := t.tokenOf(linkSecret)
		if err == nil && (!link.Active(now) || !strings.HasPrefix(linkSecret, linkSecretPrefix)) {
			err = sql.ErrNoRows
		}
		if err == nil {
			err = t.Exec(`UPDATE tokens SET revoked_at = ? WHERE token_id = ?`, nanos(now), link.ID)
		}
		if err != nil {
			return err
		}
		token = Token{ID: n.ID, Tenant: link.Tenant, Principal: link.Principal, Rights: link.Rights, CreatedAt: now,
			ExpiresAt: now.Add(valid)}
		return t.insertToken(token, n.Secret)
	})
	if err != nil {
		return Token{}, "", err
	}
	return token, n.Secret, nil
}
