package mcp

import (
	"encoding/json"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/workflows/turn"
)

func TestRiskByTheWordsOfATool(t *testing.T) {
	no, yes := false, true
	for _, c := range []struct {
		name, argument string
		trust          bool
		hints          *sdk.ToolAnnotations
		want           turn.Risk
	}{
		{name: "read_note", want: turn.RiskMedium},
		{name: "write_file", argument: "path", want: turn.RiskMedium},
		{name: "exec", want: turn.RiskHigh},
		{name: "run_command", want: turn.RiskHigh},
		{name: "run-command", want: turn.RiskHigh},
		{name: "runCommand", want: turn.RiskHigh},
		{name: "run", argument: "cmd", want: turn.RiskHigh},
		{name: "do", argument: "shellScript", want: turn.RiskHigh},
		{name: "BashTool", want: turn.RiskHigh},
		{name: "delete_branch", want: turn.RiskHigh},
		{name: "removeUser", want: turn.RiskHigh},
		{name: "list_deleted_files", want: turn.RiskMedium},
		{name: "recommend", argument: "commander", want: turn.RiskMedium},
		{name: "HTTPPost", want: turn.RiskHigh},
		{name: "send_email", want: turn.RiskHigh},
		{name: "get_post", argument: "post_id", want: turn.RiskMedium},
		{name: "get_shell", want: turn.RiskHigh},
		{name: "delete_file", hints: &sdk.ToolAnnotations{ReadOnlyHint: true}, want: turn.RiskHigh},
		{name: "delete_file", hints: &sdk.ToolAnnotations{DestructiveHint: &no}, want: turn.RiskHigh},
		{name: "delete_file", trust: true, want: turn.RiskHigh},
		{name: "delete_file", trust: true, hints: &sdk.ToolAnnotations{DestructiveHint: &no}, want: turn.RiskMedium},
		{name: "command_help", trust: true, hints: &sdk.ToolAnnotations{ReadOnlyHint: true}, want: turn.RiskLow},
		{name: "read_note", hints: &sdk.ToolAnnotations{DestructiveHint: &yes}, want: turn.RiskHigh},
	} {
		schema := json.RawMessage(`{"type":"object","properties":{"` + c.argument + `":{"type":"string"}}}`)
		d := describer{server: Server{Trust: c.trust}}
		assert.Equal(t, c.want, d.risk(&sdk.Tool{Name: c.name, Annotations: c.hints}, schema), "%s(%s)", c.name, c.argument)
	}
}
