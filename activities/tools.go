package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/journal/catalogue"
	"github.com/everturn/everturn/workflows/turn"
)

// toolStatus reports the current state of tools, from the catalogues that the workers have published. It explains why a
// call cannot run, and tells whether asking for an approval is pointless. It reads the journal once, on first use.
type toolStatus struct {
	a          *Activities
	ctx        context.Context
	read       bool
	catalogues []turn.Catalogue
}

func (a *Activities) toolStatus(ctx context.Context) *toolStatus { return &toolStatus{a: a, ctx: ctx} }

// now returns the catalogues of the servers that turns of this worker may call; none if the journal cannot be read.
func (s *toolStatus) current() []turn.Catalogue {
	if s.read {
		return s.catalogues
	}
	s.read = true
	all, err := s.a.catalogues(s.ctx)
	if err != nil {
		logFailure(s.ctx, asTurnError(err))
		return nil
	}
	s.catalogues = all
	return s.catalogues
}

// drifted explains why a tool of the turn config would not be called: it has changed since. An empty string means that
// no change is known. A server that is unavailable may come back with the same tools.
func (s *toolStatus) driftReason(d turn.Descriptor) string {
	if slices.ContainsFunc(s.current(), func(c turn.Catalogue) bool { return offers(c, d.Pinned()) }) {
		return "" // of this worker, or of another one that runs
	}
	for _, c := range s.current() {
		if c.Problem != "" || catalogue.ToolName(c.Server, d.ID) == d.ID {
			continue
		}
		isIt := func(t turn.Descriptor) bool { return t.ID == d.ID }
		switch {
		case slices.ContainsFunc(c.Quarantined, func(h turn.QuarantinedTool) bool { return isIt(h.Now) }):
			return "not run: " + d.ID +
				" has changed since this turn began and is quarantined until the operator approves it; go on without it"
		case slices.ContainsFunc(c.Tools, isIt):
			return "not run: " + d.ID + " has changed since this turn began; new turns have the new version"
		}
		return "not run: " + d.ID + " is no longer offered by its server; go on without it"
	}
	return ""
}

// missing explains why the turn has no tool of that name. code tells the operator where to look; it is empty if no such
// tool exists. missing does not reveal tools that policy hides from the model.
func (s *toolStatus) missingReason(name string, policy turn.Policy) (reason string, code turn.Code) {
	named := func(t turn.Descriptor) bool {
		return (t.ID == name || t.Wire == name) && policy.Offered(t.Pinned())
	}
	for _, c := range s.current() {
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

// unavailableServer returns the unavailable server that name belongs to, or an empty string.
func (s *toolStatus) unavailableServer(name string) string {
	of := turn.Catalogue{}
	for _, c := range s.current() {
		mine := strings.HasPrefix(name, "mcp/"+c.Server+"/") || strings.HasPrefix(name, "mcp_"+c.Server+"_")
		if mine && len(c.Server) > len(of.Server) {
			of = c
		}
	}
	if of.Problem == "" {
		return ""
	}
	return of.Server
}
