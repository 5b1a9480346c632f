package npm

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

//go:embed package.json
var manifest []byte

//go:embed package-lock.json
var lock []byte

// RequiredVariable is the environment variable that makes tests fail, instead of being skipped, if a third-party
// dependency is missing. CI sets it to 1.
const RequiredVariable = "EVERTURN_SERVERS_REQUIRED"

// installBound bounds an installation. It unpacks some 260 MB, most of it Node.js: ten seconds on two cores.
const installBound = 8 * time.Minute

// oldestNode is the oldest major version of Node.js that all the packages run on.
const oldestNode = 22

// Tree is an installed set of packages.
type Tree struct {
	Node string // the program that runs the packages
	Dir  string // the folder with package.json and node_modules
}

var installed = sync.OnceValues(func() (Tree, error) {
	ctx, cancel := context.WithTimeout(context.Background(), installBound)
	defer cancel()
	return Install(ctx)
})

// Need returns the installed packages. If they cannot be installed, it ends the test as Missing does.
func Need(tb testing.TB) Tree {
	tb.Helper()
	tree, err := installed()
	if err != nil {
		Missing(tb, err)
	}
	return tree
}

// Missing ends a test that lacks a third-party dependency: it skips the test with the reason, or fails it if
// RequiredVariable is set.
func Missing(tb testing.TB, reason error) {
	tb.Helper()
	if os.Getenv(RequiredVariable) != "" {
		tb.Fatal(reason)
	}
	tb.Skipf("skipped, because it needs what this machine does not have: %v", reason)
}

// Install installs the packages unless they are installed already, and returns their location. A program that calls it
// while another one installs waits for that installation.
func Install(ctx context.Context) (Tree, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Tree{}, fmt.Errorf("finding a folder for npm packages: %w", err)
	}
	home := filepath.Join(cache, "everturn")
	sum := sha256.Sum256(append(bytes.Clone(manifest), lock...))
	dir := filepath.Join(home, "npm-"+hex.EncodeToString(sum[:6]))
	if err := os.MkdirAll(home, 0o755); err != nil {
		return Tree{}, fmt.Errorf("making a folder for npm packages: %w", err)
	}
	unlock, err := exclusive(dir + ".lock")
	if err != nil {
		return Tree{}, err
	}
	defer unlock()
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		if err := install(ctx, dir); err != nil {
			return Tree{}, err
		}
	}
	return open(ctx, dir)
}

// exclusive waits for the lock file and takes it.
func exclusive(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening a lock file: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", file, err), f.Close())
	}
	return func() { _ = f.Close() }, nil // closing the file also releases the lock
}

// install puts the complete set of packages into dir, or nothing.
func install(ctx context.Context, dir string) error {
	program, err := exec.LookPath("npm")
	if err != nil {
		return errors.New("npm is not in PATH: install Node.js with npm")
	}
	half, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+"-")
	if err != nil {
		return fmt.Errorf("making a folder for npm packages: %w", err)
	}
	defer os.RemoveAll(half) // it was renamed if everything succeeded
	for name, content := range map[string][]byte{"package.json": manifest, "package-lock.json": lock} {
		if err := os.WriteFile(filepath.Join(half, name), content, 0o644); err != nil {
			return fmt.Errorf("writing npm's %s: %w", name, err)
		}
	}
	cmd := exec.CommandContext(ctx, program, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir, cmd.WaitDelay = half, 5*time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("installing npm packages: %w\n%s", err, bytes.TrimSpace(out))
	}
	if err := os.Rename(half, dir); err != nil {
		return fmt.Errorf("keeping the npm packages: %w", err)
	}
	return nil
}

// open finds a Node.js for the packages: the one among them, or else the one in PATH.
func open(ctx context.Context, dir string) (Tree, error) {
	t := Tree{Dir: dir}
	own := filepath.Join(dir, "node_modules", "node-"+runtime.GOOS+"-"+strings.Replace(runtime.GOARCH, "amd64", "x64", 1),
		"bin", "node")
	for _, name := range []string{own, "node"} {
		file, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, file, "--version").Output()
		if err != nil {
			continue
		}
		major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
		if n, err := strconv.Atoi(major); err == nil && n >= oldestNode {
			t.Node = file
			return t, nil
		}
	}
	return t, fmt.Errorf("there is no Node.js of version %d or newer: install one", oldestNode)
}

// Bin returns the file that a package names as its command, to be run with Node.
func (t Tree) Bin(tb testing.TB, pkg string) string {
	tb.Helper()
	file, err := command(t.manifest(tb, pkg))
	if err != nil {
		tb.Fatalf("%s: %v", pkg, err)
	}
	return filepath.Join(t.folder(pkg), filepath.FromSlash(file))
}

// Version returns the version of an installed package.
func (t Tree) Version(tb testing.TB, pkg string) string {
	tb.Helper()
	var m struct{ Version string }
	if err := json.Unmarshal(t.manifest(tb, pkg), &m); err != nil {
		tb.Fatalf("reading the manifest of %s: %v", pkg, err)
	}
	return m.Version
}

func (t Tree) folder(pkg string) string {
	return filepath.Join(t.Dir, "node_modules", filepath.FromSlash(pkg))
}

func (t Tree) manifest(tb testing.TB, pkg string) []byte {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join(t.folder(pkg), "package.json"))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// command reads a manifest's bin, which is a file name or a map with one entry.
func command(pkg []byte) (string, error) {
	var one struct{ Bin string }
	if json.Unmarshal(pkg, &one) == nil && one.Bin != "" {
		return one.Bin, nil
	}
	var several struct{ Bin map[string]string }
	if err := json.Unmarshal(pkg, &several); err != nil {
		return "", fmt.Errorf("reading its manifest: %w", err)
	}
	for _, file := range several.Bin {
		if len(several.Bin) == 1 {
			return file, nil
		}
	}
	return "", fmt.Errorf("its manifest names %d commands", len(several.Bin))
}
