package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Settings returns a short hash of what a turn takes from the worker that begins it: agent, limits, model, policy,
// approvals and servers. Commands compare it with their own, because a worker keeps what it read when it started. The
// workspace, which only a worker needs, secrets, and how fast the demo answers, do not count.
func (c Config) Settings() string {
	c.Runtime.Workspace, c.Runtime.TrustWorkspace, c.LLM.APIKey, c.LLM.DemoSlow = "", nil, "", false
	model, _ := c.ModelProvider(c.EffectiveLLM().Provider)
	model.APIKey = ""
	parts := []any{c.Runtime, c.LLM, model, c.Policy, c.Approvals, c.MCP}
	b, _ := json.Marshal(parts) // plain values always marshal
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:4])
}
