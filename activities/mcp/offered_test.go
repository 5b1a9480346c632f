package mcp_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/workflows/turn"
)

func TestResourcesAndPromptsAreToolsWhereTheyAreWanted(t *testing.T) {
	names := func(s mcp.Server) (ids []string) {
		for _, d := range catalogue(t, newHost(t, mcp.Options{}, s), "act").Tools {
			ids = append(ids, d.ID)
		}
		return ids
	}
	s := stdioActor(t, "act")
	assert.NotContains(t, names(s), "mcp/act/read_resource")
	s.Resources = true
	assert.Subset(t, names(s), []string{"mcp/act/list_resources", "mcp/act/read_resource"})
	assert.NotContains(t, names(s), "mcp/act/get_prompt")
	s.Prompts, s.Deny = true, []string{"list_*"}
	assert.Contains(t, names(s), "mcp/act/get_prompt")
	assert.NotContains(t, names(s), "mcp/act/list_prompts", "the operator's lists count for them, too")

	none := stdioServer("act")
	none.Resources, none.Prompts = true, true
	assert.NotContains(t, names(none), "mcp/act/read_resource", "the server has none")
}

func TestResourcesAreListedByThePageAndRead(t *testing.T) {
	for name, s := range map[string]mcp.Server{"stdio": stdioActor(t, "act"), "http": httpActor(t, "act")} {
		t.Run(name, func(t *testing.T) {
			s.Resources, s.Trust = true, true
			h := newHost(t, mcp.Options{}, s)
			r := call(t, h, "mcp/act/list_resources", `{}`)
			assert.Contains(t, r.Text, "note://0 | note 0 | text/plain | A note.")
			assert.Contains(t, r.Text, "call again with the cursor")
			assert.NotContains(t, r.Text, "note://4")
			assert.Equal(t, "file:///{path} | files", call(t, h, "mcp/act/list_resources", `{"templates":true}`).Text)

			assert.Equal(t, "the text of note://3", call(t, h, "mcp/act/read_resource", `{"uri":"note://3"}`).Text)
			r = call(t, h, "mcp/act/read_resource", `{"uri":"note://picture"}`)
			require.Len(t, r.Media, 1)
			assert.Equal(t, "image/png", r.Media[0].Type)
			r = call(t, h, "mcp/act/read_resource", `{"uri":"note://none"}`)
			assert.Equal(t, turn.OutcomeError, r.Outcome)

			d := request(t, h, "mcp/act/read_resource", `{}`)
			assert.True(t, d.Repeatable, "a trusted server's reading may be repeated")
		})
	}
}

func TestPromptsAreListedAndGot(t *testing.T) {
	s := stdioActor(t, "act")
	s.Prompts = true
	h := newHost(t, mcp.Options{}, s)
	assert.Equal(t, "greet | who (required), how | Greets.", call(t, h, "mcp/act/list_prompts", `{}`).Text)
	r := call(t, h, "mcp/act/get_prompt", `{"name":"greet","arguments":{"who":"Ada"}}`)
	assert.Equal(t, "user:\nGreet Ada.\nassistant:\nGladly.", r.Text)
	assert.Equal(t, turn.OutcomeError, call(t, h, "mcp/act/get_prompt", `{"name":"none"}`).Outcome)
}

// TestAServersOwnToolIsNotReplaced checks that a server's own tool takes precedence over one that the host adds for its
// resources.
func TestAServersOwnToolIsNotReplaced(t *testing.T) {
	s := stdioActor(t, "act")
	s.Env["ACT_OWN"], s.Resources = "read_resource", true
	h := newHost(t, mcp.Options{}, s)
	assert.Equal(t, "my own", call(t, h, "mcp/act/read_resource", `{}`).Text)
	assert.Contains(t, call(t, h, "mcp/act/list_resources", `{}`).Text, "note://0")
}
