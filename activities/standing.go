package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// standing tells how tools stand now, by what the workers have published: it is asked where a call is not to go on, or a
// person is to be asked for it in vain. The journal is read once, and only where somebody asks.
type standing struct {
	a          *Activities
	ctx        context.Context
	read       bool
	catalogues []turn.Catalogue
}

func (a *Activities) standing(ctx context.Context) *standing { return &standing{a: a, ctx: ctx} }

// now are the catalogues of the servers that turns of this worker may call; none where the journal does not tell.
func (s *standing) now() []turn.Catalogue {
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

// drifted says why a tool that the turn has pinned would not be called: it is not what it was. Empty means that nothing is
// known against it. A server that is away may come back with the same tools.
func (s *standing) drifted(d turn.Descriptor) string {
	for _, c := range s.now() {
		if c.Problem != "" || journal.ToolName(c.Server, d.ID) == d.ID {
			continue
		}
		isIt := func(t turn.Descriptor) bool { return t.ID == d.ID }
		switch {
		case slices.ContainsFunc(c.Tools, func(t turn.Descriptor) bool { return isIt(t) && t.Hash == d.Hash }):
			return ""
		case slices.ContainsFunc(c.Quarantined, func(h turn.QuarantinedTool) bool { return isIt(h.Now) }):
			return "not run: " + d.ID + " is not what this turn was given, and is held back until the operator accepts it as it is now; go on without it"
		case slices.ContainsFunc(c.Tools, isIt):
			return "not run: " + d.ID + " is not what this turn was given; a turn that begins from now on has it as it is now"
		}
		return "not run: " + d.ID + " is no longer offered by its server; go on without it"
	}
	return ""
}

// missing says why a name is none of the turn's tools. code tells people where to look; it is empty where there is no tool
// of that name. Of tools that policy keeps from the model nothing is said.
func (s *standing) missing(name string, policy turn.Policy) (reason string, code turn.Code) {
	named := func(t turn.Descriptor) bool {
		return (t.ID == name || t.Wire == name) && policy.Offered(t.Pinned())
	}
	for _, c := range s.now() {
		switch {
		case slices.ContainsFunc(c.Quarantined, func(h turn.QuarantinedTool) bool { return named(h.Now) }):
			return "the tool is held back until the operator accepts it as it is now; go on without it", turn.CodeToolDrift
		case c.Problem == "" && slices.ContainsFunc(c.Tools, named):
			return "the tool is none of this turn's; a turn that begins from now on has it", turn.CodeToolDrift
		}
	}
	if server := s.away(name); server != "" {
		return fmt.Sprintf("its server %q is not available; go on without it", server), turn.CodeToolNotSent
	}
	return "there is no such tool", ""
}

// away is the server that a name is of, where that is away.
func (s *standing) away(name string) string {
	of := turn.Catalogue{}
	for _, c := range s.now() {
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
