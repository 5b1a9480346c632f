package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/everturn/everturn/internal/statedir"
)

// Options say which repository a Store is for and where it is kept.
type Options struct {
	Repo  string // the user's repository: the top folder of its work tree, or a bare repository
	State string // the state folder
	// Journal returns the journal that knows which place has a tree. If it or its result is nil, this place has all.
	Journal func() Journal
	Worker  string // the identity of this process for the journal
	// Remote is the address of a repository to which each commit is pushed: see CheckRemote. Empty: none.
	Remote string
	// TakeoverAfter is how long the workers of a place must not have been seen before another place takes over its trees.
	TakeoverAfter time.Duration
}

func (o Options) journal() Journal {
	if o.Journal == nil {
		return nil
	}
	return o.Journal()
}

// Store holds the trees and branches of the sessions that change one repository. It is safe for concurrent use by
// goroutines and by several processes.
type Store struct {
	repo    string // the folder of the user's repository
	gitDir  string // its git directory, of all its work trees
	workGit string // the git directory of its own work tree, with its HEAD
	dir     string // of the store
	place   string // its ID
	o       Options
	sha256  bool                       // the repository's object format
	indexes *lru.Cache[string, *index] // of trees, by their name
	// attributes caches baseAttributes, by commit.
	attributes *lru.Cache[string, map[string][]byte]
}

// maxIndexes bounds the number of trees of which a process keeps an index in memory.
const maxIndexes = 32

// store is the bare repository of the host. The other directories are for files of the name that Store.name returns.
func (s *Store) store() string { return filepath.Join(s.dir, "store") }

func (s *Store) treeDir(name string) string { return filepath.Join(s.dir, "trees", name) }

func (s *Store) callFile(name string) string { return filepath.Join(s.dir, "calls", name) }

func (s *Store) lockFile(name string) string { return filepath.Join(s.dir, "locks", name) }

// scratch is for what a process makes, uses and removes.
func (s *Store) scratch() string { return filepath.Join(s.dir, "scratch") }

// Open opens the store of a repository, and makes it in the state folder if it does not exist.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{o: o}
	var err error
	if o.Remote != "" {
		if err := CheckRemote(o.Remote); err != nil {
			return nil, fmt.Errorf("workspace.remote: %w", err)
		}
	}
	if s.repo, err = filepath.Abs(o.Repo); err != nil {
		return nil, err
	}
	if info, err := os.Stat(s.repo); err != nil {
		return nil, fmt.Errorf("runtime.workspace: %w: create it with `git init %s`, or name another repository", err, s.repo)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("runtime.workspace %s is not a folder", s.repo)
	}
	if err := s.findRepo(ctx); err != nil {
		return nil, err
	}
	if s.dir, err = storeDir(o.State, s.repo); err != nil {
		return nil, err
	}
	if s.indexes, err = lru.New[string, *index](maxIndexes); err != nil {
		return nil, err
	}
	if s.attributes, err = lru.New[string, map[string][]byte](maxIndexes); err != nil {
		return nil, err
	}
	if err := statedir.Secure(o.State); err != nil {
		return nil, err
	}
	for _, name := range []string{"trees", "calls", "locks", "setups", "scratch"} {
		if err := os.MkdirAll(filepath.Join(s.dir, name), 0o700); err != nil {
			return nil, err
		}
	}
	ignore := filepath.Join(filepath.Dir(s.dir), ".gitignore") // the state folder may be in the user's repository
	if err := statedir.Replace(ignore, "*\n"); err != nil {
		return nil, err
	}
	return s, s.init(ctx)
}

// storeDir returns the folder of a repository's store in the state folder.
func storeDir(state, repo string) (string, error) {
	real, err := filepath.EvalSymlinks(repo)
	if err != nil {
		return "", err
	}
	if state, err = filepath.Abs(state); err != nil {
		return "", err
	}
	return filepath.Join(state, "workspace", fmt.Sprintf("%.40s-%.6x", escape(filepath.Base(real)),
		sha256.Sum256([]byte(real)))), nil
}

// findRepo finds the git directory of the user's repository. It refuses one that does not belong to the folder.
func (s *Store) findRepo(ctx context.Context) error {
	var out bytes.Buffer
	err := run(ctx, s.repo, nil, &out, "rev-parse", "--path-format=absolute", "--absolute-git-dir", "--git-common-dir",
		"--git-path", "objects", "--show-object-format")
	if err != nil {
		return fmt.Errorf("runtime.workspace %s is not the top folder of a git repository that this user owns: %w", s.repo,
			err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) < 4 {
		return fmt.Errorf("git rev-parse in %s: unexpected output", s.repo)
	}
	s.workGit, s.gitDir, s.sha256 = lines[0], lines[1], lines[3] == "sha256"
	if !s.owns(lines[0], lines[1]) {
		return fmt.Errorf("runtime.workspace %s is not a work tree of %s, where its .git leads: name that repository", s.repo,
			lines[0])
	}
	return nil
}

// init makes the bare repository of the store, unless it exists, and lends it the objects of the user's repository.
func (s *Store) init(ctx context.Context) error {
	lock, err := statedir.Exclusive(ctx, filepath.Join(s.dir, "open.lock"))
	if err != nil {
		return err
	}
	defer lock.Release() //nolint:errcheck // the process ends the lock, too
	if _, err := os.Stat(filepath.Join(s.store(), "config")); err != nil {
		if err := s.initRepo(ctx, s.store(), "--bare"); err != nil {
			return err
		}
	}
	if err := s.readPlace(); err != nil {
		return err
	}
	if err := s.lend(s.store(), filepath.Join(s.gitDir, "objects")); err != nil {
		return err
	}
	return s.shallow(s.store())
}

// shallow tells the git directory dir which commits of the user's repository lack their parents, if that is a shallow
// clone.
func (s *Store) shallow(dir string) error {
	file := filepath.Join(dir, "shallow")
	commits, err := os.ReadFile(filepath.Join(s.gitDir, "shallow"))
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Remove(file); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	if err != nil {
		return err
	}
	return statedir.Replace(file, string(commits))
}

// initRepo makes an empty repository that runs no program and has no hooks.
func (s *Store) initRepo(ctx context.Context, dir string, args ...string) error {
	format := "--object-format=sha1"
	if s.sha256 {
		format = "--object-format=sha256"
	}
	var out bytes.Buffer
	return run(ctx, s.dir, nil, &out, append(append([]string{"init", "-q", "--template=", format}, args...), dir)...)
}

// lend writes the object directories from which the git directory dir borrows.
func (s *Store) lend(dir string, from ...string) error {
	file, content := filepath.Join(dir, "objects", "info", "alternates"), strings.Join(from, "\n")+"\n"
	if strings.Count(content, "\n") != len(from) {
		return fmt.Errorf("the path of the repository or of the state folder has a line break")
	}
	if old, err := os.ReadFile(file); err == nil && string(old) == content {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return statedir.Replace(file, content)
}

// owns reports whether a git directory belongs to the folder of the repository: it is in the folder with its common
// directory, objects and refs, or it names the folder as a work tree or submodule. An archive may come with a .git that
// leads to another repository of the user.
func (s *Store) owns(gitDir, common string) bool {
	dir, err := filepath.EvalSymlinks(s.repo)
	if err != nil {
		return false
	}
	inside := func(path string) bool {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return false
		}
		rel, err := filepath.Rel(dir, real)
		return err == nil && filepath.IsLocal(rel)
	}
	if inside(gitDir) {
		return inside(common) && inside(filepath.Join(common, "objects")) && inside(filepath.Join(common, "refs"))
	}
	back, err := os.ReadFile(filepath.Join(gitDir, "gitdir"))
	if err == nil { // of git worktree
		dotGit, err := filepath.EvalSymlinks(filepath.Dir(strings.TrimSpace(string(back))))
		return err == nil && dotGit == dir
	}
	config, err := os.ReadFile(filepath.Join(gitDir, "config"))
	worktree := regexp.MustCompile(`(?m)^\s*worktree = (.+)$`).FindSubmatch(config)
	if err != nil || worktree == nil {
		return false
	}
	tree, err := filepath.EvalSymlinks(filepath.Join(gitDir, string(worktree[1])))
	return err == nil && tree == dir
}
