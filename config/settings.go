package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Settings returns a short hash of settings that turns get from the worker that begins them: [runtime], [llm] and its
// provider, [policy], [approvals] and [mcp], but not [[agents]] and [prompt]. A command compares a worker's hash with
// its own, because agent.toml may have changed since the worker started. The hash leaves out the workspace and API
// keys, which commands may lack. Of other secrets it only has whether they are set.
func (c Config) Settings() string {
	c.Runtime.Workspace, c.Runtime.TrustWorkspace, c.LLM.APIKey = "", nil, ""
	model, _ := c.ModelProvider(c.EffectiveLLM().Provider)
	model.APIKey = ""
	parts := []any{c.Runtime, c.LLM, model, c.Policy, c.Approvals, c.MCP}
	b, _ := json.Marshal(parts) // plain values always marshal
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:4])
}
