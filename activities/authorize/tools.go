package authorize

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// toolStatus explains why calls cannot run, from the catalogues of the servers that turns of this worker may call. It
// has none if the journal cannot be read.
type toolStatus struct{ catalogues []turn.Catalogue }

// driftReason returns why a call of a tool of the turn config would not run: no running worker offers the tool in the
// turn's version any more. It returns "" if a worker does, or if the tool's server is unavailable, because that may
// return with the same tools. It also returns "" for a tool of no server, and if the journal cannot be read.
func (s toolStatus) driftReason(d turn.Descriptor) string {
	if slices.ContainsFunc(s.catalogues, func(c turn.Catalogue) bool { return c.Offers(d.Pinned()) }) {
		return "" // this worker or another running one offers it
	}
	for _, c := range s.catalogues {
		if c.Problem != "" || journal.ToolName(c.Server, d.ID) == d.ID { // unavailable, or not the tool's server
			continue
		}
		sameID := func(t turn.Descriptor) bool { return t.ID == d.ID }
		switch {
		case slices.ContainsFunc(c.Quarantined, func(h turn.QuarantinedTool) bool { return sameID(h.Now) }):
			return "not run: " + d.ID +
				" has changed since this turn began and is quarantined until the operator approves it; go on without it"
		case slices.ContainsFunc(c.Tools, sameID):
			return "not run: " + d.ID + " has changed since this turn began; new turns have the new version"
		}
		return "not run: " + d.ID + " is no longer offered by its server; go on without it"
	}
	return ""
}

// MissingReason returns why a turn has no tool of that name: see toolStatus.missingReason.
func (a *Authorizer) MissingReason(ctx context.Context, name string, policy turn.Policy) (string, turn.Code) {
	all, err := a.Catalogues(ctx)
	if err != nil {
		attempt.LogFailure(ctx, attempt.AsTurnError(err))
		all = nil
	}
	return toolStatus{all}.missingReason(name, policy)
}

// missingReason returns why the turn has no tool of that name, for the model. code classifies the reason for the
// operator; it is empty if no such tool exists. Tools that policy denies count as nonexistent, so that the model does
// not learn of them.
func (s toolStatus) missingReason(name string, policy turn.Policy) (reason string, code turn.Code) {
	named := func(t turn.Descriptor) bool {
		return (t.ID == name || t.Wire == name) && policy.Offered(t.Pinned())
	}
	for _, c := range s.catalogues {
		switch {
		case slices.ContainsFunc(c.Quarantined, func(h turn.QuarantinedTool) bool { return named(h.Now) }):
			return "the tool is quarantined until the operator approves it; go on without it", turn.CodeToolDrift
		case c.Problem == "" && slices.ContainsFunc(c.Tools, named):
			return "the tool was not available when this turn began; new turns have it", turn.CodeToolDrift
		}
	}
	if server := s.unavailableServer(name); server != "" {
		return fmt.Sprintf("its server %q is not available; go on without it", server), turn.CodeToolNotSent
	}
	return "there is no such tool", ""
}

// unavailableServer returns the server to which the tool name belongs, by its catalogue ID or the name sent to
// providers, or "" if no server fits or the server is available. If the names of several servers fit, the longest
// counts.
func (s toolStatus) unavailableServer(name string) string {
	longest := turn.Catalogue{}
	for _, c := range s.catalogues {
		fits := strings.HasPrefix(name, "mcp/"+c.Server+"/") || strings.HasPrefix(name, "mcp_"+c.Server+"_")
		if fits && len(c.Server) > len(longest.Server) {
			longest = c
		}
	}
	if longest.Problem == "" {
		return ""
	}
	return longest.Server
}

// Catalogues returns the catalogues of the servers that turns of this worker may call: of each server the version that
// this worker offers, if it offers one, and then those that other running workers offer.
func (a *Authorizer) Catalogues(ctx context.Context) ([]turn.Catalogue, error) {
	all, err := a.journal.OfferedBy(ctx, a.offers())
	return a.usable(all), err
}

// usable returns the catalogues of the servers that turns of this worker may call.
func (a *Authorizer) usable(all []turn.Catalogue) []turn.Catalogue {
	return slices.DeleteFunc(all, func(c turn.Catalogue) bool { return !slices.Contains(a.servers, c.Server) })
}
