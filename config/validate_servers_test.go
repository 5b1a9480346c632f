package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

const remote = "[[mcp.servers]]\nid = \"a\"\ntransport = \"http\"\nurl = \"https://mcp.example\"\n"

// TestServersThatContradictThemselves covers server configurations with exactly one error each.
func TestServersThatContradictThemselves(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"sse without an address": {
			"[[mcp.servers]]\nid = \"a\"\ntransport = \"sse\"\n",
			`mcp.servers[0].url is missing; transport = "sse" needs it`,
		},
		"a fragment": {
			"[[mcp.servers]]\nid = \"a\"\ntransport = \"sse\"\nurl = \"https://mcp.example/#key\"\n",
			`agent.toml:4:7: mcp.servers[0].url has a fragment, which is never sent; remove it from # on`,
		},
		"plain text to a stranger": {
			"[[mcp.servers]]\nid = \"a\"\ntransport = \"sse\"\nurl = \"http://mcp.example\"\n",
			`agent.toml:4:7: mcp.servers[0].url is unencrypted http to another machine; use https, or list its private network: networks = ["10.0.0.0/8"]`,
		},
		"a host for a network": {
			remote + "networks = [\"10.0.0.1\"]\n",
			`agent.toml:5:13: mcp.servers[0].networks[0] is "10.0.0.1"; it must be a network such as "10.0.0.0/8" or "fd00::/8"`,
		},
		"a host in a network": {
			remote + "networks = [\"10.0.0.0/8\", \"192.168.1.7/24\"]\n",
			`agent.toml:5:27: mcp.servers[0].networks[1] is "192.168.1.7/24", whose address is longer than its prefix; write "192.168.1.0/24"`,
		},
		"every network": {
			remote + "networks = [\"0.0.0.0/0\"]\n",
			`agent.toml:5:13: mcp.servers[0].networks[0] is "0.0.0.0/0", which includes every address; list the private network only`,
		},
		"loopback by the back door": {
			remote + "networks = [\"127.0.0.0/8\"]\n",
			`agent.toml:5:13: mcp.servers[0].networks[0] is "127.0.0.0/8", which includes this machine; for a server on it, write localhost in url`,
		},
		"a network for a program": {
			server + "networks = [\"10.0.0.0/8\"]\n",
			`mcp.servers[0].networks is for transport = "http"; restrict the network of a stdio server in the operating system`,
		},
		"a token for a program": {
			server + "[mcp.servers.oauth]\ntoken_url = \"https://idp.example\"\n",
			`mcp.servers[0].oauth is for transport = "http" or "sse"; pass secrets to a stdio server in env`,
		},
		"half a client": {
			remote + "[mcp.servers.oauth]\nclient_secret = \"hush\"\n",
			"mcp.servers[0].oauth.token_url is missing; set the endpoint that issues the token\n" +
				"agent.toml:5:14: mcp.servers[0].oauth.client_id is missing; set the ID of the OAuth client",
		},
		"a secret in plain text": {
			remote + "[mcp.servers.oauth]\nclient_id = \"me\"\ntoken_url = \"http://idp.example/token\"\n",
			`agent.toml:7:13: mcp.servers[0].oauth.token_url is unencrypted http to another machine; use https, or list its private network: networks = ["10.0.0.0/8"]`,
		},
		"two who ask": {
			remote + "headers = { authorization = \"Bearer x\" }\n[mcp.servers.oauth]\nclient_id = \"me\"\ntoken_url = " +
				"\"https://idp.example\"\n",
			`mcp.servers[0].oauth conflicts with headers.authorization, which authenticates too; remove one of them`,
		},
		"a switch for a choice": {
			server + "session_affinity = true\n",
			`agent.toml:4:20: mcp.servers[0].session_affinity is true or false; it must be a string, "turn", or left out`,
		},
		"a question for ever": {
			server + "timeouts.elicitation = \"9999h\"\n",
			`agent.toml:4:24: mcp.servers[0].timeouts.elicitation is 9999h0m0s; it must be at most 24h`,
		},
		"a total that is less": {
			server + "timeouts.call = \"2m\"\ntimeouts.total = \"1m\"\n",
			`agent.toml:5:18: mcp.servers[0].timeouts.total is 1m0s, shorter than timeouts.call, which is 2m0s; raise it, or leave it out`,
		},
		"a tool's total that is less": {
			server + "timeouts.call = \"2m\"\ntools.t = { total_timeout = \"1m\" }\n",
			`mcp.servers[0].tools.t.total_timeout is 1m0s, shorter than the server's timeouts.call, which is 2m0s; raise it, or leave it out`,
		},
		"a tool that takes longer than all may": {
			server + "timeouts.total = \"1m\"\ntools.t = { timeout = \"2m\" }\n",
			`mcp.servers[0].tools.t.timeout is 2m0s, longer than the server's timeouts.total, which is 1m0s; set a total_timeout for the tool`,
		},
		"a moment to go on": {
			server + "tools.t = { background_timeout = \"5ms\" }\n",
			`mcp.servers[0].tools.t.background_timeout is 5ms; it must be at least 1s, or 0s to end calls at their timeout`,
		},
		"days to go on": {
			server + "tools.t = { background_timeout = \"48h\" }\n",
			`mcp.servers[0].tools.t.background_timeout is 48h0m0s; it must be at most 24h`,
		},
		"quick, and going on": {
			server + "on_all_workers = true\ntools.t = { local_activity = true, repeatable = true, background_timeout = " +
				"\"1m\" }\n",
			`mcp.servers[0].tools.t.background_timeout conflicts with local_activity = true: a local activity ends within a second; remove one of them`,
		},
		"a moment to answer": {
			server + "timeouts.elicitation = \"1ms\"\n",
			`agent.toml:4:24: mcp.servers[0].timeouts.elicitation is 1ms; it must be at least 1s, or 0s to allow no elicitation`,
		},
		"idle at once": {
			server + "timeouts.idle = \"1ms\"\n",
			`agent.toml:4:17: mcp.servers[0].timeouts.idle is 1ms; it must be at least 1s, or 0s to keep connections open`,
		},
		"remembering everywhere": {
			server + "session_affinity = \"turn\"\non_all_workers = true\n",
			`agent.toml:5:18: mcp.servers[0].on_all_workers lets any worker take a call, but session_affinity = "turn" sends all calls of a turn to one worker; remove one of them`,
		},
		"remembering quickly": {
			server + "session_affinity = \"turn\"\ntools.t = { local_activity = true, repeatable = true }\n",
			`mcp.servers[0].tools.t.local_activity conflicts with session_affinity = "turn": a local activity runs on whichever worker runs the turn; remove one of them`,
		},
		"remembering for ever": {
			server + "session_affinity = \"session\"\n",
			`agent.toml:4:20: mcp.servers[0].session_affinity is "session"; it must be "turn", or left out`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			said := refused(t, LoadOptions{}, c.text)
			assert.Contains(t, telling(said), telling(c.want))
			assert.NotContains(t, said, "hush")
		})
	}
}

func TestServersAsTheyAreMeant(t *testing.T) {
	for name, text := range map[string]string{
		"on this machine": "[[mcp.servers]]\nid = \"a\"\ntransport = \"sse\"\nurl = \"http://localhost:9000/sse\"\n",
		"in the cluster": "[[mcp.servers]]\nid = \"a\"\ntransport = \"http\"\nurl = \"http://mcp.internal\"\nnetworks = " +
			"[\"10.0.0.0/8\", \"fd00::/8\"]\n",
		"with a client": remote + "[mcp.servers.oauth]\nclient_id = \"me\"\nclient_secret = \"hush\"\n" +
			"token_url = \"https://idp.example\"\nscopes = [\"read\"]\n",
		"that remembers and reports": server +
			"session_affinity = \"turn\"\ntimeouts.call = \"10s\"\ntimeouts.total = \"5m\"\ntimeouts.elicitation = \"10m\"\n" +
			"tools.t = { timeout = \"1m\", background_timeout = \"1h\", read_only = true }\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(LoadOptions{Path: write(t, text)})
			assert.NoError(t, err)
		})
	}
}
