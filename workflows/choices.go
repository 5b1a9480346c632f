package workflows

import (
	"path"

	"github.com/everturn/everturn/workflows/turn"
)

// Bounds of Message.Tools.
const (
	maxTools       = 64
	maxToolPattern = 400 // bytes
)

// CheckChoices returns an error if no turn can apply a message's choice of tools, model settings or plan.
func CheckChoices(m Message) error {
	if err := checkChoices(m); err != nil { // a nil *turn.Error must not become a non-nil error
		return err
	}
	return nil
}

// checkChoices rejects a message's choice of tools, model settings or plan that no turn can apply.
func checkChoices(m Message) *turn.Error {
	if len(m.Tools) > maxTools {
		return invalid("the message names %d patterns of tools; the maximum is %d", len(m.Tools), maxTools)
	}
	for _, pattern := range m.Tools {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || len(pattern) > maxToolPattern {
			return invalid("the message's tools: %q is not a pattern of tools; write one such as \"local/*\" or "+
				"\"mcp/files/read\"", turn.Truncate(pattern, 80))
		}
	}
	if err := turn.CheckClientTools(m.ClientTools); err != nil {
		return invalid("the message: %v", err)
	}
	if m.Plan != "" && !m.Plan.Known() {
		return invalid("the message's plan is %q; it must be plan, step, never or todo", turn.Truncate(string(m.Plan), 40))
	}
	if err := m.ModelSettings.Check(); err != nil {
		return invalid("the message's %v", err)
	}
	return nil
}
