package main

import (
	"context"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// addTenants adds a tool that tells for which tenant it was called, in both ways in which a server learns that, and its
// process ID.
func (p *program) addTenants() {
	mcp.AddTool(p.server, &mcp.Tool{Name: "whose", Description: "Answer for which tenant this is."},
		func(_ context.Context, req *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
			env, set := os.LookupEnv("EVERTURN_TENANT")
			text := fmt.Sprintf("process %d, variable %q (%t), metadata %v", os.Getpid(), env, set,
				req.Params.Meta["everturn.dev/tenant"])
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
		})
}
