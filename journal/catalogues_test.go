package journal

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/workflows/turn"
)

func TestReviewTools(t *testing.T) {
	for name, c := range map[string]struct {
		server    string
		mayChange bool
		fresh     bool
		accepted  []string
		take      bool
		hold      bool
	}{
		"accepted as it is":                {accepted: []string{"old", "now"}},
		"accepted as it is, new setup":     {accepted: []string{"now"}, fresh: true},
		"new with the setup":               {fresh: true, take: true},
		"new with a setup that is known":   {hold: true},
		"changed":                          {accepted: []string{"old"}, hold: true},
		"changed with the setup":           {accepted: []string{"old"}, fresh: true, hold: true},
		"new, and the server may change":   {mayChange: true, take: true},
		"changed, and the server may":      {mayChange: true, accepted: []string{"old"}, take: true},
		"changed, of the program's own":    {server: LocalServer, accepted: []string{"old"}},
		"a shadow of the program's own":    {server: "locals", hold: true},
		"accepted, and the server may too": {mayChange: true, accepted: []string{"now"}},
	} {
		d := turn.Descriptor{ID: "mcp/x/tool", Hash: "now"}
		in := turn.Catalogue{Server: c.server, AllowToolChanges: c.mayChange, Tools: []turn.Descriptor{d}}
		take, hold := reviewTools(in, map[string][]string{d.ID: c.accepted}, c.fresh)
		assert.Equal(t, c.take, len(take) > 0, "%s: take", name)
		assert.Equal(t, c.hold, len(hold) > 0, "%s: hold", name)
	}
}

func TestToolName(t *testing.T) {
	for id, want := range map[string]string{"mcp/files/read": "read", "mcp/files/a/b": "a/b", "local/read": "local/read",
		"mcp/other/read": "mcp/other/read"} {
		assert.Equal(t, want, ToolName("files", id))
	}
	assert.Equal(t, "read", ToolName("local", "local/read"))
}
