package mcp_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/activities/mcp"
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

// TestAServersOwnToolIsNotReplaced checks that a server's own tool takes precedence over one that the host adds for its
// resources.
func TestAServersOwnToolIsNotReplaced(t *testing.T) {
	s := stdioActor(t, "act")
	s.Env["ACT_OWN"], s.Resources = "read_resource", true
	h := newHost(t, mcp.Options{}, s)
	assert.Equal(t, "my own", call(t, h, "mcp/act/read_resource", `{}`).Text)
	assert.Contains(t, call(t, h, "mcp/act/list_resources", `{}`).Text, "note://0")
}

// TestCallsDoNotShareAList makes calls at the same time to a server that declares its lists cacheable. With the race
// detector it checks that no call empties a list that another one reads.
func TestCallsDoNotShareAList(t *testing.T) {
	s := httpActor(t, "act")
	s.Resources, s.Prompts = true, true
	h := newHTTPHost(t, mcp.Options{}, s)
	for id, want := range map[string]string{"list_resources": "note://0", "list_prompts": "greet"} {
		req := request(t, h, "mcp/act/"+id, `{}`)
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for range 20 {
					r, err := h.Call(t.Context(), req)
					assert.NoError(t, err)
					assert.Contains(t, r.Text, want)
				}
			})
		}
		callers.Wait()
	}
}
