package client

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows/turn"
)

// The states of a server whose health no running worker reports.
const (
	ServerPublished   turn.ServerState = "published"   // available when a worker last published its tools
	ServerUnavailable turn.ServerState = "unavailable" // not available then
)

// Servers is what is known of MCP servers: the catalogues that workers have published, and the health that running
// workers report. Workers of one task queue may offer different tools, because their configurations or programs differ;
// a turn has the tools of the worker that begins it.
type Servers struct {
	Published []turn.Catalogue // as Journal.Catalogues returns them: the latest of a server first
	Workers   []WorkerReport

	latest map[string]turn.Catalogue // by server
}

// ReadServers reads the published catalogues and the reports of the running workers. j may be nil: then nothing is
// known.
func ReadServers(ctx context.Context, j Journal) (Servers, error) {
	s := Servers{latest: map[string]turn.Catalogue{}}
	if j == nil {
		return s, nil
	}
	var err error
	if s.Published, err = j.Catalogues(ctx); err != nil {
		return s, err
	}
	for _, c := range slices.Backward(s.Published) { // so that the first one wins
		s.latest[c.Server] = c
	}
	s.Workers, err = j.Workers(ctx)
	return s, err
}

// Knows reports whether a worker or the journal knows a server.
func (s Servers) Knows(server string) bool {
	if _, known := s.latest[server]; known {
		return true
	}
	return slices.ContainsFunc(s.Workers, func(w WorkerReport) bool {
		return slices.ContainsFunc(w.Servers, func(h turn.ServerHealth) bool { return h.Server == server })
	})
}

// Quarantined returns the number of tools that turns cannot call until they are approved.
func (s Servers) Quarantined() (n int) {
	for _, c := range s.latest {
		n += len(c.Quarantined)
	}
	return n
}

// Asked adds what a program found that has connected to the servers itself. If instead is true, it replaces what
// workers report.
func (s Servers) Asked(catalogues []turn.Catalogue, health []turn.ServerHealth, instead bool) Servers {
	s.latest = maps.Clone(s.latest)
	for _, c := range catalogues { // only the journal knows the quarantined tools
		c.Quarantined = s.latest[c.Server].Quarantined
		s.latest[c.Server] = c
	}
	own := slices.Clone(health)
	for i := range own {
		own[i].RetryAt = time.Time{} // the program does not try again
	}
	if instead {
		s.Workers = nil
	}
	s.Workers = append(slices.Clone(s.Workers), WorkerReport{Servers: own})
	return s
}

// ServerStatus is the status of one server, from a worker, from the journal or from the caller's own connection.
type ServerStatus struct {
	turn.ServerHealth
	Worker      string `json:"worker,omitempty"` // empty if no worker reported the status
	Required    bool   `json:"required,omitempty"`
	Tools       int    `json:"tools"`
	Quarantined int    `json:"quarantined"`
	Dropped     int    `json:"dropped"`
	// Misnamed are tools that agent.toml names and the server does not offer.
	Misnamed []string `json:"misnamed,omitempty"`
	Problem  string   `json:"problem,omitempty"` // why the server cannot be used now
}

// Unavailable reports whether the server cannot be used now.
func (s ServerStatus) Unavailable() bool { return s.Problem != "" || s.State == turn.ServerFailing }

// Status returns the status of each configured server for each worker that reports on it, with the version of the
// catalogue that the worker offers. A server without such a worker gets one status, from its last catalogue.
func (s Servers) Status(configured []config.MCPServer) []ServerStatus {
	all := []ServerStatus{}
	for _, c := range configured {
		last := s.latest[c.ID]
		reported := false
		for _, w := range s.Workers {
			offered := last
			if i := slices.IndexFunc(s.Published, func(p turn.Catalogue) bool {
				return p.Server == c.ID && p.Version() == w.Offers[c.ID]
			}); i >= 0 {
				offered = s.Published[i]
			}
			for _, h := range w.Servers {
				if h.Server == c.ID {
					row := catalogueStatus(c, offered)
					row.ServerHealth, row.Worker, reported = h, w.Identity, true
					// The problem in the catalogue alone does not count, because it may be older than the report.
					row.Problem = ""
					if h.State == turn.ServerFailing {
						row.Problem = cmp.Or(h.LastError, offered.Problem, "the server fails")
					}
					all = append(all, row)
				}
			}
		}
		if !reported {
			row := catalogueStatus(c, last)
			row.Server, row.State = c.ID, ServerPublished
			if last.Problem != "" {
				row.State = ServerUnavailable
			}
			all = append(all, row)
		}
	}
	return all
}

// catalogueStatus returns the part of a server's status that comes from its catalogue.
func catalogueStatus(s config.MCPServer, c turn.Catalogue) ServerStatus {
	return ServerStatus{Required: s.Required, Tools: len(c.Tools), Quarantined: len(c.Quarantined),
		Dropped: len(c.Dropped), Misnamed: c.Misnamed, Problem: c.Problem}
}

// OfferedCatalogue is a version of a server's catalogue, with the running workers that offer it.
type OfferedCatalogue struct {
	turn.Catalogue
	Workers []string `json:"workers,omitempty"` // their identities
	Others  int      `json:"-"`                 // the number of running workers that offer another version
}

// Offered returns the catalogues own, which the caller has read from the servers, and the other versions of published
// catalogues that workers of the task queue offer, each with its workers, sorted by server. Quarantined tools are in
// Quarantined only; if a server now offers another version of such a tool that is not the approved one, that version is
// quarantined too.
func (s Servers) Offered(own []turn.Catalogue, queue string) (out []OfferedCatalogue) {
	workers := s.onQueue(queue)
	for _, c := range own {
		out = append(out, OfferedCatalogue{Catalogue: withQuarantine(c, s.latest[c.Server].Quarantined)})
	}
	for _, c := range s.Published {
		known := slices.ContainsFunc(out, func(o OfferedCatalogue) bool {
			return o.Server == c.Server && o.Version() == c.Version()
		})
		offers := func(w WorkerReport) bool { return w.Offers[c.Server] == c.Version() }
		if !known && slices.ContainsFunc(workers, offers) {
			out = append(out, OfferedCatalogue{Catalogue: c})
		}
	}
	for i := range out {
		for _, w := range workers {
			switch version, ok := w.Offers[out[i].Server]; {
			case !ok:
			case version == out[i].Version():
				out[i].Workers = append(out[i].Workers, w.Identity)
			default:
				out[i].Others++
			}
		}
	}
	slices.SortStableFunc(out, func(a, b OfferedCatalogue) int { return cmp.Compare(a.Server, b.Server) })
	return out
}

// withQuarantine moves the tools of c that are quarantined from Tools to Quarantined.
func withQuarantine(c turn.Catalogue, quarantined []turn.QuarantinedTool) turn.Catalogue {
	c.Tools = slices.Clone(c.Tools)
	for _, q := range quarantined {
		at := slices.IndexFunc(c.Tools, func(t turn.Descriptor) bool { return t.ID == q.Now.ID })
		if at < 0 || q.Approved != nil && q.Approved.Hash == c.Tools[at].Hash {
			continue // the tool is gone, or is the approved version again
		}
		q.Now = c.Tools[at]
		c.Tools, c.Quarantined = slices.Delete(c.Tools, at, at+1), append(c.Quarantined, q)
	}
	return c
}

// ToolDifference is a tool of which only some workers of a task queue offer a version.
type ToolDifference struct {
	Tool    string   `json:"tool"`
	Workers []string `json:"workers"` // the identities of those that offer the version
}

// Differences returns the tools of which only some workers of the task queue offer a version, by server and tool. A
// worker that does not host the tool's server at all does not count.
func (s Servers) Differences(queue string) (all []ToolDifference) {
	workers := s.onQueue(queue)
	for _, server := range slices.Sorted(maps.Keys(s.latest)) {
		hosts := slices.DeleteFunc(slices.Clone(workers), func(w WorkerReport) bool { return w.Offers[server] == "" })
		offering := map[string][]string{} // the workers that offer a version of a tool, by its ID and hash
		for _, w := range hosts {
			i := slices.IndexFunc(s.Published,
				func(c turn.Catalogue) bool { return c.Server == server && c.Version() == w.Offers[server] })
			if i < 0 { // the journal does not have this version
				continue
			}
			for _, t := range s.Published[i].Tools {
				offering[t.ID+"\n"+t.Hash] = append(offering[t.ID+"\n"+t.Hash], w.Identity)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(offering)) {
			if by := offering[key]; len(by) < len(hosts) {
				id, _, _ := strings.Cut(key, "\n")
				all = append(all, ToolDifference{Tool: id, Workers: by})
			}
		}
	}
	// Workers with the same identity offer two versions of a tool.
	return slices.CompactFunc(all, func(a, b ToolDifference) bool {
		return a.Tool == b.Tool && slices.Equal(a.Workers, b.Workers)
	})
}

// onQueue returns the workers of a task queue.
func (s Servers) onQueue(queue string) []WorkerReport {
	return slices.DeleteFunc(slices.Clone(s.Workers), func(w WorkerReport) bool { return w.TaskQueue != queue })
}
