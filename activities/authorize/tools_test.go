package authorize

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/workflows/turn"
)

// shelf is a journal with catalogues, or one that fails to read them.
type shelf struct {
	Journal
	catalogues []turn.Catalogue
	err        error
}

func (s *shelf) OfferedBy(context.Context, map[string]string) ([]turn.Catalogue, error) {
	return s.catalogues, s.err
}

func standingOf(t *testing.T, s *shelf) toolStatus {
	a := New(Options{Journal: s, Offers: func() map[string]string { return nil },
		Servers: []string{"local", "git", "git_hub", "away"}})
	all, err := a.Catalogues(t.Context())
	assert.ErrorIs(t, err, s.err)
	return toolStatus{all}
}

func described(id, hash string) turn.Descriptor {
	return turn.Descriptor{ID: id, Wire: turn.WireName(id), Hash: hash}
}

func tools() *shelf {
	held := []turn.QuarantinedTool{{Now: described("mcp/git/push", "new")}, {Now: described("mcp/git/secret", "new")}}
	return &shelf{catalogues: []turn.Catalogue{
		{Server: "away", Problem: "it does not start"},
		{Server: "git", Tools: []turn.Descriptor{described("mcp/git/pull", "1"), described("mcp/git/add", "2")},
			Quarantined: held},
		{Server: "git_hub"},
		{Server: "of another worker", Quarantined: []turn.QuarantinedTool{{Now: described("mcp/other/x", "1")}}},
	}}
}

// TestWhetherAPinnedToolIsWhatItWas checks that drift is reported only if the journal proves it. Such a call is
// refused without a request for approval, and a request that is never made cannot be approved.
func TestWhetherAPinnedToolIsWhatItWas(t *testing.T) {
	for name, c := range map[string]struct {
		pinned turn.Descriptor
		says   string
	}{
		"as it was":                      {described("mcp/git/pull", "1"), ""},
		"held back":                      {described("mcp/git/push", "old"), "is quarantined"},
		"accepted as something else":     {described("mcp/git/add", "1"), "new turns have the new version"},
		"gone":                           {described("mcp/git/log", "1"), "is no longer offered"},
		"its server may come back":       {described("mcp/away/x", "1"), ""},
		"of a server nobody has told of": {described("mcp/unheard/x", "1"), ""},
	} {
		got := standingOf(t, tools()).driftReason(c.pinned)
		assert.Equal(t, c.says == "", got == "", "%s: %s", name, got)
		assert.Contains(t, got, c.says, name)
	}
	assert.Empty(t, standingOf(t, &shelf{err: errors.New("disk")}).driftReason(described("mcp/git/push", "old")),
		"a journal that cannot be read refuses nothing")
}

func TestWhyANameIsNoneOfTheTurnsTools(t *testing.T) {
	policy := turn.Policy{Allow: []string{"mcp/*"}, Deny: []string{"mcp/git/secret"}}
	for name, c := range map[string]struct {
		says string
		code turn.Code
	}{
		"mcp_git_push":    {"the tool is quarantined", turn.CodeToolDrift},
		"mcp/git/push":    {"the tool is quarantined", turn.CodeToolDrift},
		"mcp_git_secret":  {"there is no such tool", ""}, // policy hides it from the model
		"mcp_git_pull":    {"new turns have it", turn.CodeToolDrift},
		"mcp_away_x":      {`its server "away" is not available`, turn.CodeToolNotSent},
		"mcp_git_hub_x":   {"there is no such tool", ""},
		"mcp/other/x":     {"there is no such tool", ""}, // the server of another worker
		"mcp_nowhere_x":   {"there is no such tool", ""},
		"away":            {"there is no such tool", ""},
		"local/something": {"there is no such tool", ""},
	} {
		reason, code := standingOf(t, tools()).missingReason(name, policy)
		assert.Contains(t, reason, c.says, name)
		assert.Equal(t, c.code, code, name)
	}
}
