package devserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// oldestServer is the oldest server version that turns were tested on. They need update-with-start, summaries and
// current details.
var oldestServer = [2]int{1, 27}

// FindTemporal finds a `temporal` binary: the one on PATH if it is recent enough, otherwise the version that
// tools/go.mod pins, which is built on first use. why says which one it is.
func FindTemporal(ctx context.Context, o Options) (path, why string, err error) {
	passed := ""
	if found := lookPath(o.Environ, "temporal"); found != "" {
		version, err := binaryVersion(ctx, o, found)
		if err == nil && recent(version) {
			return found, fmt.Sprintf("temporal on PATH, server %s", version), nil
		}
		passed = fmt.Sprintf("; %s was passed over: its server is %q and %d.%d is the oldest that does", found, version,
			oldestServer[0], oldestServer[1])
	}
	if lookPath(o.Environ, "go") == "" {
		return "", "", fmt.Errorf("there is neither a `temporal` on PATH to start nor a Go to build one with%s: install "+
			"the Temporal CLI (https://docs.temporal.io/cli)", passed)
	}
	if root, err := sourceRoot(); err == nil {
		path, err = build(ctx, o, root)
		return path, "built from tools/go.mod" + passed, err
	}
	path, err = install(ctx, o)
	return path, "built from " + pinned + passed, err
}

// lookPath is exec.LookPath for the given environment.
func lookPath(environ []string, name string) string {
	for _, kv := range environ {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			file := filepath.Join(dir, name)
			if info, err := os.Stat(file); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() &&
				info.Mode()&0o111 != 0 {
				return file
			}
		}
	}
	return ""
}

var serverInVersion = regexp.MustCompile(`(?i)server\s+(\d+\.\d+\.\d+)`)

// binaryVersion returns the version of the server in a temporal binary.
func binaryVersion(ctx context.Context, o Options, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = allowed(o.Environ)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w", path, err)
	}
	m := serverInVersion.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s --version names no server", path)
	}
	return string(m[1]), nil
}

func recent(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (major > oldestServer[0] || major == oldestServer[0] && minor >= oldestServer[1])
}

const module = "module github.com/everturn/everturn\n"

// sourceRoot returns the clone of Everturn that this program was built from, if it still exists. The working directory
// is not considered: it may be an untrusted repository whose tools/go.mod names another program as the server.
func sourceRoot() (string, error) {
	_, file, _, _ := runtime.Caller(0) // a relative path if the program was built with -trimpath
	root := filepath.Join(filepath.Dir(file), "..", "..")
	b, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err == nil {
		_, err = os.Stat(filepath.Join(root, "tools", "go.mod")) // the module cache does not have this file
	}
	if !filepath.IsAbs(file) || err != nil || !bytes.HasPrefix(b, []byte(module)) {
		return "", errors.New("this program was not built from a clone of Everturn that is still there")
	}
	return root, nil
}

// build builds the server that tools/go.mod pins, or finds it in Go's build cache, and returns its path.
func build(ctx context.Context, o Options, root string) (string, error) {
	return runGo(ctx, o, root, nil, "tool", "-modfile=tools/go.mod", "-n", "temporal")
}

// pinned is the version that a program outside a clone builds: the version of tools/go.mod (a test compares them).
const pinned = "github.com/temporalio/cli/cmd/temporal@v1.5.1"

// install builds the same server into the user's cache folder. It does not use the state folder, because a program
// there may have come with a repository.
func install(ctx context.Context, o Options) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache folder: %w", err)
	}
	bin := filepath.Join(cache, "everturn", path.Base(pinned))
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return "", fmt.Errorf("creating the folder of the Temporal server: %w", err)
	}
	server := filepath.Join(bin, "temporal")
	if _, err := os.Stat(server); err == nil {
		return server, nil
	}
	_, err = runGo(ctx, o, bin, []string{"GOBIN=" + bin}, "install", pinned)
	return server, err
}

// runGo runs the go command, reports progress and returns what the command prints.
func runGo(ctx context.Context, o Options, dir string, environ []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(allowed(o.Environ, buildVariables...), environ...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	done := showProgress(o)
	err := cmd.Run()
	done()
	if err != nil {
		return "", fmt.Errorf("building the pinned Temporal server: %w\n%s", err, tail(bytes.NewReader(problems.Bytes()),
			2000))
	}
	return strings.TrimSpace(out.String()), nil
}

// showProgress reports every five seconds that a build is running; a cached build ends before the first report.
func showProgress(o Options) (done func()) {
	began, quit, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(5 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				fmt.Fprintf(o.Progress, "building the Temporal server (the first time takes about 4 minutes on two cores): %s\n",
					time.Since(began).Round(time.Second))
			}
		}
	}()
	return func() { close(quit); <-ended }
}
