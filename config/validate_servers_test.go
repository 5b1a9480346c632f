package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestServersAsTheyAreMeant(t *testing.T) {
	const remote = "[[mcp.servers]]\nid = \"a\"\nurl = \"https://mcp.example\"\n"
	const server = "[[mcp.servers]]\nid = \"a\"\ncommand = \"x\"\n"
	for name, text := range map[string]string{
		"on this machine": "[[mcp.servers]]\nid = \"a\"\nurl = \"http://localhost:9000/sse\"\n",
		"in the cluster": "[[mcp.servers]]\nid = \"a\"\nurl = \"http://mcp.internal\"\nnetworks = " +
			"[\"10.0.0.0/8\", \"fd00::/8\"]\n",
		"with a client": remote + "[mcp.servers.oauth]\nclient_id = \"me\"\nclient_secret = \"hush\"\n" +
			"token_url = \"https://idp.example\"\nscopes = [\"read\"]\n",
		"that remembers and reports": server +
			"session_affinity = \"turn\"\ntimeouts.call = \"10s\"\ntimeouts.elicitation = \"10m\"\n" +
			"tools.t = { timeout = \"1m\", background_timeout = \"1h\", read_only = true }\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(LoadOptions{Path: write(t, text)})
			assert.NoError(t, err)
		})
	}
}
