package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The long run of TestTreeAndTranscriptAgree takes minutes:
//
//	go test ./internal/workspace -run TestTreeAndTranscriptAgree -tree-sequences 1000 -timeout 60m
var (
	sequences = flag.Int("tree-sequences", 8, "random sequences of what happens to trees")
	firstSeed = flag.Uint64("tree-seed", 0, "seed of the first sequence; the next ones follow")
)

// steps is the number of steps of a sequence.
const steps = 15

// TestTreeAndTranscriptAgree runs random sequences of edits, commands, forks, rewinds, undos, merges, losses of the tree
// and deaths of processes, and compares each tree with what the calls of its session have done.
func TestTreeAndTranscriptAgree(t *testing.T) {
	for i := range *sequences {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			sequence(t, rand.New(rand.NewPCG(1, seed)))
		})
	}
}

func sequence(t *testing.T, rng *rand.Rand) {
	begin := map[string]string{"base": "0"}
	m := &model{T: t, rng: rng, dir: repository(t, begin), state: t.TempDir() + "/.everturn"}
	userGit(t, m.dir, "branch", "other")
	require.NoError(t, os.RemoveAll(m.dir+"/HOOKED"))
	root := point{files: begin}
	m.sessions = []*modelSession{{name: "s0", begin: root, now: []point{root}}}
	before := users(t, m.dir, "refs/heads/other")
	for step := range steps {
		if step%5 == 0 {
			m.store = openedIn(t, m.dir, m.state) // another process
		}
		m.step()
		if t.Failed() {
			t.Fatalf("after %s", strings.Join(m.did, ", "))
		}
	}
	for _, s := range m.sessions {
		if _, begun, err := m.store.readState(t.Context(), "", s.name); err != nil || !begun {
			continue
		}
		calls := slices.DeleteFunc(strings.Fields(inStore(t, m.store, "log",
			"--format=%(trailers:key="+trailerCall+",valueonly,separator=)", headRef("", s.name))),
			func(call string) bool { return strings.HasSuffix(call, "/") }) // a user's
		assert.Len(t, slices.Compact(slices.Sorted(slices.Values(calls))), len(calls), "a call has two commits: %v", calls)
	}
	assert.Equal(t, before, users(t, m.dir, "refs/heads/other"))
	userGit(t, m.dir, "fsck", "--strict", "--connectivity-only")
	inStore(t, m.store, "fsck", "--strict", "--connectivity-only")
}

// model has the sessions of a sequence.
type model struct {
	*testing.T
	store      *Store
	dir, state string
	rng        *rand.Rand
	sessions   []*modelSession
	n          int
	did        []string
}

// modelSession has what a session's transcript says of its tree.
type modelSession struct {
	name    string
	parents []string
	calls   []string
	begin   point   // where the canvas began
	points  []point // after each call that made a commit which is not undone
	now     []point // from the base to the head: where an undo goes back
}

// point is a state of a tree.
type point struct {
	call  string
	files map[string]string
	below []point // the states between the base and this one
}

func (s *modelSession) files() map[string]string { return s.now[len(s.now)-1].files }

// commits adds the state after a call.
func (s *modelSession) commits(call string, files map[string]string) {
	p := point{call, files, slices.Clone(s.now)}
	s.now, s.points = append(slices.Clip(s.now), p), append(slices.Clip(s.points), p)
}

func (s *modelSession) origin(context.Context) (Origin, error) {
	o := Origin{Parents: s.parents, Calls: slices.Clone(s.calls)}
	slices.Reverse(o.Calls)
	return o, nil
}

// step does something in one of the sessions.
func (m *model) step() {
	at := m.rng.IntN(len(m.sessions))
	s := m.sessions[at]
	var did string
	switch m.rng.IntN(12) {
	case 0, 1:
		did = m.change(s, "edit")
	case 2, 3:
		did = m.change(s, "command")
	case 4, 5, 6:
		did = m.killed(s)
	case 7:
		s = m.fork(s)
		did = "fork as " + s.name
		m.sessions = append(m.sessions, s)
	case 8: // the work goes on in the fork
		m.sessions[at] = m.fork(s)
		did = "rewind as " + m.sessions[at].name
		s = m.sessions[at]
	case 9:
		did = m.undo(s)
	case 10:
		did = m.merge(s)
	case 11:
		did = "lose tree"
		require.NoError(m, os.RemoveAll(m.store.Path("", s.name)))
	}
	m.did = append(m.did, s.name+" "+did)
	_, _, err := m.store.Read(m.Context(), Action{Session: s.name}, s.origin)
	require.NoError(m, err, "%v", m.did)
	require.Equal(m, s.files(), files(m.T, m.store, s.name), "%v", m.did)
}

// fork makes a session that shares some of the calls.
func (m *model) fork(s *modelSession) *modelSession {
	m.n++
	fork := &modelSession{name: fmt.Sprint("s", m.n), parents: append([]string{s.name}, s.parents...),
		calls: slices.Clone(s.calls[:m.rng.IntN(len(s.calls)+1)]), begin: s.begin}
	at := s.begin
	for _, p := range s.points {
		if slices.Contains(fork.calls, p.call) {
			fork.points, at = append(fork.points, p), p
		}
	}
	fork.now = append(slices.Clone(at.below), at)
	return fork
}

// next returns the next call of a session, and the file that it changes.
func (m *model) next(s *modelSession, kind string) job {
	m.n++
	a := Action{Session: s.name, Turn: s.name, Call: fmt.Sprint(m.n)}
	s.calls = append(slices.Clip(s.calls), a.call())
	o, _ := s.origin(m.Context())
	return job{Kind: kind, Action: a, Origin: o, File: fmt.Sprintf("d%d/f%d", m.rng.IntN(2), m.rng.IntN(3)),
		Text: fmt.Sprint(m.n), Repo: m.dir, State: m.state, Squash: m.rng.IntN(2) == 0}
}

// change changes a file.
func (m *model) change(s *modelSession, kind string) string {
	j := m.next(s, kind)
	require.NoError(m, j.run(m.Context(), m.store))
	m.changed(s, j)
	return fmt.Sprintf("%s %s %s", kind, j.File, j.Text)
}

func (m *model) changed(s *modelSession, j job) {
	after := maps.Clone(s.files())
	after[j.File] = j.Text
	s.commits(j.Action.call(), after)
}

// undo takes back the last change.
func (m *model) undo(s *modelSession) string {
	_, err := m.store.Undo(m.Context(), "", s.name)
	if err != nil {
		if !errors.Is(err, ErrNoCanvas) {
			require.Len(m, s.now, 1, "%s", err)
		}
		return "undo nothing"
	}
	s.undone()
	return "undo"
}

func (s *modelSession) undone() {
	last := s.now[len(s.now)-1]
	s.now = s.now[:len(s.now)-1]
	s.points = slices.DeleteFunc(slices.Clone(s.points), func(p point) bool { return p.call == last.call })
}

// merge merges a session into the branch other, as a call or as a user.
func (m *model) merge(s *modelSession) string {
	j := m.next(s, "merge")
	if m.rng.IntN(2) == 0 { // a user
		s.calls = s.calls[:len(s.calls)-1]
		j.Action.Call = ""
	}
	want := m.wantMerge(s)
	err := j.run(m.Context(), m.store)
	var conflict *ConflictError
	switch {
	case want == "":
		require.Error(m, err)
		return "merge nothing"
	case want == "conflict":
		require.ErrorAs(m, err, &conflict)
		return "merge in conflict"
	}
	require.NoError(m, err)
	m.merged(s, j, want)
	return "merge"
}

// wantMerge returns the tree that a merge should make, "conflict", or "" if there is nothing to merge.
func (m *model) wantMerge(s *modelSession) string {
	st, begun, err := m.store.readState(m.Context(), "", s.name)
	require.NoError(m, err)
	if !begun || st.head == st.base {
		return ""
	}
	out, err := m.store.git(m.Context(), nil, "merge-tree", "--write-tree", "--no-messages",
		userGit(m.T, m.dir, "rev-parse", "other"), st.head)
	if refused(err) {
		return "conflict"
	}
	require.NoError(m, err)
	return strings.TrimSpace(string(out))
}

// merged moves the model of a session to the merge, which has the wanted tree.
func (m *model) merged(s *modelSession, j job, want string) {
	require.Equal(m, want, userGit(m.T, m.dir, "rev-parse", "other^{tree}"))
	merged := point{call: j.Action.call(), files: map[string]string{}}
	for _, name := range strings.Fields(inStore(m.T, m.store, "ls-tree", "-r", "--name-only", want)) {
		merged.files[name] = inStore(m.T, m.store, "show", want+":"+name)
	}
	s.now = []point{merged}
	if j.Action.Call != "" {
		s.points = append(slices.Clip(s.points), merged)
	}
}

// killed lets another process do something, and kills it at a random moment. An edit is called again, as by the next
// worker; of the others the store says what they have done.
func (m *model) killed(s *modelSession) string {
	kind := []string{"edit", "edit", "command", "command", "undo", "merge"}[m.rng.IntN(6)]
	j := m.next(s, kind)
	if kind == "undo" || kind == "merge" {
		s.calls, j.Action.Call = s.calls[:len(s.calls)-1], ""
	}
	want, was := "", m.head(s)
	if kind == "merge" {
		want = m.wantMerge(s)
	}
	after := time.Duration(m.rng.Int64N(int64(60 * time.Millisecond)))
	m.inProcess(j, after)
	if kind == "edit" {
		require.NoError(m, j.run(m.Context(), m.store))
		m.changed(s, j)
		return fmt.Sprintf("killed edit %s %s after %s", j.File, j.Text, after)
	}
	m.settle(s) // the next call finds what was left
	now := m.head(s)
	switch {
	case kind == "undo" && now != was && was != "":
		s.undone()
	case kind == "merge" && now != was && was != "":
		m.merged(s, j, want)
	case kind == "command" && now != was:
		m.partly(s, j, was, now)
	}
	return fmt.Sprintf("killed %s %s %s after %s, %t", kind, j.File, j.Text, after, now != was)
}

// partly adds what a killed command has done to the model: the file is new, empty or as it was.
func (m *model) partly(s *modelSession, j job, was, head string) {
	by := inStore(m.T, m.store, "log", "-1", "--format=%(trailers:key="+trailerCall+",valueonly,separator=)", head)
	if was == "" && by != j.Action.call() { // the canvas has begun
		return
	}
	require.Equal(m, j.Action.call(), by)
	text := inStore(m.T, m.store, "show", head+":"+j.File)
	require.Contains(m, []string{"", j.Text}, text)
	j.Text = text
	m.changed(s, j)
}

// settle makes a call that changes nothing.
func (m *model) settle(s *modelSession) {
	j := m.next(s, "nothing")
	s.calls = s.calls[:len(s.calls)-1]
	require.NoError(m, j.run(m.Context(), m.store))
}

// head returns the last commit of a session's canvas, or "" if it has made none.
func (m *model) head(s *modelSession) string {
	st, _, err := m.store.readState(m.Context(), "", s.name)
	require.NoError(m, err)
	return st.head
}

// job is something that a process does to a tree.
type job struct {
	Kind             string
	Action           Action
	Origin           Origin
	File, Text       string
	Repo, State, Dir string
	Squash           bool
}

func (j job) run(ctx context.Context, s *Store) (err error) {
	begins := func(context.Context) (Origin, error) { return j.Origin, nil }
	switch j.Kind {
	case "undo":
		_, err = s.Undo(ctx, "", j.Action.Session)
		return err
	case "merge":
		_, err = s.Merge(ctx, MergeInput{Action: j.Action, Into: "other", Title: "merge", Squash: j.Squash})
		return err
	}
	_, err = s.Change(ctx, j.Action, begins, Change{Title: j.Kind, Run: func(dir string) ([]string, error) {
		switch j.Kind {
		case "edit":
			return []string{j.File}, put(dir, j.File, j.Text)
		case "nothing":
			return nil, nil
		}
		return nil, put(dir, j.File, j.Text)
	}})
	return err
}

// jobVariable holds the job of a process.
const jobVariable = "EVERTURN_TEST_JOB"

// inProcess runs a job in a process of its own, which it kills after some time.
func (m *model) inProcess(j job, after time.Duration) {
	cmd := m.process(j)
	out, err := cmd.StdoutPipe()
	require.NoError(m, err)
	require.NoError(m, cmd.Start())
	_, _ = out.Read(make([]byte, 1)) // it is about to begin
	time.Sleep(after)                // what happens at that moment is what the test is about
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait() // it may have ended by itself
}

// process returns the command for a process that runs a job.
func (m *model) process(j job) *exec.Cmd {
	b, err := json.Marshal(j)
	require.NoError(m, err)
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestAProcess$")
	cmd.Env = append(os.Environ(), jobVariable+"="+string(b))
	return cmd
}

// TestAProcess runs the job of inProcess.
func TestAProcess(t *testing.T) {
	var j job
	if os.Getenv(jobVariable) == "" {
		t.Skip("it is a part of TestTreeAndTranscriptAgree")
	}
	require.NoError(t, json.Unmarshal([]byte(os.Getenv(jobVariable)), &j))
	s := openedIn(t, j.Repo, j.State)
	fmt.Println("begins")
	_ = j.run(t.Context(), s) // that of a merge in conflict is no failure of the process
}

// TestAKilledProcessKeepsItsTree kills a process whose git is still at work: the next call waits until that has ended.
func TestAKilledProcessKeepsItsTree(t *testing.T) {
	dir := repository(t, map[string]string{"a": "1\n"})
	m := &model{T: t, dir: dir, state: filepath.Join(t.TempDir(), ".everturn"), rng: rand.New(rand.NewPCG(1, 1))}
	m.store = openedIn(t, m.dir, m.state)
	write(t, m.store, call("s", 1), "b", "1\n")
	bin, hold, holding := t.TempDir(), filepath.Join(t.TempDir(), "hold"), filepath.Join(t.TempDir(), "holding")
	real, err := exec.LookPath("git")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "git"), fmt.Appendf(nil, "#!/bin/sh\ncase \"$*\" in *\"update-ref --stdin\"*)\n"+
		"touch %[1]q; while [ -e %[2]q ]; do sleep 0.05; done;; esac\nexec %[3]q \"$@\"\n", holding, hold, real), 0o755))
	cmd := m.process(job{Kind: "undo", Action: Action{Session: "s"}, Repo: dir, State: m.state})
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { _, err := os.Stat(holding); return err == nil }, time.Minute, time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	ctx, cancel := context.WithTimeout(t.Context(), beforeDeadline+100*time.Millisecond)
	defer cancel()
	_, err = m.store.Change(ctx, call("s", 2), nil, Change{Run: func(string) ([]string, error) { return nil, nil }})
	require.ErrorIs(t, err, errBusy)
	require.NoError(t, os.Remove(hold))
	assert.Empty(t, command(t, m.store, call("s", 3), "true").Commit, "the tree has what the branch has")
}
