package turn

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

func shellTool(rule CommandRule) Tool {
	return Tool{ID: "local/shell", Risk: RiskHigh, Commands: &rule}
}

func line(command string) json.RawMessage {
	b, _ := json.Marshal(map[string]string{"command": command})
	return b
}

func TestCommandsAreDecidedByTheirWords(t *testing.T) {
	p := DefaultPolicy()
	p.Commands = CommandPolicy{Allow: []string{"go test *", "git status"}, Ask: []string{"go build"}, Deny: []string{"git push"}}
	isolated, trusting := CommandRule{Isolated: true}, p
	trusting.IsolatedCommands = Allow
	for _, c := range []struct {
		policy   Policy
		rule     CommandRule
		line     string
		want     Permission
		maxGrant GrantScope
	}{
		{p, CommandRule{}, "go test ./... && git status", Allow, ""},
		{p, isolated, "go test ./... && go vet ./...", Ask, GrantCommand},
		{p, isolated, "echo $(date)", Ask, GrantCall},
		{p, isolated, "python3 x.py", Ask, GrantCall},
		{p, isolated, "go build", Ask, GrantCall},
		{p, isolated, "env git push", Deny, ""},
		{trusting, isolated, "echo $(date); python3 x.py", Allow, ""},
		{trusting, CommandRule{}, "python3 x.py", Ask, GrantCall},
		{trusting, isolated, "go build ./...", Ask, GrantCall},
		{trusting, isolated, "git push", Deny, ""},
		{trusting, isolated, "eval $X", Ask, GrantCall},
		{trusting, CommandRule{Unconfined: true}, "go test ./...", Ask, GrantNever},
		{trusting, CommandRule{Unconfined: true}, "git push", Deny, ""},
		{trusting, CommandRule{Host: true}, "go test ./...", Ask, GrantCall},
	} {
		got := c.policy.Permit(shellTool(c.rule), line(c.line))
		assert.Equal(t, c.want, got.Permission, c.line)
		assert.Equal(t, c.maxGrant, got.MaxGrant, c.line)
	}
	for _, arguments := range []string{`{"command":"go test","Command":"x"}`, `{"command":["go test"]}`, `{"command":"go test","command":"x"}`, `{}`, `x`} {
		assert.Equal(t, Ask, p.Permit(shellTool(isolated), json.RawMessage(arguments)).Permission, arguments)
	}
}

// TestNoOtherRuleOverridesThoseOfCommands checks the lists of tools, rules and risk beside those of commands.
func TestNoOtherRuleOverridesThoseOfCommands(t *testing.T) {
	p := DefaultPolicy()
	p.AskRisk = RiskNever
	p.Commands = CommandPolicy{Allow: []string{"*"}, Deny: []string{"git push"}}
	p.IsolatedCommands = Allow
	p.Rules = []Rule{{Tool: "local/shell", Arguments: map[string]string{"command": "make"}, Permit: Allow}}
	assert.Equal(t, Allow, p.Permit(shellTool(CommandRule{}), line("make")).Permission)
	assert.Equal(t, Deny, p.Permit(shellTool(CommandRule{}), line("git push")).Permission)
	assert.Equal(t, Ask, p.Permit(shellTool(CommandRule{Unconfined: true}), line("make")).Permission, "nothing isolates it")
	p.Rules = []Rule{{Tool: "local/shell", Permit: Allow}}
	assert.Equal(t, Deny, p.Permit(shellTool(CommandRule{}), line("git push")).Permission)
	assert.Equal(t, Ask, p.Permit(shellTool(CommandRule{Unconfined: true}), line("ls")).Permission)
	p.Rules = []Rule{{Tool: "local/shell", Permit: Deny}}
	assert.Equal(t, Deny, p.Permit(shellTool(CommandRule{Isolated: true}), line("ls")).Permission)
	p.Rules, p.Ask = nil, []string{"local/shell"}
	assert.Equal(t, Ask, p.Permit(shellTool(CommandRule{Isolated: true}), line("ls")).Permission)
	p.Deny = []string{"local/*"}
	assert.Equal(t, Deny, p.Permit(shellTool(CommandRule{Isolated: true}), line("ls")).Permission)
}

func TestGrantsOfCommands(t *testing.T) {
	p := DefaultPolicy()
	grants := []Grant{{Tool: "local/shell", ArgumentsHash: CommandGrant("go test")}, {Tool: "local/shell", ArgumentsHash: CommandGrant("git status")}}
	for text, want := range map[string]bool{
		"go test ./...": true, "go test ./... && git status -s": true, "cd sub && go test": true, "go vet": false,
		"go test && go vet": false, "go test -exec x": false, "go test $X": false, "sh -c 'go test'": false, "go test > /etc/x": false,
	} {
		permit := p.Permit(shellTool(CommandRule{}), line(text))
		assert.Equal(t, Ask, permit.Permission, text)
		assert.Equal(t, want, permit.IsGranted("local/shell", grants), text)
		assert.False(t, permit.IsGranted("local/other", grants), text)
	}
	request := func(text string) Request {
		return Request{ID: text, Kind: RequestApproval, Tool: "local/shell", Arguments: string(line(text)), ArgumentsHash: HashText(text), MaxGrant: GrantCommand}
	}
	assert.True(t, request("go test a").Grants(GrantCommand))
	assert.False(t, request("go test a").Grants(GrantTool))
	assert.True(t, request("go test a && go vet").Covers(GrantCommand, request("go vet b")))
	assert.False(t, request("go test a").Covers(GrantCommand, request("go vet b")))
}
