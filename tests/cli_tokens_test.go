package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
)

// TestCLITokens creates, lists and revokes tokens. Their secrets are shown once and kept nowhere.
func TestCLITokens(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, "")
	assert.Contains(t, h.everturn("tokens", "list").exits(3).err.String(), "there is no journal")
	var output strings.Builder
	run := func(args ...string) *command {
		c := h.everturn(args...).wait()
		output.WriteString(c.out.String() + c.err.String())
		return c
	}
	created := h.everturn("tokens", "create", "ann", "--rights", "decide, read", "--expires", "720h").exits(0)
	secret := strings.TrimSpace(created.out.String())
	assert.Regexp(t, `^evt_[a-z2-7]{32}$`, secret, "standard output has only the secret")
	output.WriteString(created.err.String())
	other := strings.TrimSpace(h.everturn("--tenant", "acme", "tokens", "create", "ci").exits(0).out.String())

	list := decoded[[]client.Token](run("tokens", "list", "-o", "json").exits(0))
	require.Len(t, list, 1)
	assert.Equal(t, "ann", list[0].Principal)
	assert.Equal(t, []client.Right{client.RightRead, client.RightDecide}, list[0].Rights)
	assert.False(t, list[0].ExpiresAt.IsZero())
	assert.Contains(t, created.err.String(), list[0].ID)
	table := run("tokens", "list").exits(0).out.String()
	assert.Contains(t, table, "read,decide")
	assert.NotContains(t, table, "revoked")

	run("--tenant", "acme", "tokens", "revoke", list[0].ID).exits(3)
	run("tokens", "revoke", secret).exits(3)
	run("tokens", "revoke", list[0].ID).exits(0)
	assert.Contains(t, run("tokens", "list").exits(0).out.String(), "revoked")
	for _, args := range [][]string{{"ann", "--rights", "root"}, {"ann", "--rights", ""}, {""},
		{"ann", "--expires", "-1h"}} {
		run(append([]string{"tokens", "create"}, args...)...).exits(3)
	}

	link := h.everturn("tokens", "link", "ann", "--rights", "read", "--set",
		"http.public_url=https://agents.example.com").exits(0)
	assert.Regexp(t, `^https://agents\.example\.com/sign-in/evl_[a-z2-7]{32}\n$`, link.out.String())
	run("tokens", "link", "ann", "--rights", "root").exits(3)

	original, copied := h.path(".everturn/journal.db"), h.path("copy.db")
	run("journal", "copy", original, copied).exits(0)
	for _, path := range []string{original, copied} {
		cfg := config.Default()
		cfg.Journal.Path = path
		j, err := client.OpenJournal(t.Context(), cfg)
		require.NoError(t, err)
		token, err := client.TokenBySecret(t.Context(), j, secret)
		require.NoError(t, err, path)
		assert.False(t, token.RevokedAt.IsZero())
		token, err = client.TokenBySecret(t.Context(), j, other)
		require.NoError(t, err, path)
		assert.Equal(t, []any{"acme", "ci"}, []any{token.Tenant, token.Principal})
		assert.True(t, token.Allows(client.RightSend) && !token.Allows(client.RightDecide), "the default rights")
		require.NoError(t, j.Close())
	}
	for _, s := range []string{secret, other} {
		assert.NotContains(t, output.String(), s)
		assert.Empty(t, filesWith(t, h.dir, s, ""), "a secret is on disk")
	}
}
