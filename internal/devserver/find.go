package devserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everturn/everturn/tools"
)

// oldestServer is the oldest server version, major and minor, that is used from PATH. The SQLite driver of servers up
// to 1.29 fails every statement after one that was interrupted, and servers before 1.31 may give a task to a worker
// that is stopping.
var oldestServer = [2]int{1, 31}

// FindTemporal returns the path of a `temporal` binary: the one on PATH if its server is recent enough, otherwise the
// version that tools/temporal.mod pins, which is built on first use. why describes the choice for the user.
func FindTemporal(ctx context.Context, o Options) (path, why string, err error) {
	if found := lookPath(o.Environ, "temporal"); found != "" {
		version, err := binaryVersion(ctx, o, found)
		if err == nil && isRecent(version) {
			return found, fmt.Sprintf("temporal on PATH, server %s", version), nil
		}
		reason := "its server is " + version
		if err != nil {
			reason = err.Error()
		}
		fmt.Fprintf(o.Progress, "%s is not used (%s): --dev needs a server from %d.%d on\n", found, reason,
			oldestServer[0], oldestServer[1])
	}
	path, err = install(ctx, o)
	return path, "built from " + command, err
}

// lookPath returns the path of the executable name on the PATH of environ, or "" if there is none. It ignores relative
// folders. exec.LookPath would use the PATH of this process.
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

// binaryVersion returns the version of the server in a temporal binary, such as "1.29.0".
func binaryVersion(ctx context.Context, o Options, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = allowedVariables(o.Environ)
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

// isRecent reports whether a server version is oldestServer or newer.
func isRecent(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (major > oldestServer[0] || major == oldestServer[0] && minor >= oldestServer[1])
}

// command is the package of the Temporal CLI, which contains the server.
const command = "github.com/temporalio/cli/cmd/temporal"

// install returns the path of the server that tools/temporal.mod pins, in the user's cache folder. It builds the
// server if it is not there. The state folder would not be safe, because a program there may have come with a
// repository.
func install(ctx context.Context, o Options) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache folder: %w", err)
	}
	sum := sha256.Sum256(slices.Concat(tools.TemporalMod, tools.TemporalSum))
	dir := filepath.Join(cache, "everturn", "temporal-"+hex.EncodeToString(sum[:6]))
	server := filepath.Join(dir, "temporal")
	if _, err := os.Stat(server); err == nil {
		return server, nil
	}
	if lookPath(o.Environ, "go") == "" {
		return "", fmt.Errorf("there is neither a recent `temporal` on PATH nor a Go to build one: install the Temporal CLI "+
			"(https://docs.temporal.io/cli) with a server from %d.%d on", oldestServer[0], oldestServer[1])
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", fmt.Errorf("creating the folder of the Temporal server: %w", err)
	}
	// Another process may build the same server: each has a folder of its own until the server is complete.
	building, err := os.MkdirTemp(filepath.Dir(dir), "building-")
	if err != nil {
		return "", fmt.Errorf("creating the folder of the Temporal server: %w", err)
	}
	defer os.RemoveAll(building)
	if err := errors.Join(os.WriteFile(filepath.Join(building, "go.mod"), tools.TemporalMod, 0o600),
		os.WriteFile(filepath.Join(building, "go.sum"), tools.TemporalSum, 0o600)); err != nil {
		return "", fmt.Errorf("writing the module of the Temporal server: %w", err)
	}
	if err := runGo(ctx, o, building, "build", "-o", filepath.Base(server), command); err != nil {
		return "", err
	}
	if err := os.Rename(building, dir); err != nil {
		// The rename fails if another process was faster. Its server is the same.
		if _, there := os.Stat(server); there != nil {
			return "", fmt.Errorf("installing the Temporal server: %w", err)
		}
	}
	return server, nil
}

// runGo runs the go command in dir. Meanwhile it reports progress to the user.
func runGo(ctx context.Context, o Options, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(allowedVariables(o.Environ, buildVariables...), "GOWORK=off")
	var problems bytes.Buffer
	cmd.Stderr = &problems
	done := showProgress(o.Progress)
	err := cmd.Run()
	done()
	if err != nil {
		return fmt.Errorf("building the pinned Temporal server: %w\n%s", err, tail(bytes.NewReader(problems.Bytes()), 2000))
	}
	return nil
}

// showProgress tells the user every five seconds that a build is running, until done is called. On a terminal, each
// message replaces the one before.
func showProgress(w io.Writer) (done func()) {
	began, quit, ended := time.Now(), make(chan struct{}), make(chan struct{})
	before, after, end := "", "\n", ""
	if isTerminal(w) {
		const eraseLine = "\r\x1b[K"
		before, after, end = eraseLine, "", eraseLine
	}
	go func() {
		defer close(ended)
		ticker := time.NewTicker(5 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				fmt.Fprint(w, end)
				return
			case <-ticker.C:
				fmt.Fprintf(w, "%sbuilding the Temporal server (once; up to 4 minutes on two cores): %s%s", before,
					time.Since(began).Round(time.Second), after)
			}
		}
	}()
	return func() { close(quit); <-ended }
}

// isTerminal reports whether w is a terminal or another character device.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
