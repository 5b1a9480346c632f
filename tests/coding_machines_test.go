package tests

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/everturn/everturn/journal/postgres/pgtest"
)

// TestCodingTasksMoveBetweenMachines is TestCodingTasks with two machines that share a journal and a remote: the worker
// that replaces a killed one is that of the other machine, in a folder of its own. No commit is lost or doubled, and the
// repositories of both stay as they are until the merge.
func TestCodingTasksMoveBetweenMachines(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	repos := someRepos(t)
	for i, repo := range repos {
		kills := *codingKills / len(repos)
		if i < *codingKills%len(repos) {
			kills++
		}
		t.Run(filepath.Base(repo), func(t *testing.T) {
			t.Parallel()
			bare, url := filepath.Join(t.TempDir(), "remote.git"), server.Empty(t)
			c := newCoding(t, repo, fmt.Sprintf("coding-moves-%d", i),
				fmt.Sprintf("remote = %q\ntakeover_after = \"15s\"\n", bare),
				fmt.Sprintf("[journal]\nurl = %q\n", url))
			c.kills, c.rng = kills, rand.New(rand.NewPCG(*codingSeed, uint64(i)))
			c.remote, c.ref, c.url = bare, "refs/everturn/sessions/", url
			c.git("clone", "-q", "--bare", ".", bare)
			c.everturn("journal", "migrate").exits(0)
			second := newUserFolder(t, "")
			second.write("agent.toml", c.read("agent.toml"))
			cloned(t, repo, second.path("repo"))
			shareCache(t, second.path("repo"), second.environ)
			second.environ = c.task.prepare(t, second.environ)
			second.begins()
			c.machines = append(c.machines, second)
			c.work()
		})
	}
}
