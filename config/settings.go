package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Settings returns a short hash of the settings that turns get from the worker that begins them: agent, limits, model,
// policy, approvals and servers. A command compares a worker's hash with its own, because agent.toml may have changed
// since the worker started. The hash leaves out the workspace and API keys, which commands may lack, and llm.demo_slow.
func (c Config) Settings() string {
	c.Runtime.Workspace, c.Runtime.TrustWorkspace, c.LLM.APIKey, c.LLM.DemoSlow = "", nil, "", false
	model, _ := c.ModelProvider(c.EffectiveLLM().Provider)
	model.APIKey = ""
	parts := []any{c.Runtime, c.LLM, model, c.Policy, c.Approvals, c.MCP}
	b, _ := json.Marshal(parts) // plain values always marshal
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:4])
}
