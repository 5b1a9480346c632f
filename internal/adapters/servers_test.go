package adapters

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
)

type nobody struct{}

func (nobody) Token(context.Context) (string, error) { return "", nil }

func (nobody) Renew(context.Context, *http.Response) error { return nil }

func TestALoginGoesToTheServerThatItIsFor(t *testing.T) {
	logins := map[string]mcp.Login{"b": nobody{}}
	servers, err := withLogins([]mcp.Server{{ID: "a"}, {ID: "b"}}, logins)
	require.NoError(t, err)
	assert.Nil(t, servers[0].Login)
	assert.NotNil(t, servers[1].Login)
	_, err = withLogins([]mcp.Server{{ID: "a"}}, logins)
	assert.ErrorContains(t, err, `MCP server "b", which is not configured`)
}
