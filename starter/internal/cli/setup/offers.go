package setup

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// Workers of one task queue may offer different tools, because their configurations or programs differ. A turn has the
// tools of the worker that begins it.

// offeredCatalogue is a version of a server's catalogue, with the running workers that offer it.
type offeredCatalogue struct {
	turn.Catalogue
	Workers []string `json:"workers,omitempty"` // their identities
	others  int      // the number of running workers that offer another version of the catalogue
}

// state returns the state of the catalogue's tools in a table: how many workers offer them, if other workers offer
// another version.
func (c offeredCatalogue) state() string {
	switch n := len(c.Workers); {
	case c.others == 0: // also if no worker offers the server
		return "offered"
	case n == 0:
		return "no worker"
	default:
		return fmt.Sprintf("%d of %d workers", n, n+c.others)
	}
}

// withWorkers returns the catalogues of this configuration and the other versions of published catalogues that running
// workers offer, each with its workers, sorted by server.
func withWorkers(own, published []turn.Catalogue, workers []engine.WorkerHealth) (out []offeredCatalogue) {
	for _, c := range own {
		out = append(out, offeredCatalogue{Catalogue: c})
	}
	for _, c := range published {
		known := slices.ContainsFunc(out, func(o offeredCatalogue) bool {
			return o.Server == c.Server && o.Version() == c.Version()
		})
		offers := func(w engine.WorkerHealth) bool { return w.Offers[c.Server] == c.Version() }
		if !known && slices.ContainsFunc(workers, offers) {
			out = append(out, offeredCatalogue{Catalogue: c})
		}
	}
	for i := range out {
		for _, w := range workers {
			switch version, ok := w.Offers[out[i].Server]; {
			case !ok:
			case version == out[i].Version():
				out[i].Workers = append(out[i].Workers, w.Worker)
			default:
				out[i].others++
			}
		}
	}
	slices.SortStableFunc(out, func(a, b offeredCatalogue) int { return cmp.Compare(a.Server, b.Server) })
	return out
}

// onQueue returns the workers of a task queue.
func onQueue(workers []engine.WorkerHealth, queue string) []engine.WorkerHealth {
	return slices.DeleteFunc(slices.Clone(workers), func(w engine.WorkerHealth) bool { return w.TaskQueue != queue })
}

// differences returns a text that names the tools which only some of the workers offer, and the workers that do. It
// returns "" if there are none. A worker that does not host the tool's server at all does not count.
func differences(published []turn.Catalogue, workers []engine.WorkerHealth) string {
	var all []string
	for _, server := range serversOf(published) {
		hosts := slices.DeleteFunc(slices.Clone(workers),
			func(w engine.WorkerHealth) bool { return w.Offers[server] == "" })
		offering := map[string][]string{} // the workers that offer a version of a tool, by its ID and hash
		for _, w := range hosts {
			i := slices.IndexFunc(published,
				func(c turn.Catalogue) bool { return c.Server == server && c.Version() == w.Offers[server] })
			if i < 0 { // the journal does not have this version
				continue
			}
			for _, t := range published[i].Tools {
				offering[t.ID+"\n"+t.Hash] = append(offering[t.ID+"\n"+t.Hash], w.Worker)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(offering)) {
			if by := offering[key]; len(by) < len(hosts) {
				id, _, _ := strings.Cut(key, "\n")
				all = append(all, fmt.Sprintf("%s by %s", app.Line(id, 60), app.Line(strings.Join(by, ", "), 120)))
			}
		}
	}
	return strings.Join(slices.Compact(all), "; ") // workers with the same identity offer two versions of a tool
}

// serversOf returns the servers of catalogues, each once.
func serversOf(catalogues []turn.Catalogue) (servers []string) {
	for _, c := range catalogues {
		if !slices.Contains(servers, c.Server) {
			servers = append(servers, c.Server)
		}
	}
	return servers
}
