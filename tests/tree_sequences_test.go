package tests

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/workspace"
)

// treeSequences is the number of sequences of TestTreesFollowTheirTranscripts. Package workspace plays a thousand
// without workers and a journal: see `make trees`.
var treeSequences = flag.Int("tree-sequences", 2, "random sequences of TestTreesFollowTheirTranscripts")

// TestTreesFollowTheirTranscripts lets a user do random things with sessions: messages that change a file, while the
// worker is sometimes killed, forks, rewinds, undos and merges. Each tree has the files that the transcript says.
func TestTreesFollowTheirTranscripts(t *testing.T) {
	t.Parallel()
	for seed := range *treeSequences {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			p := &treePlayer{userFolder: newCanvasUserFolder(t), rng: rand.New(rand.NewPCG(2, uint64(seed))), seed: seed,
				other: map[string]bool{"page.md": true}}
			p.git("branch", "other")
			p.worker = p.userFolder.worker()
			p.sessions = []*treeSession{{name: p.named(), now: []treePoint{{files: p.other}}}}
			for range 8 {
				p.step()
			}
		})
	}
}

type treePlayer struct {
	*userFolder
	rng      *rand.Rand
	seed, n  int
	worker   *command
	sessions []*treeSession
	other    map[string]bool // the files of the branch other
	did      []string
}

// treeSession has what the transcript of a session says of its tree. Every message makes a file of another name.
type treeSession struct {
	name   string
	points []treePoint // after each message whose change is not undone
	now    []treePoint // from the base to the head
}

type treePoint struct {
	at    int // messages of the transcript
	files map[string]bool
	below []treePoint // from the base to this one
}

func (s *treeSession) files() map[string]bool { return s.now[len(s.now)-1].files }

func (p *treePlayer) named() string {
	p.n++
	return fmt.Sprintf("trees-%d-%d", p.seed, p.n)
}

func (p *treePlayer) step() {
	p.t.Helper()
	at := p.rng.IntN(len(p.sessions))
	s := p.sessions[at]
	did := "message"
	switch p.rng.IntN(8) {
	default:
		p.message(s)
	case 4, 5:
		if len(s.points) > 0 {
			did = p.fork(at)
		}
	case 6:
		did = "undo"
		if undo := p.everturn("canvas", "undo", s.name); len(s.now) > 1 {
			undo.exits(0)
			undone := s.now[len(s.now)-1]
			s.now = s.now[:len(s.now)-1]
			if last := len(s.points) - 1; last >= 0 && s.points[last].at == undone.at {
				s.points = s.points[:last]
			}
		}
	case 7:
		did = "merge"
		if merge := p.everturn("canvas", "merge", s.name, "--into", "other", fmt.Sprintf("--squash=%t", p.rng.IntN(2) == 0)); len(s.now) > 1 {
			merge.exits(0)
			p.other = maps.Clone(p.other)
			maps.Copy(p.other, s.files())
			s.now = []treePoint{{files: p.other}}
		}
	}
	p.did = append(p.did, s.name+": "+did)
	for _, s := range p.sessions {
		p.agrees(s)
	}
}

// message sends a message that makes a file, and sometimes kills the worker meanwhile.
func (p *treePlayer) message(s *treeSession) {
	p.n++
	name := fmt.Sprintf("f%d", p.n)
	run := p.begin(nil, "run", "-s", s.name, fmt.Sprintf(`call local/write_file {"path":%q,"content":%q}`, name, name))
	if p.rng.IntN(3) == 0 {
		time.Sleep(time.Duration(p.rng.IntN(1000)) * time.Millisecond) // what happens at that moment is what the test is about
		p.worker.signal(syscall.SIGKILL)
		p.worker.wait()
		p.worker = p.userFolder.worker()
	}
	run.exits(0)
	files := maps.Clone(s.files())
	files[name] = true
	point := treePoint{len(decoded[shown](p.everturn("show", s.name, "-o", "json").exits(0)).Messages), files,
		slices.Clone(s.now)}
	s.points, s.now = append(s.points, point), append(s.now, point)
}

// fork forks a session after one of its messages. A rewind goes on in the fork only.
func (p *treePlayer) fork(at int) string {
	s, fork := p.sessions[at], &treeSession{name: p.named()}
	i := p.rng.IntN(len(s.points))
	fork.points, fork.now = slices.Clone(s.points[:i+1]), append(slices.Clone(s.points[i].below), s.points[i])
	did := "fork"
	if p.rng.IntN(2) == 0 {
		did = "rewind"
		p.everturn("rewind", s.name, "--to", fmt.Sprint(s.points[i].at), "--as", fork.name).exits(0)
		p.sessions[at] = fork
	} else {
		p.everturn("fork", s.name, "--at", fmt.Sprint(s.points[i].at), "--as", fork.name).exits(0)
		p.sessions = append(p.sessions, fork)
	}
	p.everturn("run", "-s", fork.name, `call local/list_files {"path":"."}`).exits(0)
	return did + " as " + fork.name
}

// agrees compares the tree of a session with the model.
func (p *treePlayer) agrees(s *treeSession) {
	p.t.Helper()
	show := p.everturn("canvas", "show", "-o", "json", s.name)
	if len(s.points) == 0 && show.code() != 0 { // it has not begun
		return
	}
	found, tree := map[string]bool{}, decoded[workspace.Summary](show.exits(0)).Tree
	require.NoError(p.t, filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git":
			return fs.SkipDir
		case !d.IsDir():
			found[strings.TrimPrefix(path, tree+string(os.PathSeparator))] = true
		}
		return nil
	}))
	assert.Equal(p.t, s.files(), found, "%s after %s", s.name, strings.Join(p.did, ", "))
}
