package activities

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/activities/tools/schema"
	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// noArguments is the schema of a client tool without one.
const noArguments = `{"type":"object","properties":{}}`

// clientTools returns the descriptors of client tools. Their results taint like those of an untrusted server. Their risk
// is low, because the client decides what a call does; an operator who wants approvals names them in policy.ask.
func clientTools(tools []turn.ClientTool) ([]turn.Descriptor, error) {
	if err := turn.CheckClientTools(tools); err != nil {
		return nil, err
	}
	var all []turn.Descriptor
	for _, t := range tools {
		canonical, _, err := schema.Compile(json.RawMessage(cmp.Or(string(t.Schema), noArguments)))
		if err != nil {
			return nil, fmt.Errorf("the client tool %q: %w", t.Name, err)
		}
		id, description := turn.ClientTools+t.Name, strings.TrimSpace(printable.Sanitize(t.Description))
		all = append(all, turn.Descriptor{
			ID: id, Wire: turn.WireName(id), Description: description, Schema: canonical, Activity: turn.ActivityClient,
			Risk: turn.RiskLow, Effects: turn.Effects{Taints: true},
			Hash: journal.HashOf([]byte(id + "\n" + description + "\n" + string(canonical))),
		})
	}
	return all, nil
}

// addClientTools adds to cfg the client tools of the configuration and of the turn's message, and returns the
// descriptors with theirs. It leaves out the configured ones that policy denies.
func (a *Activities) addClientTools(cfg *turn.Config, descriptors []turn.Descriptor,
	own []turn.ClientTool) ([]turn.Descriptor, error) {
	added, err := clientTools(own)
	if err != nil {
		return nil, turn.NewError(turn.CodeInputInvalid, err, "the message: "+err.Error())
	}
	for _, d := range a.clientTools {
		replaced := slices.ContainsFunc(added, func(o turn.Descriptor) bool { return o.ID == d.ID })
		if !replaced && cfg.Policy.Offered(d.Pinned()) {
			added = append(added, d)
		}
	}
	cfg.Tools = append(cfg.Tools, turn.PromptConfig{Descriptors: added}.Tools()...)
	return append(descriptors, added...), nil
}

// checkClientTools returns an error if the turn lacks a client tool of its message, because the policy or the agent
// excludes it: the client relies on it.
func checkClientTools(cfg turn.Config, own []turn.ClientTool) error {
	for _, t := range own {
		tool, ok := cfg.Find(turn.ClientTools + t.Name)
		if !ok || !cfg.Policy.Offered(tool) {
			return turn.NewError(turn.CodeInputInvalid, nil, fmt.Sprintf("the message's client tool %q is not permitted here: "+
				"policy.allow, and tools of the agent if it is set, must match client/%s. Nothing was done", t.Name, t.Name))
		}
	}
	return nil
}
