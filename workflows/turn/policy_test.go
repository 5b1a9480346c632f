package turn_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

var writeFile = turn.Tool{ID: "mcp/files/write", Risk: turn.RiskLow}

// permitted returns the permission of a policy with these rules, without the reason.
func permitted(rules []turn.Rule, arguments string) turn.Permission {
	p := turn.DefaultPolicy()
	p.Rules = rules
	return p.Permit(writeFile, json.RawMessage(arguments)).Permission
}

// confined allows a tool for some values of its argument "path" and denies all others.
func confined(pattern string) []turn.Rule {
	return []turn.Rule{
		{Tool: "mcp/files/*", Arguments: map[string]string{"path": pattern}, Permit: turn.Allow},
		{Tool: "*", Permit: turn.Deny},
	}
}

// barred denies a tool for some values of its argument "path".
func barred(pattern string) []turn.Rule {
	return []turn.Rule{{Tool: "mcp/files/write", Arguments: map[string]string{"path": pattern}, Permit: turn.Deny}}
}

func path(value string) string {
	raw, _ := json.Marshal(map[string]string{"path": value})
	return string(raw)
}

func TestRulesDecideInTheirOrder(t *testing.T) {
	rules := []turn.Rule{
		{Tool: "mcp/files/write", Arguments: map[string]string{"path": "docs/private/**"}, Permit: turn.Ask,
			Why: "they are private"},
		{Tool: "mcp/files/*", Arguments: map[string]string{"path": "docs/**", "options.mode": "append"}, Permit: turn.Allow},
		{Tool: "mcp/files/write", Arguments: map[string]string{"path": "docs/**"}, Permit: turn.Deny, Why: "append to it"},
		{Tool: "local/*", Permit: turn.Deny},
	}
	p := turn.DefaultPolicy()
	p.Rules, p.Ask, p.AskRisk = rules, []string{"mcp/files/write"}, turn.RiskLow
	for arguments, want := range map[string]string{
		`{"path":"docs/private/a","options":{"mode":"append"}}`: "ask: policy requires approval of mcp/files/write with " +
			"such arguments: they are private",
		`{"path":"docs/a","options":{"mode":"append"}}`: "allow: ",
		`{"path":"docs/a","options":{"mode":"replace"}}`: "deny: policy denies mcp/files/write with such arguments: " +
			"append to it",
		`{"path":"docs/a"}`: "deny: policy denies mcp/files/write with such arguments: append to it",
		`{"path":"src/a"}`:  "ask: policy requires approval of mcp/files/write",
		`{}`:                "ask: policy requires approval of mcp/files/write",
		``:                  "ask: policy requires approval of mcp/files/write",
	} {
		got := p.Permit(writeFile, json.RawMessage(arguments))
		assert.Equal(t, want, fmt.Sprintf("%s: %s", got.Permission, got.Why), arguments)
	}
	got := p.Permit(turn.Tool{ID: "local/read_file"}, json.RawMessage(`{}`))
	assert.Equal(t, turn.Permit{Permission: turn.Deny, Why: "policy denies local/read_file"}, got)
	p.Deny = []string{"mcp/files/*"}
	got = p.Permit(writeFile, json.RawMessage(`{"path":"docs/a","options":{"mode":"append"}}`))
	assert.Equal(t, turn.Deny, got.Permission, "no rule opens what the deny list closes")
}

func TestARuleDeniesWhatItNamesAndAsksAboutOtherSpellings(t *testing.T) {
	for pattern, values := range map[string]struct{ denied, asked, left []string }{
		"secrets/**": {
			[]string{"secrets/a", "secrets", "SECRETS/a", "secrets//a", "secrets/a b", "secrets/a\x00.png"},
			[]string{"secrets/", "./secrets/a", "docs/../secrets/a", `secrets\a`, "/srv/secrets/a", "../project/secrets/a",
				"~/project/secrets/a", "C:/project/secrets/a",
				"secrets%2fa", "sec\nrets/a", " secrets/a ", "docs/a, secrets/b", "", "docs/secrets/a"},
			[]string{"docs/a", "secretsx", "/srv/docs/a"},
		},
		"/etc/**": {[]string{"/etc/passwd", "/etc"},
			[]string{"//etc/passwd", "/srv/../etc/passwd", "../../etc/passwd", "etc/passwd", "/proc/self/root/etc/passwd"},
			[]string{"/srv/a", "x/etc/a", "/srv/etc/a"}},
		"http://evil/**": {[]string{"http://evil/x", "https://evil:8443/x?y=1", "http://evil", "HTTP://EVIL/x",
			"http://evil/a/../x"}, []string{"http://evil./x", "//evil/x"}, []string{"http://good/x"}},
		"*.key": {[]string{"a.key", "A.KEY"}, []string{"./a.key", "/x/y/a.key", "x/a.key"}, []string{"a.keys"}},
		"/srv/app/secrets/**": {[]string{"/srv/app/secrets/a"}, []string{"secrets/a", "app/secrets/a", "srv/app/secrets/a"},
			[]string{"docs/a", "a"}},
		"/etc/passwd": {[]string{"/etc/passwd"}, []string{"passwd", "etc/passwd"},
			[]string{"docs/passwd", "passwd/a"}},
		"[0-9][0-9]*": {nil, []string{"10", "1e4", "0x3e8"}, nil},
		"10.0.0.0/8":  {nil, []string{"10.1.2.3"}, nil},
		"true":        {[]string{"true"}, []string{"1", "yes", "on", "t"}, []string{"false"}},
		"*.evil.com": {[]string{"a.evil.com"}, []string{"a.evil.com/x", "https://a.evil.com"},
			[]string{"evil.org/x"}},
		"docs/*/draft.md": {[]string{"docs/a/draft.md"}, []string{"docs/./a/draft.md"}, []string{"docs/a/b/draft.md"}},
	} {
		for _, value := range values.denied {
			assert.Equal(t, turn.Deny, permitted(barred(pattern), path(value)), "%s of %q", pattern, value)
		}
		for _, value := range values.asked {
			assert.Equal(t, turn.Ask, permitted(barred(pattern), path(value)), "%s of %q", pattern, value)
		}
		for _, value := range values.left {
			assert.Equal(t, turn.Allow, permitted(barred(pattern), path(value)), "%s of %q", pattern, value)
		}
	}
}

// TestOnlyCanonicalValuesAreAllowed covers three evasions: lists behind a wildcard, other spellings of a denied number,
// and other forms of a denied address.
func TestOnlyCanonicalValuesAreAllowed(t *testing.T) {
	allowed := func(pattern string) []turn.Rule {
		return []turn.Rule{{Tool: "*", Arguments: map[string]string{"path": pattern}, Permit: turn.Allow}}
	}
	for pattern, values := range map[string]struct{ allowed, asked []string }{
		"*@corp.com": {[]string{"a@corp.com", "a.b-c_d@corp.com"}, []string{
			"attacker@evil.com, a@corp.com", "attacker@evil.com,a@corp.com", "attacker@evil.com;a@corp.com",
			"attacker@evil.com a@corp.com", "attacker@evil.com\na@corp.com",
			"attacker@evil.com\ta@corp.com", "attacker@evil.com\r\nBcc:a@corp.com", `"attacker@evil.com"@corp.com`,
			"<attacker@evil.com>a@corp.com", "attacker%evil.com@corp.com",
			"attacker@evil.com|a@corp.com", "attacker@evil.com%2ca@corp.com", "attacker@evil.com\u2028a@corp.com",
			"attacker@evil.com，a@corp.com", "attacker@evil.com(a@corp.com",
			"mailto:attacker@evil.com&a@corp.com", "attacker@evil.com\x00a@corp.com", "a@corp.com.", "@corp.com", "a@CORP.com",
			"evil.com!a@corp.com", "-oX@corp.com",
		}},
		"10": {[]string{"10"}, []string{"+10", "010", "0xa", "1e1", "10.0", " 10", "10,0", "１０", "1_0", "10 11",
			"ten"}},
		"*.corp.com": {[]string{"a.corp.com"}, []string{"evil.com,a.corp.com", "evil.com a.corp.com", "evil.com#.corp.com",
			"evil.com:80@a.corp.com", "evil.com%00.corp.com"}},
		"10.0.0.*": {[]string{"10.0.0.1"}, []string{"10.0.0.01", "10.0.0.1,10.1.1.1", "10.0.0.256", "::10.0.0.1"}},
		"refund": {[]string{"refund"}, []string{"refund,wipe", "refund wipe", "refund;wipe", "refund\n",
			"refund\u200b"}},
		"https://a/**": {[]string{"https://a/x"},
			[]string{"https://a/x,https://b/y", "https://a/x https://b/y", "https://a/x\nhttps://b/y", "https://a/%2e%2e/x"}},
	} {
		for _, value := range values.allowed {
			assert.Equal(t, turn.Allow, permitted(confined(pattern), path(value)), "%s of %q", pattern, value)
		}
		for _, value := range values.asked {
			assert.Equal(t, turn.Ask, permitted(allowed(pattern), path(value)), "%s of %q: lists allow the tool", pattern, value)
			assert.Equal(t, turn.Deny, permitted(confined(pattern), path(value)), "%s of %q", pattern, value)
		}
	}
}

func TestADenialAsksAboutWhatIsNotCanonical(t *testing.T) {
	for pattern, values := range map[string]struct{ denied, asked, left []string }{
		"1000": {[]string{"1000"}, []string{"+1000", "01000", "0x3e8", "1e3", "1000.", "1000.0", "1,000", "1_000",
			"１０００", " 1000", "0b1111101000", "1000d"}, []string{"1001", "-1000", "0.5"}},
		"0x3e8": {nil, []string{"1000", "0x3e8 "}, nil}, // not canonical: its author means 1000; nothing is allowed
		"169.254.169.254": {[]string{"169.254.169.254"}, []string{"::169.254.169.254", "[::169.254.169.254]",
			"::ffff:169.254.169.254", "[::ffff:a9fe:a9fe]", "64:ff9b::169.254.169.254", "64:ff9b::a9fe:a9fe",
			"64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::", "2852039166", "0xa9fea9fe", "0xA9.254.169.254", "0251.0376.0251.0376",
			"169.254.43518", "169.254.169.254.", "169.254.169.254:80", "169.254.169.254,8.8.8.8"},
			[]string{"169.254.169.253", "good.com"}},
		"http://169.254.169.254/**": {[]string{"http://169.254.169.254/x", "https://169.254.169.254:8443/x"},
			[]string{"http://[::169.254.169.254]/x", "http://[64:ff9b::169.254.169.254]/x", "http://[::ffff:a9fe:a9fe]:80/x",
				"http://2852039166/x", "http://0xa9fea9fe/x", "http://169.254.169.254./x"},
			[]string{"http://8.8.8.8/x", "http://good.com/x"}},
		"*@evil.com": {[]string{"a@evil.com", "A@EVIL.COM", "b@corp.com, a@evil.com"},
			[]string{"a@evil.com, b@corp.com", "a@evil.com.", "<a@evil.com>", "a%evil.com@corp.com"}, []string{"a@corp.com"}},
	} {
		for _, value := range values.denied {
			assert.Equal(t, turn.Deny, permitted(barred(pattern), path(value)), "%s of %q", pattern, value)
		}
		for _, value := range values.asked {
			assert.Equal(t, turn.Ask, permitted(barred(pattern), path(value)), "%s of %q", pattern, value)
		}
		for _, value := range values.left {
			assert.Equal(t, turn.Allow, permitted(barred(pattern), path(value)), "%s of %q", pattern, value)
		}
	}
}

func TestListsOfValues(t *testing.T) {
	for value, c := range map[string]struct{ confined, withBar turn.Permission }{
		`["docs/a"]`:             {turn.Allow, turn.Deny},
		`["docs/a","docs/b"]`:    {turn.Allow, turn.Deny},
		`["docs/a","src/b"]`:     {turn.Deny, turn.Deny},
		`["docs/a","docs/../b"]`: {turn.Deny, turn.Deny},
		`["src/a","src/b"]`:      {turn.Deny, turn.Allow},
		`["src/a","src/../b"]`:   {turn.Deny, turn.Ask},
		`["docs/a",["docs/b"]]`:  {turn.Deny, turn.Deny},
		`[["docs/a"]]`:           {turn.Deny, turn.Ask},
		`[{"x":"docs/a"}]`:       {turn.Deny, turn.Ask},
		`["docs/a, src/b"]`:      {turn.Deny, turn.Deny},
		`[]`:                     {turn.Deny, turn.Allow},
	} {
		assert.Equal(t, c.confined, permitted(confined("docs/**"), `{"path":`+value+`}`), "%s, allowed", value)
		assert.Equal(t, c.withBar, permitted(barred("docs/**"), `{"path":`+value+`}`), "%s, denied", value)
	}
}

func TestArgumentsThatReadersTakeDifferently(t *testing.T) {
	for name, c := range map[string]struct {
		arguments         string
		confined, withBar turn.Permission // path = docs/** allowed, or denied
	}{
		"plain":                      {`{"path":"docs/a"}`, turn.Allow, turn.Deny},
		"escaped":                    {`{"p\u0061th":"d\u006fcs/a"}`, turn.Allow, turn.Deny},
		"other keys beside it":       {`{"path":"docs/a","text":"/etc"}`, turn.Allow, turn.Deny},
		"the key twice":              {`{"path":"docs/a","path":"src/a"}`, turn.Deny, turn.Ask},
		"the key twice, escaped":     {`{"path":"docs/a","p\u0061th":"src/a"}`, turn.Deny, turn.Ask},
		"another key twice":          {`{"path":"docs/a","o":{"x":1,"x":2}}`, turn.Deny, turn.Ask},
		"in another case":            {`{"Path":"docs/a"}`, turn.Deny, turn.Ask},
		"in two cases":               {`{"path":"docs/a","PATH":"src/a"}`, turn.Deny, turn.Ask},
		"in two cases, folded":       {`{"path":"src/a","PATH":"docs/a"}`, turn.Deny, turn.Ask},
		"a list of it":               {`{"path":["docs/a"]}`, turn.Allow, turn.Deny},
		"a list that begins with it": {`{"path":["docs/a","src/a"]}`, turn.Deny, turn.Deny},
		"deep in an object":          {`{"path":{"x":[{"y":"docs/a"}]}}`, turn.Deny, turn.Ask},
		"elsewhere":                  {`{"file":"docs/a"}`, turn.Deny, turn.Allow},
		"no arguments":               {``, turn.Deny, turn.Allow},
		"null":                       {`null`, turn.Deny, turn.Allow},
		"an empty object":            {`{}`, turn.Deny, turn.Allow},
		"a null value":               {`{"path":null}`, turn.Deny, turn.Allow},
		"cut off":                    {`{"path":"docs/a"`, turn.Deny, turn.Ask},
		"two objects":                {`{"path":"docs/a"}{}`, turn.Deny, turn.Ask},
		"a list":                     {`["docs/a"]`, turn.Deny, turn.Ask},
		"half a character":           {`{"path":"docs/\ud800"}`, turn.Deny, turn.Deny},
		"bytes that are no text":     {"{\"path\":\"docs/\xff\"}", turn.Deny, turn.Deny},
		"very deep": {`{"path":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, turn.Deny,
			turn.Ask},
	} {
		assert.Equal(t, c.confined, permitted(confined("docs/**"), c.arguments), "%s, allowed", name)
		assert.Equal(t, c.withBar, permitted(barred("docs/**"), c.arguments), "%s, denied", name)
	}
}

func TestValuesThatAreNoText(t *testing.T) {
	for pattern, values := range map[string][]string{
		"1000": {`1000`, `"1000"`},
		"-0.5": {`-0.5`, `"-0.5"`},
		"0":    {`0`},
		"true": {`true`, `"true"`},
		"null": {`null`},
		"*":    {`7`, `"x"`},
	} {
		for _, value := range values {
			assert.Equal(t, turn.Allow, permitted(confined(pattern), `{"path":`+value+`}`), "%s of %s", pattern, value)
			assert.Equal(t, turn.Deny, permitted(barred(pattern), `{"path":`+value+`}`), "%s of %s", pattern, value)
		}
	}
	for pattern, values := range map[string][]string{
		"1000":             {`1e3`, `1000.0`, `10.0E+2`, `true`, `{}`},
		"0":                {`-0`, `0.00`, `0e9`},
		"9007199254740992": {`9007199254740993`, `9007199254740992`}, // a float64 cannot distinguish them
		`{"a":1}`:          {`{"a":1}`},
	} {
		for _, value := range values {
			assert.Equal(t, turn.Deny, permitted(confined(pattern), `{"path":`+value+`}`), "%s of %s", pattern, value)
			assert.Equal(t, turn.Ask, permitted(barred(pattern), `{"path":`+value+`}`), "%s of %s", pattern, value)
		}
	}
	for pattern, value := range map[string]string{"1000": `1001`, "true": `1`, "": `null`, "*": `{}`, `{*`: `{"a":1}`} {
		assert.Equal(t, turn.Deny, permitted(confined(pattern), `{"path":`+value+`}`), "%s of %s", pattern, value)
	}
}

func TestDottedKeys(t *testing.T) {
	rules := func(permit, rest turn.Permission) []turn.Rule {
		return []turn.Rule{{Tool: "*", Arguments: map[string]string{"a.b.c": "x"}, Permit: permit}, {Tool: "*", Permit: rest}}
	}
	for arguments, sure := range map[string]bool{
		`{"a":{"b":{"c":"x"}}}`: true, `{"a":{"b":{"c":"x"},"d":1}}`: true, `{"a.b.c":"x"}`: false,
		`{"a":{"b.c":"x"}}`: false, `{"A":{"b":{"c":"x"}}}`: false,
		`{"a":[{"b":{"c":"x"}}]}`: false, `{"a":{"b":{"c":"x"}},"a.b":{"c":"y"}}`: false,
	} {
		allowed, denied := turn.Deny, turn.Ask
		if sure {
			allowed, denied = turn.Allow, turn.Deny
		}
		assert.Equal(t, allowed, permitted(rules(turn.Allow, turn.Deny), arguments), arguments)
		assert.Equal(t, denied, permitted(rules(turn.Deny, turn.Allow), arguments), arguments)
	}
	assert.Equal(t, turn.Allow, permitted(rules(turn.Deny, turn.Allow), `{"a":"x","b":{"c":"x"}}`))
}

func TestADoubtAsksAndIsNotForgotten(t *testing.T) {
	ask := turn.Rule{Tool: "*", Arguments: map[string]string{"path": "prod/**"}, Permit: turn.Ask, Why: "production"}
	allow, deny := turn.Rule{Tool: "*", Permit: turn.Allow}, turn.Rule{Tool: "*", Permit: turn.Deny}
	evasive := path("./prod/a")
	assert.Equal(t, turn.Ask, permitted([]turn.Rule{ask, allow}, evasive))
	assert.Equal(t, turn.Ask, permitted([]turn.Rule{ask}, evasive))
	assert.Equal(t, turn.Deny, permitted([]turn.Rule{ask, deny}, evasive), "nobody is asked about what is denied anyway")
	assert.Equal(t, turn.Ask, permitted([]turn.Rule{ask, deny}, path("prod/a")),
		"the first rule that surely applies decides")
	assert.Equal(t, turn.Allow, permitted([]turn.Rule{ask, allow}, path("test/a")))
}

func TestAToolIsOfferedIfACallOfItMayRun(t *testing.T) {
	argument := map[string]string{"path": "docs/**"}
	for name, c := range map[string]struct {
		rules   []turn.Rule
		allow   []string
		offered bool
	}{
		"no rules":              {nil, []string{"*"}, true},
		"no rules, not allowed": {nil, nil, false},
		"some calls allowed":    {[]turn.Rule{{Tool: "*", Arguments: argument, Permit: turn.Allow}}, nil, true},
		"some calls asked for":  {[]turn.Rule{{Tool: "*", Arguments: argument, Permit: turn.Ask}}, nil, true},
		"some calls denied": {[]turn.Rule{{Tool: "*", Arguments: argument, Permit: turn.Deny}},
			[]string{"*"}, true},
		"some calls denied, the rest as well": {[]turn.Rule{{Tool: "*", Arguments: argument, Permit: turn.Deny}}, nil, false},
		"some allowed, the rest denied": {
			[]turn.Rule{{Tool: "*", Arguments: argument, Permit: turn.Allow}, {Tool: "*", Permit: turn.Deny}}, []string{"*"},
			true},
		"all denied, then some allowed": {[]turn.Rule{{Tool: "*", Permit: turn.Deny},
			{Tool: "*", Arguments: argument, Permit: turn.Allow}}, []string{"*"}, false},
		"all allowed":           {[]turn.Rule{{Tool: "mcp/*", Permit: turn.Allow}}, nil, true},
		"rules of another tool": {[]turn.Rule{{Tool: "local/*", Permit: turn.Allow}}, nil, false},
	} {
		p := turn.Policy{Allow: c.allow, Rules: c.rules}
		assert.Equal(t, c.offered, p.Offered(writeFile), name)
		p.Deny = []string{"*"}
		assert.False(t, p.Offered(writeFile), name)
	}
}

func TestWhatIsAskedForBecauseOfItsArguments(t *testing.T) {
	production := map[string]string{"path": "prod/**"}
	byArguments, byTool := turn.Rule{Tool: "*", Arguments: production, Permit: turn.Ask},
		turn.Rule{Tool: "*", Permit: turn.Ask}
	withRules := func(rules ...turn.Rule) turn.Policy { return turn.Policy{Allow: []string{"*"}, Rules: rules} }
	for name, c := range map[string]struct {
		policy    turn.Policy
		arguments string
		want      turn.Permission
		widest    turn.GrantScope
	}{
		"surely":  {withRules(byArguments), path("prod/a"), turn.Ask, turn.GrantCall},
		"perhaps": {withRules(byArguments), path("./prod/a"), turn.Ask, turn.GrantCall},
		"perhaps, then allowed": {withRules(byArguments, turn.Rule{Tool: "*", Permit: turn.Allow}), path("./prod/a"),
			turn.Ask, turn.GrantCall},
		"perhaps, and the tool anyway": {withRules(byArguments, byTool), path("./prod/a"), turn.Ask, turn.GrantCall},
		"perhaps, and the list anyway": {turn.Policy{Ask: []string{"*"}, Rules: []turn.Rule{byArguments}}, path("./prod/a"),
			turn.Ask, turn.GrantCall},
		"perhaps, then denied": {withRules(byArguments, turn.Rule{Tool: "*", Permit: turn.Deny}), path("./prod/a"),
			turn.Deny, ""},
		"perhaps, and not listed": {turn.Policy{Rules: []turn.Rule{byArguments}}, path("./prod/a"), turn.Deny, ""},
		"perhaps denied": {withRules(turn.Rule{Tool: "*", Arguments: production, Permit: turn.Deny}),
			path("./prod/a"), turn.Ask, turn.GrantCall},
		"perhaps allowed": {withRules(turn.Rule{Tool: "*", Arguments: production, Permit: turn.Allow}),
			path("./prod/a"), turn.Ask, turn.GrantCall},
		"allowed by them": {withRules(turn.Rule{Tool: "*", Arguments: production, Permit: turn.Allow}, byTool),
			path("prod/a"), turn.Allow, ""},
		"not by them":  {withRules(byArguments), path("test/a"), turn.Allow, ""},
		"for the tool": {withRules(byArguments, byTool), path("test/a"), turn.Ask, ""},
		"for the tool, listed": {turn.Policy{Ask: []string{"*"}, Rules: []turn.Rule{byArguments}}, path("test/a"),
			turn.Ask, ""},
		"for the tool's risk": {turn.Policy{Allow: []string{"*"}, AskRisk: turn.RiskLow}, path("prod/a"), turn.Ask,
			""},
		"on the deny list": {turn.Policy{Deny: []string{"*"}, Rules: []turn.Rule{byArguments}}, path("prod/a"),
			turn.Deny, ""},
		"that cannot be read": {withRules(byArguments), `{"path":`, turn.Ask, turn.GrantCall},
	} {
		got := c.policy.Permit(writeFile, json.RawMessage(c.arguments))
		assert.Equal(t, c.want, got.Permission, "%s: %s", name, got.Why)
		assert.Equal(t, c.widest, got.MaxGrant, "%s: %s", name, got.Why)
	}
}

// TestAHostThatIsNotListedIsAskedFor checks which calls of a tool that sends requests need an approval, and whether
// later calls to the same host are spared one.
func TestHostsThatAreListed(t *testing.T) {
	for pattern, c := range map[string]struct{ listed, others []string }{
		"*":              {[]string{"a.b", "10.1.0.7", "::1"}, []string{""}},
		"*.example.org":  {[]string{"a.example.org", "a.b.example.org"}, []string{"example.org", "2606:4700::1111%a.example.org"}},
		"docs.*.example": {[]string{"docs.a.example"}, []string{"docs.attacker.test.example", "docs.example"}},
		"192.168.1.*":    {[]string{"192.168.1.7"}, []string{"192.168.1.evil.test", "192.168.1.evil", "192.168.2.7"}},
		"api.*":          {nil, []string{"api.evil", "api.evil.test"}},
		"10.1.0.7":       {[]string{"10.1.0.7"}, []string{"10.1.0.77"}},
	} {
		rule := &turn.HostRule{Listed: []string{pattern}}
		for _, host := range c.listed {
			assert.True(t, rule.ListsHost(host), "%s %s", pattern, host)
		}
		for _, host := range c.others {
			assert.False(t, rule.ListsHost(host), "%s %s", pattern, host)
		}
	}
}

func TestAHostThatIsNotListedIsAskedFor(t *testing.T) {
	fetch := turn.Tool{ID: "local/fetch_url", Risk: turn.RiskMedium,
		Hosts: &turn.HostRule{Listed: []string{"docs.python.org", "*.example.org"}}}
	allowed := turn.Policy{Allow: []string{"*"}, AskRisk: turn.RiskHigh}
	for address, c := range map[string]struct {
		want   turn.Permission
		widest turn.GrantScope
	}{
		"https://docs.python.org/3/?q=a%20b#c": {turn.Allow, ""},
		"https://DOCS.python.org:443/":         {turn.Allow, ""},
		"https://a.example.org/":               {turn.Allow, ""},
		"https://example.org/":                 {turn.Ask, turn.GrantHost},
		"https://evil.com/?docs.python.org":    {turn.Ask, turn.GrantHost},
		"https://docs.python.org.evil.com/":    {turn.Ask, turn.GrantHost},
		"https://docs.python.org@evil.com/":    {turn.Ask, turn.GrantCall},
		"https://evil.com\\.example.org/":      {turn.Ask, turn.GrantCall},
		"https://\u0435vil.example.org/":       {turn.Ask, turn.GrantCall},
		"":                                     {turn.Ask, turn.GrantCall},
	} {
		arguments, err := json.Marshal(map[string]string{"url": address})
		require.NoError(t, err)
		got := allowed.Permit(fetch, arguments)
		assert.Equal(t, c.want, got.Permission, address)
		assert.Equal(t, c.widest, got.MaxGrant, address)
		assert.Equal(t, c.want == turn.Ask, got.Why != "", address)
	}
	unlisted := json.RawMessage(`{"url":"https://evil.com/x"}`)
	for name, c := range map[string]struct {
		policy turn.Policy
		want   turn.Permission
		widest turn.GrantScope
	}{
		"not allowed": {turn.Policy{}, turn.Deny, ""},
		"asked for":   {turn.Policy{Ask: []string{"*"}}, turn.Ask, turn.GrantHost},
		"allowed by a rule": {turn.Policy{Rules: []turn.Rule{{Tool: "*", Permit: turn.Allow,
			Arguments: map[string]string{"url": "https://evil.com/**"}}}}, turn.Allow, ""},
		"of any risk": {turn.Policy{Allow: []string{"*"}}, turn.Ask, turn.GrantHost},
	} {
		got := c.policy.Permit(fetch, unlisted)
		assert.Equal(t, c.want, got.Permission, name)
		assert.Equal(t, c.widest, got.MaxGrant, name)
	}
	for _, twice := range []string{`{"url":"https://docs.python.org/","url":"https://evil.com/"}`,
		`{"URL":"https://evil.com/"}`} {
		assert.Equal(t, turn.Ask, allowed.Permit(fetch, json.RawMessage(twice)).Permission, twice)
	}
}

// TestAsksTellsWhichToolsNeedApprovals asks about a tool that rules, lists, its risk or its hosts decide about.
func TestAsksTellsWhichToolsNeedApprovals(t *testing.T) {
	const tool = "local/x"
	allow, ask, docs := []string{"*"}, []string{"local/*"}, map[string]string{"path": "docs/**"}
	for name, c := range map[string]struct {
		policy    turn.Policy
		hosts     []string
		all, some bool
	}{
		"allowed":              {policy: turn.Policy{Allow: allow}},
		"risk":                 {policy: turn.Policy{Allow: allow, AskRisk: turn.RiskMedium}, all: true, some: true},
		"list":                 {policy: turn.Policy{Ask: ask}, all: true, some: true},
		"rule":                 {policy: turn.Policy{Rules: []turn.Rule{{Tool: tool, Permit: turn.Ask}}}, all: true, some: true},
		"rule before the list": {policy: turn.Policy{Ask: ask, Rules: []turn.Rule{{Tool: tool, Permit: turn.Allow}}}},
		"rule for some": {policy: turn.Policy{Allow: allow, Rules: []turn.Rule{{Tool: tool, Permit: turn.Ask, Arguments: docs}}},
			some: true},
		"all but some": {policy: turn.Policy{Ask: ask, Rules: []turn.Rule{{Tool: tool, Permit: turn.Allow, Arguments: docs}}},
			some: true},
		"rule of another tool": {policy: turn.Policy{Allow: allow, Rules: []turn.Rule{{Tool: "mcp/*", Permit: turn.Ask}}}},
		"hosts":                {policy: turn.Policy{Allow: allow}, hosts: []string{"a.org"}, some: true},
		"every host":           {policy: turn.Policy{Allow: allow}, hosts: []string{"*"}},
	} {
		x := turn.Tool{ID: tool, Risk: turn.RiskMedium}
		if c.hosts != nil {
			x.Hosts = &turn.HostRule{Listed: c.hosts}
		}
		all, some := c.policy.Asks(x)
		assert.Equal(t, []bool{c.all, c.some}, []bool{all, some}, name)
	}
}
