package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/turn"
)

type usageInput struct {
	By    client.UsageBy `query:"by" json:"-" jsonschema:"model, session, day or tenant; model if it is not set"`
	Since string         `query:"since" json:"-" jsonschema:"only what was used since this time, as 2026-01-02T15:04:05Z"`
}

type usageRows struct {
	Usage []client.UsageRow `json:"usage"`
}

func (c *call) usage(ctx context.Context, in usageInput) (out usageRows, err error) {
	if in.By == "" {
		in.By = client.UsageByModel
	}
	var since time.Time
	if in.Since != "" {
		if since, err = time.Parse(time.RFC3339, in.Since); err != nil {
			return out, invalid("since", "since is %.60q; write a time as 2026-01-02T15:04:05Z", in.Since)
		}
	}
	rows, err := c.Journal().Usage(ctx, in.By, since)
	return usageRows{listed(rows)}, err
}

type agentList struct {
	Agents []agent `json:"agents"`
}

// agent is what a caller may know of a configured agent.
type agent struct {
	ID          string   `json:"id"`
	Description string   `json:"description,omitempty"`
	Model       string   `json:"model,omitempty" jsonschema:"the worker's if it is not set"`
	Tools       []string `json:"tools,omitempty"`
}

func (c *call) listAgents(context.Context, none) (out agentList, err error) {
	for _, a := range c.server.Config.AllAgents() {
		out.Agents = append(out.Agents, agent{a.ID, a.Description, a.Model, a.Tools})
	}
	return out, nil
}

type catalogueList struct {
	Servers []turn.Catalogue `json:"servers" jsonschema:"what workers have published of each server, and of the local tools"`
}

func (c *call) listTools(ctx context.Context, _ none) (catalogueList, error) {
	servers, err := client.ReadServers(ctx, c.Journal())
	return catalogueList{listed(servers.Published)}, err
}

type workerList struct {
	Workers []client.WorkerReport `json:"workers"`
}

func (c *call) listWorkers(ctx context.Context, _ none) (workerList, error) {
	list, err := c.Journal().Workers(ctx)
	return workerList{listed(list)}, err
}

type limitList struct {
	Limits []client.LimitsOfScope `json:"limits"`
}

func (c *call) listLimits(ctx context.Context, _ none) (limitList, error) {
	cfg := c.server.Config
	cfg.Tenant = c.token.Tenant
	list, err := client.ReadLimits(ctx, c.Journal(), cfg)
	return limitList{listed(list)}, err
}

type scopeInput struct {
	Scope string `path:"scope" json:"-" jsonschema:"a provider, PROVIDER/MODEL, or tenant:NAME"`
}

type limitsInput struct {
	scopeInput
	Limits client.Limits `json:"limits" jsonschema:"numbers by the limit's name: 0 is no limit, -1 the default of agent.toml"`
}

type scopeState struct {
	Scope string `json:"scope"`
}

func (c *call) setLimits(ctx context.Context, in limitsInput) (scopeState, error) {
	if len(in.Limits) == 0 {
		return scopeState{}, invalid("limits", "there is no limit to set")
	}
	return scopeState{in.Scope}, c.Journal().SetFleetLimits(ctx, in.Scope, in.Limits)
}

type pauseInput struct {
	scopeInput
	Seconds int    `json:"seconds" jsonschema:"how long, from 1 to 2592000"`
	Reason  string `json:"reason,omitempty" jsonschema:"the reason, which waiting turns show"`
}

// maxPause bounds a pause, so that a forgotten one does not stop turns forever.
const maxPause = 30 * 24 * 60 * 60

func (c *call) pause(ctx context.Context, in pauseInput) (client.Pause, error) {
	if in.Seconds < 1 || in.Seconds > maxPause {
		return client.Pause{}, invalid("seconds", "seconds is %d; it must be from 1 to %d", in.Seconds, maxPause)
	}
	return c.Journal().PauseScope(ctx, in.Scope, c.token.Principal, turn.Truncate(in.Reason, 200),
		time.Duration(in.Seconds)*time.Second)
}

func (c *call) resume(ctx context.Context, in scopeInput) (scopeState, error) {
	_, err := c.Journal().ResumeScope(ctx, in.Scope)
	return scopeState(in), err
}

// health is what the server says of itself.
type health struct {
	Status   string   `json:"status"`
	Problems []string `json:"problems,omitempty"`
}

func (c *call) healthz(context.Context, none) (health, error) { return health{Status: "ok"}, nil }

func (c *call) readyz(ctx context.Context, _ none) (health, error) {
	h := c.Health(ctx)
	if h.Temporal != "" && h.Journal {
		return health{Status: "ok"}, nil // messages are accepted without a worker, too
	}
	c.server.Log.Warn("not ready", "problems", h.Problems)
	return health{}, errors.Join(client.ErrUnavailable, errors.New("Temporal or the journal does not answer"))
}
