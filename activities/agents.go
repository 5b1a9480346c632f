package activities

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/internal/skills"
	"github.com/everturn/everturn/workflows/turn"
)

// Settings are what the config of every turn is made from when the turn begins, whatever its agent.
type Settings struct {
	// Project returns the project's instructions, which follow the agent's system prompt in turns that begin now. Nil
	// means that there are none.
	Project func() string
	// Workspace is the folder in which the file tools and the shell work, for the model.
	Workspace string
	// MaxDepth is the maximum number of agents above a subagent: with 1, only the agent of a user's turn may call others.
	MaxDepth int
	// Models returns the models of a turn that begins now: the requested one or, if that is "", the agent's own, and its
	// fallbacks in order. The error is for the user.
	Models func(requested, own string) ([]turn.Model, error)
	// Limits and Policy are narrowed by the agent.
	Limits turn.Limits
	Policy turn.Policy
	// Compaction is how prompts are compacted; nil means that they are not. If its ContextTokens is 0, the context
	// window of the turn's model counts; if its Model has no name, the turn's model writes the summaries.
	Compaction *turn.CompactionSettings
	// MaxArgumentBytes bounds the arguments of one call; 0 leaves the bound to the model's adapter.
	MaxArgumentBytes int
	Approvals        turn.Approvals
	// RetryMax and FallbackAfter are copied to the turn.Config.
	RetryMax      *int
	FallbackAfter time.Duration
	MaxTokens     int // of one completion; 0 leaves it to the provider
	// Skills returns the skills from which a turn that begins now selects. Nil means that there are none.
	Skills func() skills.Set
	// ClientTools are those of every turn whose policy allows them.
	ClientTools []turn.ClientTool
	// Servers are the names of the catalogues that a turn may use: "local" and the configured MCP servers.
	Servers []string
	// Required are the Servers that must be available for a turn to begin.
	Required []string
}

// agentOf returns the agent with this name, or the default agent if name is "".
func (a *Activities) agentOf(name string) (turn.Agent, error) {
	if name == "" {
		return a.agents[0], nil
	}
	names := make([]string, len(a.agents))
	for i, agent := range a.agents {
		if agent.ID == name {
			return agent, nil
		}
		names[i] = agent.ID
	}
	return turn.Agent{}, turn.NewError(turn.CodeConfigInvalid, nil,
		fmt.Sprintf("there is no agent %q here; this worker runs %s",
			turn.Truncate(name, 60), strings.Join(names, ", ")))
}

// keepToolsOf removes the turn's tools that the agent may not call. Tools of kind ActivityAgent stay, because
// Agent.Agents lists them, unless Tools names agents, too.
func keepToolsOf(agent turn.Agent, cfg *turn.Config) {
	if len(agent.Tools) == 0 {
		return
	}
	callable, anyAgent := turn.Policy{Allow: agent.Tools}, !namesAgents(agent.Tools)
	keepTools(cfg, func(t turn.Tool) bool {
		return t.Activity == turn.ActivityAgent && anyAgent || callable.Offered(t)
	})
}

// namesAgents reports whether one of the patterns is only for the tools of agents.
func namesAgents(patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return strings.HasPrefix(p, turn.AgentTools) })
}

// compactionSettings returns how the turn's prompts are compacted, or nil if they are not. The context window is that
// of the turn's first model, 0 if it is unknown. A model of summaries that s leaves open is the turn's first
// model. It returns an error if s names a model of summaries that is not configured.
func (s Settings) compactionSettings(cfg turn.Config) (*turn.CompactionSettings, error) {
	if s.Compaction == nil {
		return nil, nil
	}
	c := *s.Compaction
	model := turn.Model{Provider: cfg.Provider, Name: cfg.Model}
	if len(cfg.Models) > 0 {
		model = cfg.Models[0]
	}
	c.ContextTokens = model.ContextTokens
	if c.Model.Name == "" || c.Model.Name == model.Name {
		c.Model = model
	} else {
		chain, err := s.Models(c.Model.Name, "")
		if err != nil {
			return nil, turn.NewError(turn.CodeConfigInvalid, nil, "prompt.summary_model: "+err.Error())
		}
		c.Model = chain[0]
	}
	c.ReserveTokens = int64(cfg.MaxTokens) // for the completion
	if c.ReserveTokens == 0 {
		c.ReserveTokens = min(reservedOutput, c.ContextTokens/reservedPart)
	}
	return &c, nil
}

// workspaceTools are tools of which every turn that works in Settings.Workspace has one.
var workspaceTools = []string{"local/list_files", "local/read_file", "local/write_file", "local/shell"}

// environment returns the end of the system prompt: the date and, if the turn has one of workspaceTools, the working
// directory and the operating system.
func (s Settings) environment(at time.Time, tools []turn.Tool) string {
	text := "Today's date: " + at.Format("Monday, 2 January 2006")
	inWorkspace := func(t turn.Tool) bool { return slices.Contains(workspaceTools, t.ID) }
	if s.Workspace != "" && slices.ContainsFunc(tools, inWorkspace) {
		text += fmt.Sprintf("\nWorking directory: %s\nOperating system: %s/%s", s.Workspace, runtime.GOOS, runtime.GOARCH)
	}
	return text
}

// system returns the agent's system prompt, with the project's instructions and a note for each unavailable server.
func (s Settings) system(agent turn.Agent, unavailable []string) string {
	text := agent.SystemPrompt
	if s.Project != nil {
		text += s.Project()
	}
	for _, server := range unavailable {
		text += unavailableNote(server)
	}
	return text
}

// unavailableNote returns what the system prompt says about an unavailable server. When the server is back,
// RefreshTools finds the note by its exact text and removes it.
func unavailableNote(server string) string {
	return fmt.Sprintf("\n\nThe tool server %q is unavailable. Say so if the request needs it.", server)
}
