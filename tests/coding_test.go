package tests

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/postgres"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/tests/check"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// The long run of TestCodingTasks is `make coding REPOS=DIR,DIR`.
var (
	codingRepos = flag.String("repos", "", "repositories of TestCodingTasks, separated by commas; small ones by default")
	codingKills = flag.Int("kills", 3, "how often TestCodingTasks kills a worker, in all repositories together")
	codingSeed  = flag.Uint64("coding-seed", 1, "seed of the kills of TestCodingTasks")
)

// TestCodingTasks lets a model work on repositories: it reads, changes files, runs the repository's own tests in the
// tree, sees a failure, fixes it, commits in the tree, and merges when a person has approved it. Meanwhile the worker is
// killed at random moments. Every call that changed files has one commit, and the user's repository stays as it is,
// byte for byte, until the merge.
func TestCodingTasks(t *testing.T) {
	t.Parallel()
	repos := someRepos(t)
	for i, repo := range repos {
		kills := *codingKills / len(repos)
		if i < *codingKills%len(repos) {
			kills++
		}
		t.Run(filepath.Base(repo), func(t *testing.T) {
			t.Parallel()
			c := newCoding(t, repo, fmt.Sprintf("coding-%d", i), "", "")
			c.kills, c.rng = kills, rand.New(rand.NewPCG(*codingSeed, uint64(i)))
			c.work()
		})
	}
}

// coding is a coding task in one repository.
type coding struct {
	*userFolder
	model   *fakellm.Server
	rng     *rand.Rand
	session string
	task    task
	kills   int // still to come
	worker  *command
	heard   int // requests to the model after which the worker may be killed
	killed  int
	rounds  int
	// machines have the folders in which workers run; each kill moves on to the next one. The first is the user's own.
	machines []*userFolder
	on       int
	remote   string // the repository that has all commits; empty: the store of the only machine
	ref      string // of a session there, up to its name
	url      string // of a journal in Postgres
}

// newCoding makes the folder of a user who has cloned a repository and begun to change it. workspace are further lines of
// the section [workspace], and sections further sections of agent.toml.
func newCoding(t *testing.T, source, session, workspace, sections string) *coding {
	c := &coding{session: session, ref: "everturn/"}
	c.model = fakellm.Start(t, fakellm.Func(func(q fakellm.Request) fakellm.Reply { return c.task.reply(q) }))
	c.userFolder = newUserFolder(t, asking(c.model)+`workspace = "repo"
preset = "coding"
trust_workspace = true
max_consecutive_errors = 100 # a call whose worker was killed is one
[workspace]
mode = "tree"
`+workspace+`[shell]
enabled = true
env_allow = ["NODE_PATH"]
`+sections+`[[models]]
name = "openai:scripted"
context_tokens = 1000000
`)
	c.machines = []*userFolder{c.userFolder}
	cloned(t, source, c.path("repo"))
	shareCache(t, c.path("repo"), c.environ)
	if doctor := c.everturn("doctor", "-o", "json").out.String(); strings.Contains(doctor, "not offered") {
		require.Empty(t, os.Getenv("EVERTURN_BWRAP_REQUIRED"), doctor)
		t.Skip("no command can be isolated on this machine: " + doctor)
	}
	c.task = taskFor(t, c.path("repo"))
	c.environ = c.task.prepare(t, c.environ)
	c.userFolder.begins()
	return c
}

// begins lets the user of a repository begin to change it.
func (h *userFolder) begins() {
	h.git("branch", "reviewed")
	h.git("tag", "mine")
	h.write("repo/staged-by-user.txt", "staged\n")
	h.git("add", "staged-by-user.txt")
	h.write("repo/staged-by-user.txt", "changed\n")
	h.git("config", "alias.x", "!touch RAN")
	for _, hook := range []string{"reference-transaction", "post-commit", "post-merge", "post-checkout", "pre-commit"} {
		h.write("repo/.git/hooks/"+hook, "#!/bin/sh\ntouch RAN\n")
		require.NoError(h.t, os.Chmod(h.path("repo/.git/hooks/"+hook), 0o755))
	}
}

// work lets the model do rounds of the task until all kills have happened, has its changes merged, and checks what is
// left.
func (c *coding) work() {
	before := c.snapshots()
	c.replaceWorker()
	for c.rounds == 0 || c.kills > 0 {
		c.rounds++
		c.during(c.begin(nil, "run", "-s", c.session, fmt.Sprintf("Round %d", c.rounds))).exits(0)
		c.unchanged(before, ".git/objects/", ".git/refs/everturn/")
	}
	c.kills++ // one while a person is asked
	c.during(c.begin(nil, "run", "-s", c.session, "Merge")).exits(6)
	c.unchanged(before, ".git/objects/", ".git/refs/everturn/")
	c.checkCommits()
	c.everturn("approve", c.session, "2.0", "-y").exits(0)
	c.during(c.begin(nil, "attach", c.session)).exits(0)
	c.unchanged(before, ".git/objects/", ".git/refs/everturn/", ".git/refs/heads/reviewed",
		".git/logs/refs/heads/reviewed")
	merges := 0
	for _, m := range c.machines { // the one that had the tree has merged
		assert.NoFileExists(c.t, m.path("repo/RAN"))
		if m.git("rev-parse", "HEAD") == m.git("rev-parse", "reviewed") {
			continue
		}
		merges++
		assert.Equal(c.t, "1", m.git("rev-list", "--count", "--merges", "HEAD..reviewed"))
		for name, text := range c.task.files(c.rounds) {
			assert.Equal(c.t, strings.TrimSpace(text), m.git("show", "reviewed:"+name), name)
		}
	}
	assert.Equal(c.t, 1, merges)
	j := c.journal()
	sessions, waits := (&env{t: c.t, journal: j}).kept(c.t.Context(), c.session)
	for _, v := range check.Check(check.Ledgers{Partial: true, Sessions: sessions, Waits: waits}) {
		assert.Fail(c.t, "a promise is broken", "%s", v)
	}
}

// journal opens the journal, until the test ends.
func (c *coding) journal() *journal.DB {
	var j *journal.DB
	var err error
	if c.url != "" {
		j, err = postgres.Open(c.t.Context(), c.url, postgres.Options{})
	} else {
		j, err = sqlite.Open(c.t.Context(), c.path(".everturn/journal.db"), sqlite.Options{Synchronous: "normal"})
	}
	require.NoError(c.t, err)
	c.t.Cleanup(func() { assert.NoError(c.t, j.Close()) })
	return j
}

// replaceWorker starts a worker on the next machine.
func (c *coding) replaceWorker() {
	c.heard = len(c.model.Requests()) + c.rng.IntN(3)
	c.worker = c.machines[c.on%len(c.machines)].worker()
	c.on++
}

// inHistory runs git where all commits of the session are.
func (c *coding) inHistory(args ...string) string {
	c.t.Helper()
	if c.remote == "" {
		return c.inStore(args...)
	}
	return c.git(append([]string{"--git-dir=" + c.remote}, args...)...)
}

// snapshots describes the repositories of all machines.
func (c *coding) snapshots() (all []map[string]string) {
	for _, m := range c.machines {
		all = append(all, snapshot(c.t, m.path("repo")))
	}
	return all
}

// during waits for the end of a command, and meanwhile kills and replaces the worker: at random moments, each after the
// model was asked up to three times since the last one, so that the task goes on.
func (c *coding) during(cmd *command) *command {
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Minute)
	defer cancel()
	go func() {
		select {
		case <-cmd.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	for c.kills > 0 {
		if c.model.Await(ctx, func(list []fakellm.Request) bool { return len(list) > c.heard }) != nil {
			break
		}
		// Most of the time passes in commands; the others are over after some 50 ms.
		most := time.Duration(50+c.rng.IntN(1500)) * time.Millisecond
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(c.rng.Int64N(int64(most)))): // what happens at that moment is what the test is about
			c.worker.signal(syscall.SIGKILL)
			c.worker.wait()
			c.kills--
			c.killed++
			c.replaceWorker()
		}
	}
	select {
	case <-cmd.done:
	case <-time.After(10 * time.Minute):
		require.Fail(c.t, "it does not end: "+strings.Join(cmd.cmd.Args, " "))
	}
	return cmd
}

// checkCommits compares the commits of the session with its calls, and the tree with the commits.
func (c *coding) checkCommits() {
	ctx, j := c.t.Context(), c.journal()
	commits := map[string][]string{} // by call, the oldest first
	for _, line := range strings.Split(c.inHistory("log", "--reverse",
		"--format=%H %(trailers:key=Everturn-Call,valueonly,separator=)", c.git("rev-parse", "HEAD")+".."+c.ref+c.session),
		"\n") {
		id, call, _ := strings.Cut(line, " ")
		commits[call] = append(commits[call], id)
		assert.NotEmpty(c.t, c.inHistory("diff-tree", "--name-only", "-r", id+"^", id), "commit %s of call %s is empty", id,
			call)
	}
	turns, err := j.Turns(ctx, c.session)
	require.NoError(c.t, err)
	outcomes := map[turn.Outcome]int{}
	for _, t := range turns {
		calls, err := j.Calls(ctx, t.ID)
		require.NoError(c.t, err)
		for _, call := range calls {
			id, tool := t.ID+"/"+call.Call.ID, call.Call.Tool
			outcomes[call.Outcome]++
			writes := tool == "local/write_file" || tool == "local/edit_file"
			if writes && call.Outcome == turn.OutcomeOK || strings.Contains(string(call.Call.Arguments), "echo round") &&
				call.Outcome == turn.OutcomeOK {
				assert.Len(c.t, commits[id], 1, "%s %s", tool, id)
			}
			assert.LessOrEqual(c.t, len(commits[id]), 1, "%s %s", tool, id)
			assert.True(c.t, len(commits[id]) == 0 || writes || tool == "local/shell", "%s %s", tool, id)
			delete(commits, id)
		}
	}
	assert.Empty(c.t, commits, "commits of no call")
	shown := decoded[workspace.Summary](c.everturn("canvas", "show", "-o", "json", c.session).exits(0))
	for name, text := range c.task.files(c.rounds) {
		if len(c.machines) == 1 { // otherwise the tree may be on its way
			b, err := os.ReadFile(filepath.Join(shown.Tree, name))
			require.NoError(c.t, err)
			assert.Equal(c.t, text, string(b), name)
		}
		assert.Equal(c.t, strings.TrimSpace(text), c.inHistory("show", shown.Head+":"+name), name)
	}
	c.t.Logf("%d rounds, %d kills, calls: %v", c.rounds, c.killed, outcomes)
}

// unchanged checks that the user's repository of each machine is as it was, except for what is below these paths:
// objects may be added there, and the others may change.
func (c *coding) unchanged(before []map[string]string, may ...string) {
	c.t.Helper()
	for i, after := range c.snapshots() {
		for name, was := range before[i] {
			changes := strings.HasPrefix(name, ".git/refs/") || strings.HasPrefix(name, ".git/logs/")
			if !changes || !hasPrefix(name, may) {
				assert.Equal(c.t, was, after[name], name)
			}
		}
		for name := range after {
			assert.True(c.t, before[i][name] != "" || hasPrefix(name, may), "%s is new", name)
		}
	}
}

func hasPrefix(name string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
