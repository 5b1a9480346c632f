package activities

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// RefreshTools checks whether servers that were unavailable to a turn are back, and adds their tools to the turn config
// as Begin would. The turn's other tools stay as they are. If nothing else has changed, the new prompt config equals
// that of a turn that begins now, so that providers can cache their common prefix.
func (a *Activities) RefreshTools(ctx context.Context, in workflows.RefreshInput) (workflows.RefreshResult, error) {
	ctx = attempt.WithWork(ctx, in.Turn, 0, "")
	res, err := a.refreshTools(ctx, in)
	return res, a.attempts.Failure(ctx, err)
}

// refreshTools stores a new prompt config with the tools of those servers in in.Unavailable that are available again,
// and returns its hash, the tools, and the servers that are still unavailable. If no server is back, the result is
// empty.
func (a *Activities) refreshTools(ctx context.Context, in workflows.RefreshInput) (workflows.RefreshResult, error) {
	res := workflows.RefreshResult{}
	catalogues, err := a.offered(ctx)
	if err != nil {
		return res, err
	}
	back := slices.DeleteFunc(catalogues, func(c turn.Catalogue) bool {
		return !slices.Contains(in.Unavailable, c.Server) || !c.Usable(time.Now())
	})
	if len(back) == 0 {
		return res, nil
	}
	promptConfig, err := a.frozen.PromptConfig(ctx, in.PromptConfig)
	if err != nil {
		return res, err
	}
	promptConfig.Descriptors = slices.Clone(promptConfig.Descriptors)
	for _, c := range back {
		offered := c.Offered(promptConfig.Policy)
		promptConfig.Descriptors = append(promptConfig.Descriptors, offered...)
		promptConfig.System = strings.Replace(promptConfig.System, unavailableNote(c.Server), "", 1)
		res.Tools = append(res.Tools, a.toolsOf(offered)...)
		res.Recovered = append(res.Recovered, c.Server)
	}
	// In the order of a new turn, so that the prompt configs can be equal.
	slices.SortStableFunc(promptConfig.Descriptors,
		func(a, b turn.Descriptor) int { return cmp.Compare(catalogueOf(a), catalogueOf(b)) })
	res.Unavailable = slices.DeleteFunc(slices.Clone(in.Unavailable),
		func(s string) bool { return slices.Contains(res.Recovered, s) })
	res.PromptConfig, err = a.frozen.StorePromptConfig(ctx, promptConfig)
	return res, err
}

// catalogueOf returns the server in a tool's ID, such as git for mcp/git/push, or local. Begin orders tools by it.
func catalogueOf(d turn.Descriptor) string {
	server, _, _ := strings.Cut(strings.TrimPrefix(d.ID, "mcp/"), "/")
	return server
}
