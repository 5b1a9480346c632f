package journaltest

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
)

var tokenPromises = []promise{
	{"a token is found by its secret alone", tokenFound},
	{"a tenant lists and revokes its own tokens only", tokenTenants},
	{"a token that is not valid is not created", tokenChecked},
	{"a link is exchanged for a token once", linkSpent},
}

// tokenInput is the input for a token that may read.
func tokenInput(principal string) journal.CreateTokenInput {
	return journal.CreateTokenInput{Principal: principal, Rights: []journal.Right{journal.RightRead}}
}

// createToken creates a token and checks the form of its secret.
func createToken(t *testing.T, j *journal.DB, in journal.CreateTokenInput) (journal.Token, string) {
	t.Helper()
	token, secret, err := j.CreateToken(t.Context(), in)
	require.NoError(t, err)
	assert.Regexp(t, `^evt_[a-z2-7]{32}$`, secret)
	return token, secret
}

func tokenFound(t *testing.T, open func() *journal.DB) {
	j, ctx := open(), t.Context()
	expires := time.Now().Add(time.Hour).Round(0).UTC()
	token, secret := createToken(t, j.Tenant("acme"), journal.CreateTokenInput{Principal: "Ann Ä <ann@example.org>",
		Rights:    []journal.Right{journal.RightDecide, journal.RightRead, journal.RightRead},
		ExpiresAt: expires})
	other, otherSecret := createToken(t, j, tokenInput("ci"))
	assert.NotEqual(t, secret, otherSecret)
	assert.Equal(t, "acme", token.Tenant)
	assert.Equal(t, "Ann Ä <ann@example.org>", token.Principal)
	assert.Equal(t, []journal.Right{journal.RightRead, journal.RightDecide}, token.Rights)
	assert.Equal(t, expires, token.ExpiresAt)
	assert.Less(t, time.Since(token.CreatedAt).Abs(), time.Hour)

	for _, tenant := range []string{"", "acme", "beta"} {
		assert.Equal(t, token, must(j.Tenant(tenant).TokenBySecret(ctx, secret))(t))
		assert.Equal(t, other, must(j.Tenant(tenant).TokenBySecret(ctx, otherSecret))(t))
	}
	for _, wrong := range []string{"", "evt_", secret + "a", secret[:len(secret)-1], strings.ToUpper(secret), token.ID,
		journal.HashOf([]byte(secret)), "\x00\xff"} {
		_, err := j.TokenBySecret(ctx, wrong)
		require.ErrorIs(t, err, journal.ErrNotFound)
		assert.NotContains(t, err.Error(), secret[:10], "the error repeats what may be a secret")
	}
	assert.True(t, token.Active(expires.Add(-1)))
	assert.False(t, token.Active(expires))
	assert.True(t, other.Active(expires.AddDate(50, 0, 0)), "without an expiry")
	assert.True(t, token.Allows(journal.RightDecide))
	assert.False(t, token.Allows(journal.RightSend))
}

func tokenTenants(t *testing.T, open func() *journal.DB) {
	j, ctx := open(), t.Context()
	acme := j.Tenant("acme")
	first, secret := createToken(t, acme, tokenInput("a"))
	second, _ := createToken(t, acme, tokenInput("a"))
	other, _ := createToken(t, j, tokenInput("a"))
	assert.ElementsMatch(t, []journal.Token{first, second}, must(acme.Tokens(ctx))(t))
	assert.Equal(t, []journal.Token{other}, must(j.Tokens(ctx))(t))

	for _, id := range []string{first.ID, "", "t-none", secret, "\x00"} {
		err := j.RevokeToken(ctx, id)
		require.ErrorIs(t, err, journal.ErrNotFound)
		assert.NotContains(t, err.Error(), secret)
	}
	assert.ElementsMatch(t, []journal.Token{first, second}, must(acme.Tokens(ctx))(t))
	require.NoError(t, acme.RevokeToken(ctx, first.ID))
	revoked := must(j.TokenBySecret(ctx, secret))(t)
	assert.False(t, revoked.Active(revoked.RevokedAt.Add(-time.Hour)))
	require.NoError(t, acme.RevokeToken(ctx, first.ID))
	assert.Equal(t, revoked, must(j.TokenBySecret(ctx, secret))(t), "the first revocation stands")
	first.RevokedAt = revoked.RevokedAt
	assert.Equal(t, first, revoked)
	assert.ElementsMatch(t, []journal.Token{first, second}, must(acme.Tokens(ctx))(t))
}

func tokenChecked(t *testing.T, open func() *journal.DB) {
	j, valid := open(), tokenInput("ann")
	for name, change := range map[string]func(*journal.CreateTokenInput){
		"no principal":   func(in *journal.CreateTokenInput) { in.Principal = "" },
		"long principal": func(in *journal.CreateTokenInput) { in.Principal = strings.Repeat("a", 121) },
		"a space":        func(in *journal.CreateTokenInput) { in.Principal = "ann " },
		"a line break":   func(in *journal.CreateTokenInput) { in.Principal = "ann\nbob" },
		"a control":      func(in *journal.CreateTokenInput) { in.Principal = "ann\x1b[2J" },
		"text reversed":  func(in *journal.CreateTokenInput) { in.Principal = "ann\u202e" },
		"not UTF-8":      func(in *journal.CreateTokenInput) { in.Principal = "ann\xff" },
		"no right":       func(in *journal.CreateTokenInput) { in.Rights = nil },
		"unknown right":  func(in *journal.CreateTokenInput) { in.Rights = []journal.Right{"read", "root"} },
		"expired":        func(in *journal.CreateTokenInput) { in.ExpiresAt = time.Now().Add(-time.Hour) },
		"a far future":   func(in *journal.CreateTokenInput) { in.ExpiresAt = time.Now().AddDate(300, 0, 0) },
	} {
		in := valid
		change(&in)
		_, secret, err := j.CreateToken(t.Context(), in)
		require.ErrorIs(t, err, journal.ErrInvalid, name)
		assert.Empty(t, secret, name)
	}
	assert.Empty(t, must(j.Tokens(t.Context()))(t))
}

func linkSpent(t *testing.T, open func() *journal.DB) {
	j, ctx := open(), t.Context()
	acme := j.Tenant("acme")
	link, secret, err := acme.CreateLink(ctx, tokenInput("ann"))
	require.NoError(t, err)
	assert.InDelta(t, journal.LinkFor, time.Until(link.ExpiresAt), float64(time.Minute))
	_, err = j.TokenBySecret(ctx, secret)
	require.ErrorIs(t, err, journal.ErrNotFound, "a link is no token")
	_, bearer := createToken(t, acme, tokenInput("ann"))
	for _, wrong := range []string{"", "evl_", bearer, secret + "a", link.ID} {
		_, err := j.LinkBySecret(ctx, wrong)
		require.ErrorIs(t, err, journal.ErrNotFound)
		_, _, err = j.SpendLink(ctx, wrong, time.Hour)
		require.ErrorIs(t, err, journal.ErrNotFound)
	}
	assert.Equal(t, link, must(j.LinkBySecret(ctx, secret))(t), "it is not spent")

	var all sync.WaitGroup
	var tokens atomic.Int64
	for range 10 {
		all.Go(func() {
			token, made, err := j.SpendLink(ctx, secret, time.Hour)
			if err != nil {
				assert.ErrorIs(t, err, journal.ErrNotFound)
				return
			}
			tokens.Add(1)
			assert.Equal(t, token, must(j.TokenBySecret(ctx, made))(t))
			assert.Equal(t, []any{"acme", "ann", link.Rights}, []any{token.Tenant, token.Principal, token.Rights})
			assert.InDelta(t, time.Hour, time.Until(token.ExpiresAt), float64(time.Minute))
		})
	}
	all.Wait()
	assert.EqualValues(t, 1, tokens.Load())
	assert.False(t, must(j.LinkBySecret(ctx, secret))(t).Active(time.Now()))
}

// tokenBound creates more tokens than a tenant may have, from two processes at once.
func tokenBound(t *testing.T, a, b *journal.DB) {
	var refused atomic.Int64
	together(t, a, b, journal.MaxTokens+10, func(_ int, j *journal.DB) error {
		_, _, err := j.CreateToken(t.Context(), tokenInput("ann"))
		if err != nil {
			refused.Add(1)
			assert.ErrorIs(t, err, journal.ErrInvalid)
		}
		return nil
	})
	assert.EqualValues(t, 10, refused.Load())
	list := must(a.Tokens(t.Context()))(t)
	require.Len(t, list, journal.MaxTokens)
	createToken(t, a.Tenant("acme"), tokenInput("ann"))
	require.NoError(t, b.RevokeToken(t.Context(), list[0].ID))
	in := tokenInput("ann")
	in.ExpiresAt = time.Now().Add(100 * time.Millisecond)
	createToken(t, a, in)
	require.Eventually(t, func() bool { // once it has expired
		_, _, err := b.CreateToken(t.Context(), tokenInput("ann"))
		return err == nil
	}, followTimeout, 10*time.Millisecond)
}
