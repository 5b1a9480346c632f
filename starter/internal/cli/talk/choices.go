package talk

import (
	"github.com/spf13/cobra"

	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// choices are the flags that choose the tools and the temperature of the turn that begins with a message.
type choices struct {
	tools       []string
	temperature float64
}

func (c *choices) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&c.tools, "tools", nil, "offer only the tools that match these `patterns`, such as local/* or "+
		"mcp/files/read, of those that the policy allows; none offers no tools")
	flags.Float64Var(&c.temperature, "temperature", 0, "the sampling temperature of the turn, from 0 to 2")
}

// apply sets the choices of a message.
func (c choices) apply(cmd *cobra.Command, m *turn.UserMessage) error {
	if m.Tools = c.tools; cmd.Flags().Changed("tools") && len(c.tools) == 0 {
		return app.Usage("--tools is empty: name the tools to offer, or none")
	}
	if cmd.Flags().Changed("temperature") {
		m.Temperature = &c.temperature
	}
	if err := workflows.CheckChoices(*m); err != nil {
		return app.Usage("--tools, --temperature: %w", err)
	}
	return nil
}

// noteMerged says that a message which was merged into a running turn does not change it.
func noteMerged(t *app.TurnClient, s app.Started, m turn.UserMessage, agent string) {
	if s.Merged && (m.Model != "" || len(m.Tools) > 0 || m.Temperature != nil || agent != "") {
		t.App.Note("the message was merged into the running turn, which keeps its agent, model, tools and temperature")
	}
}
