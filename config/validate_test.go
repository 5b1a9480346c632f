package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

const rule = "[[policy.rules]]\ntool = \"mcp/files/write\"\npermit = \"allow\"\n"

const server = "[[mcp.servers]]\nid = \"a\"\ncommand = \"x\"\n"

func TestContradictionsAndBadValues(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"denied and allowed": {
			"[policy]\nallow = [\"local/*\"]\ndeny = [\"mcp/x/*\", \"local/*\"]\n",
			`agent.toml:3:20: policy.deny[1] denies "local/*", which policy also allows or asks for; remove one`,
		},
		"pattern of no tool": {
			"[policy]\nallow = [\"read_file\"]\n",
			`agent.toml:2:10: policy.allow[0] is "read_file"; it must be local/<tool>, mcp/<server>/<tool>, a pattern of those, or * for all`,
		},
		"broken pattern": {
			"[policy]\nask = [\"local/[a\"]\n",
			`agent.toml:2:8: policy.ask[0] is "local/[a"; it must be local/<tool>, mcp/<server>/<tool>, a pattern of those, or * for all`,
		},
		"reprompt without reprompts": {
			"[runtime]\nmax_reprompts = 0\n[policy]\non_model_error = \"reprompt\"\n",
			`agent.toml:4:18: policy.on_model_error is "reprompt", but runtime.max_reprompts is 0; raise it, or choose "fail" or "interrupt"` + "\n" +
				`policy.on_invalid_action is "reprompt", but runtime.max_reprompts is 0; raise it, or choose "fail" or "interrupt"`,
		},
		"asking the same again": {
			"[policy]\non_invalid_action = \"retry\"\n",
			`agent.toml:2:21: policy.on_invalid_action is "retry"; it must be one of fail, reprompt, interrupt`,
		},
		"history that cannot be cut": {
			"[runtime]\nmax_history_messages = 30\n",
			`runtime.keep_history_messages is 30; it must be below max_history_messages, which is 30`,
		},
		"bad expression": {
			"[runtime]\nredact = ['ok', '(']\n",
			"agent.toml:2:17: runtime.redact[1] is not a valid regular expression: missing closing ): `(`",
		},
		"expression of nothing": {
			"[runtime]\nredact = ['a*']\n",
			`agent.toml:2:11: runtime.redact[0] matches the empty string, and so everything; require at least one character`,
		},
		"deadline within a shorter one": {
			"[llm]\ntotal_timeout = \"20s\"\nidle_timeout = \"20s\"\n",
			`llm.first_token_timeout is 1m0s, longer than total_timeout, which is 20s; shorten it or raise total_timeout`,
		},
		"password in an address": {
			"[llm]\nbase_url = \"http://me:hunter2@host/v1\"\n",
			`agent.toml:2:12: llm.base_url holds a user name or password; use api_key or headers for those`,
		},
		"address of another machine": {
			"[temporal]\naddress = \"temporal.example:7233\"\n",
			`agent.toml:2:11: temporal.address is "temporal.example:7233", which is another machine, and the connection is not encrypted; ` +
				`set tls = true, an api_key or a profile, or permit it with allow_plaintext = true`,
		},
		"address without a port": {
			"[temporal]\naddress = \"localhost\"\n",
			`agent.toml:2:11: temporal.address is "localhost"; it must be host:port, for instance 127.0.0.1:7233`,
		},
		"journal in memory": {
			"[journal]\npath = \":memory:\"\n",
			`agent.toml:2:8: journal.path is ":memory:"; it must be the path of a file`,
		},
		"the same server twice": {
			server + server,
			`agent.toml:5:6: mcp.servers[1].id is "a", like that of mcp.servers[0]; give every server its own ID`,
		},
		"server called local": {
			"[[mcp.servers]]\nid = \"local\"\ncommand = \"x\"\n",
			`agent.toml:2:6: mcp.servers[0].id is "local", which names the built-in tools; choose another ID`,
		},
		"server with an odd ID": {
			"[[mcp.servers]]\nid = \"My Files\"\ncommand = \"x\"\n",
			`agent.toml:2:6: mcp.servers[0].id is "My Files"; it must be 1 to 32 of a-z, 0-9, _ and -, beginning with a letter or digit`,
		},
		"server without anything": {
			"[[mcp.servers]]\n",
			"agent.toml:1:7: mcp.servers[0].id is missing; name the server, for instance id = \"files\"\n" +
				`agent.toml:1:7: mcp.servers[0].command is missing; name the server's program, or set transport = "http" and url`,
		},
		"address for a program": {
			server + "url = \"http://x\"\n",
			`agent.toml:4:7: mcp.servers[0].url is for transport = "http", but the transport is "stdio"; change transport, or remove url`,
		},
		"program for an address": {
			server + "transport = \"http\"\nurl = \"https://x\"\n",
			`agent.toml:1:7: mcp.servers[0] has transport = "http"; remove command, args, env, env_allow, dir and user, which are for "stdio"`,
		},
		"quick but not repeatable": {
			server + "on_all_workers = true\n[mcp.servers.tools.t]\nlocal_activity = true\n",
			`agent.toml:6:18: mcp.servers[0].tools.t.local_activity needs repeatable = true: a local activity may run twice after a crash; set both, or neither`,
		},
		"quick but not everywhere": {
			server + "tools.\"a.b\" = { local_activity = true, repeatable = true }\n",
			`agent.toml:4:34: mcp.servers[0].tools."a.b".local_activity needs on_all_workers = true on the server: a local activity runs on whichever worker runs the turn`,
		},
		"variable by pattern": {
			server + "env_allow = [\"AWS_*\"]\n",
			`agent.toml:4:14: mcp.servers[0].env_allow[0] is "AWS_*"; it must be the name of a variable`,
		},
		"rule without anything": {
			"[[policy.rules]]\n",
			`agent.toml:1:10: policy.rules[0].permit is ""; it must be one of allow, ask, deny` + "\n" +
				`agent.toml:1:10: policy.rules[0].tool is ""; it must be local/<tool>, mcp/<server>/<tool>, a pattern of those, or * for all`,
		},
		"rule with a wrong key": {
			rule + "argument = { path = \"a\" }\n",
			`agent.toml:4:1: unknown key policy.rules[0].argument; did you mean policy.rules[0].arguments?`,
		},
		"rule that permits maybe": {
			"[[policy.rules]]\ntool = \"local/*\"\npermit = \"alow\"\n",
			`agent.toml:3:10: policy.rules[0].permit is "alow"; it must be one of allow, ask, deny; did you mean allow?`,
		},
		"rule of no tool": {
			"[[policy.rules]]\npermit = \"deny\"\ntool = \"write_file\"\n",
			`agent.toml:3:8: policy.rules[0].tool is "write_file"; it must be local/<tool>, mcp/<server>/<tool>, a pattern of those, or * for all`,
		},
		"rule with a number": {
			rule + "arguments = { amount = 5 }\n",
			`agent.toml:4:24: policy.rules[0].arguments.amount is an integer; it must be a string`,
		},
		"rule with a broken pattern": {
			rule + "arguments = { \"a.b\" = \"docs/[a\" }\n",
			`agent.toml:4:23: policy.rules[0].arguments."a.b" is "docs/[a"; it must be a pattern of *, ? and /**: write a rule for each alternative instead of [ ] or \`,
		},
		"rule about the home folder": {
			rule + "arguments = { path = \"~/.ssh/**\" }\n",
			`agent.toml:4:22: policy.rules[0].arguments.path is "~/.ssh/**"; it must be a path of ASCII letters, digits, ., _ and - between single slashes, without ., .. and ~, such as docs/** or /srv/*.txt`,
		},
		"rule of half a key": {
			rule + "arguments = { \"a..b\" = \"x\" }\n",
			`agent.toml:4:24: policy.rules[0].arguments."a..b" is not a dotted key: a name is missing before, after or between its dots`,
		},
		"rule of what is denied": {
			"[policy]\nallow = []\ndeny = [\"mcp/*\"]\n" + rule,
			`agent.toml:4:10: policy.rules[0] can never decide: policy.deny[0] denies all of its tools; remove one of them`,
		},
		"rule behind one that takes all": {
			"[[policy.rules]]\ntool = \"mcp/*\"\npermit = \"deny\"\n" + rule + "arguments = { path = \"docs/**\" }\n",
			`agent.toml:4:10: policy.rules[1] can never decide: policy.rules[0] matches all of its calls first; move it up, or remove one of them`,
		},
		"the same rule twice": {
			rule + "arguments = { path = \"docs/**\" }\n" + strings.Replace(rule, "allow", "deny", 1) +
				"arguments = { path = \"docs/**\" }\n",
			`agent.toml:5:10: policy.rules[1] can never decide: policy.rules[0] matches all of its calls first; move it up, or remove one of them`,
		},
		"rule that moves a terminal": {
			rule + "why = \"\\u001b]0;x\"\n",
			`agent.toml:4:7: policy.rules[0].why contains a control character; remove it`,
		},
		"too many rules": {
			strings.Repeat(rule, 65),
			`agent.toml:193:10: policy.rules has 65 rules; the maximum is 64, because every turn carries them`,
		},
		"approvals that expire never, with an outcome": {
			"[approvals]\non_expiry = \"allow\"\napproval_expiry = \"0s\"\n",
			`agent.toml:2:13: approvals.on_expiry is "allow", but approval_expiry is 0s, so approvals never expire; set an approval_expiry, or leave on_expiry out`,
		},
		"approvals that expire at once": {
			"[approvals]\napproval_expiry = \"7ms\"\nquestion_expiry = \"-1s\"\n",
			`agent.toml:2:19: approvals.approval_expiry is 7ms; it must be at least 1s, or 0s to wait without limit` + "\n" +
				`agent.toml:3:19: approvals.question_expiry is -1s; it must be at least 1s, or 0s to wait without limit`,
		},
		"numbers that overflow": {
			"[approvals]\napproval_expiry = \"2562047h47m16.854775807s\"\n[runtime]\nturn_timeout = \"87601h\"\nmax_steps = " +
				"9223372036854775807\nmax_cost_usd = 1e308\n",
			`agent.toml:5:13: runtime.max_steps is 9223372036854775807; it must be at most 1000000000` + "\n" +
				`agent.toml:4:16: runtime.turn_timeout is 87601h0m0s; it must be at most 87600h` + "\n" +
				`agent.toml:6:16: runtime.max_cost_usd is 1e+308; it must be at most 1000000000` + "\n" +
				`agent.toml:2:19: approvals.approval_expiry is 2562047h47m16.854775807s; it must be at most 87600h` + "\n" +
				`agent.toml:6:16: runtime.max_cost_usd is 1e+308, but no model's price is known, so cost is not counted; use max_tokens`,
		},
		"a cost that is not counted": {
			"[runtime]\nmax_cost_usd = 0.5\n",
			`agent.toml:2:16: runtime.max_cost_usd is 0.5, but no model's price is known, so cost is not counted; use max_tokens`,
		},
		"names that Temporal cannot index": {
			"[llm]\nmodel = \"" + strings.Repeat("m", 201) + "\"\n",
			`agent.toml:2:9: llm.model is 201 bytes; it must be at most 200`,
		},
		"expiry that asks": {
			"[approvals]\non_expiry = \"ask\"\n",
			`agent.toml:2:13: approvals.on_expiry is "ask"; it must be one of deny, allow`,
		},
		"expiry of days": {
			"[approvals]\napproval_expiry = \"7d\"\n",
			`agent.toml:2:19: approvals.approval_expiry is "7d"; it must be a duration such as "15s" or "2m30s"`,
		},
		"streams that nobody can follow": {
			"[journal]\nchunk_retention = \"1s\"\n",
			`agent.toml:2:19: journal.chunk_retention is 1s; it must be at least 1m, or 0s to keep all chunks`,
		},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, telling(c.want), telling(refused(t, LoadOptions{}, c.text))) })
	}
}

func TestRulesThatAreTaken(t *testing.T) {
	loaded, err := Load(LoadOptions{
		Path: write(t, `
[[policy.rules]]
tool = "mcp/files/write"
arguments = { path = "${FOLDER}/**", "options.to" = "*@corp.com", n = "7" }
permit = "allow"
[[policy.rules]]
tool = "mcp/files/*"
arguments.path = "/**"
permit = "ask"
why = "that is outside"
[[policy.rules]]
tool = "*"
permit = "deny"
`),
		Environ: []string{"FOLDER=docs"},
	})
	require.NoError(t, err)
	assert.Equal(t, []PolicyRule{
		{Tool: "mcp/files/write", Arguments: map[string]string{"path": "docs/**", "options.to": "*@corp.com", "n": "7"},
			Permit: turn.Allow},
		{Tool: "mcp/files/*", Arguments: map[string]string{"path": "/**"}, Permit: turn.Ask, Why: "that is outside"},
		{Tool: "*", Permit: turn.Deny},
	}, loaded.Config.Policy.Rules)
	shown := shown(t, loaded, true)
	assert.Contains(t, shown, "[policy.rules.arguments]\nn = '7'  # from agent.toml:4\n\"options.to\" = '*@corp.com'  # "+
		"from agent.toml:4\npath = '${FOLDER}/**'  # from agent.toml:4\n")
	again := load(t, strings.ReplaceAll(shown, "${FOLDER}", "docs"))
	assert.Equal(t, loaded.Config.Policy, again.Config.Policy)
}

func TestRemoteTemporalIsTakenWithTLSOrByPermission(t *testing.T) {
	for _, how := range []string{"tls = true", `api_key = "k"`, `profile = "cloud"`, "allow_plaintext = true"} {
		_, err := Load(LoadOptions{Path: write(t, "[temporal]\naddress = \"temporal.example:7233\"\n"+how+"\n")})
		assert.NoError(t, err, how)
	}
	for _, address := range []string{"127.0.0.1:7233", "localhost:7233", "[::1]:7233"} {
		_, err := Load(LoadOptions{Path: write(t, "[temporal]\naddress = \""+address+"\"\n")})
		assert.NoError(t, err, address)
	}
}

func TestEffectiveModel(t *testing.T) {
	for name, c := range map[string]struct {
		in       LLM
		provider Provider
		model    string
	}{
		"nothing":         {LLM{Provider: ProviderAuto}, ProviderDemo, DemoModel},
		"a key":           {LLM{Provider: ProviderAuto, APIKey: "k"}, ProviderOpenAI, DefaultModel},
		"an endpoint":     {LLM{Provider: ProviderAuto, BaseURL: "http://x", Model: "m"}, ProviderOpenAI, "m"},
		"demo with a key": {LLM{Provider: ProviderDemo, APIKey: "k", Model: "m"}, ProviderDemo, DemoModel},
	} {
		got := c.in.Effective()
		assert.Equal(t, c.provider, got.Provider, name)
		assert.Equal(t, c.model, got.Model, name)
	}
}

func TestTheTenantIsOnesOwnToName(t *testing.T) {
	path := write(t, "tenant = \"acme\"\n[runtime]\nagent = \"a\"\n")
	for name, c := range map[string]struct {
		environ []string
		flags   map[string]string
		want    string
	}{
		"the file":             {nil, nil, "acme"},
		"the environment":      {[]string{"EVERTURN_TENANT=beta"}, nil, "beta"},
		"the command line":     {[]string{"EVERTURN_TENANT=beta"}, map[string]string{"tenant": "c"}, "c"},
		"the default, by name": {[]string{"EVERTURN_TENANT=beta"}, map[string]string{"tenant": ""}, ""},
	} {
		loaded, err := Load(LoadOptions{Path: path, Environ: c.environ, Overrides: c.flags})
		require.NoError(t, err, name)
		assert.Equal(t, c.want, loaded.Config.Tenant, name)
	}
	for text, want := range map[string]string{
		"\ntenant = \"a b\"\n":   `agent.toml:2:10: tenant is "a b"; it must be at most 64 letters`,
		"tenant = \"Default\"\n": `agent.toml:1:10: tenant is "Default", which is reserved`,
		"[policy]\ntaint = true\n": "agent.toml:2:9: policy.taint is true or false; it must be a string, one of on, off, " +
			"strict",
	} {
		_, err := Load(LoadOptions{Path: write(t, text)})
		assert.ErrorContains(t, err, want)
	}
	for _, bad := range []string{"a/b", " a", "-a", "a b", "é", strings.Repeat("a", 65), "tenant:x", "a\x00"} {
		_, err := Load(LoadOptions{Path: path, Overrides: map[string]string{"tenant": bad}})
		assert.ErrorContains(t, err, "tenant is", "%q", bad)
		assert.ErrorContains(t, err, "letters, digits", "%q", bad)
	}
}

func TestTheTenantIsShownWithItsOrigin(t *testing.T) {
	loaded, err := Load(LoadOptions{Path: write(t, ""), Environ: []string{"EVERTURN_TENANT=acme"}})
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, loaded.Show(&out, true))
	assert.Regexp(t, `^tenant = 'acme' +# from environment EVERTURN_TENANT\n`, out.String())
	shown, err := Load(LoadOptions{Path: write(t, out.String())})
	require.NoError(t, err)
	assert.Equal(t, "acme", shown.Config.Tenant, "what is shown can be read")
}
