package app

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
)

// CheckAgent returns an error if the configuration has no agent with this name. "" names the default agent.
func (t *TurnClient) CheckAgent(name string) error { return checkAgent(t.Cfg, name) }

// checkAgent is CheckAgent for a configuration.
func checkAgent(cfg config.Config, name string) error {
	if cfg.HasAgent(name) {
		return nil
	}
	return Usage("there is no agent %q: agent.toml has %s", Line(name, 60), strings.Join(AgentNames(cfg), ", "))
}

// AgentNames returns the names of the configured agents, the default first.
func AgentNames(cfg config.Config) []string {
	names := []string{config.DefaultAgent}
	for _, a := range cfg.Agents {
		names = append(names, a.ID)
	}
	return names
}

// AgentFor returns the agent of a session's next turn: the agent named given or, if that is "", the agent of the
// session's last turn if the configuration still has it. A result of "" means the default agent. It returns an error if
// the configuration does not have the agent named given.
func (t *TurnClient) AgentFor(ctx context.Context, session, given string) (string, error) {
	if given != "" || session == "" || len(t.Cfg.Agents) == 0 {
		return given, t.CheckAgent(given)
	}
	rec, err := t.Journal.Session(ctx, session)
	if errors.Is(err, client.ErrNotFound) {
		return "", nil
	}
	last := rec.LastTurn.Agent
	if err != nil || !t.Cfg.HasAgent(last) || last == config.DefaultAgent {
		return "", err
	}
	return last, nil
}

// CompleteAgents offers the names of the configured agents to shell completion.
func (a *App) CompleteAgents(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	loaded, err := a.LoadSilently()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return AgentNames(loaded.Config), cobra.ShellCompDirectiveNoFileComp
}
