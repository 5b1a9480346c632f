package tests

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/statedir"
	"github.com/everturn/everturn/internal/temporalconn"
)

// someRepos returns the repositories that the flags name, or small ones of the same kinds.
func someRepos(t *testing.T) (dirs []string) {
	t.Helper()
	if *codingRepos != "" {
		return strings.Split(*codingRepos, ",")
	}
	at := t.TempDir()
	kinds := map[string]map[string]string{
		"module": {"go.mod": "module example.org/module\n\ngo 1.21\n", "doc.go": "package module\n"},
		"package": {"package.json": `{"name":"package","version":"1.0.0","scripts":{"test":"node --test"}}`,
			"test.js": "const { describe, it } = require('node:test');\nconst assert = require('assert');\n"},
		"pages": pages(500),
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		files := kinds[name]
		dir := filepath.Join(at, name)
		files["README.md"] = "# " + name + "\n"
		for path, text := range files {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644))
		}
		for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=Ann", "-c", "user.email=ann@example.org",
			"commit", "-qm", "begin"}} {
			out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// pages returns the files of a repository with n pages and a script that lists those with a wrong title.
func pages(n int) map[string]string {
	files := map[string]string{"scripts/wrong-filename.py": `from pathlib import Path
wrong = [p for p in Path("pages").rglob("*.md") if p.open().readline().strip() != "# " + p.stem.replace("-", " ")]
Path("inconsistent-filenames.txt").write_text("".join(f"{p}\n" for p in wrong))
`}
	for i := range n {
		files[fmt.Sprintf("pages/common/page-%d.md", i)] = fmt.Sprintf("# page %d\n", i)
	}
	return files
}

// cloned clones the last commit of a repository, as most users do.
func cloned(t *testing.T, source, dir string) {
	t.Helper()
	source, err := filepath.Abs(source)
	require.NoError(t, err)
	out, err := exec.Command("git", "clone", "-q", "--depth", "1", "file://"+source, dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// shareCache lets the commands in a workspace use the cache of the tests of package sandbox: a compiler that has to fill
// an empty one takes a minute.
func shareCache(t *testing.T, dir string, environ []string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	state, _ := temporalconn.Environ(environ).LookupEnv("XDG_STATE_HOME")
	cache := filepath.Join(os.TempDir(), fmt.Sprintf("everturn-sandbox-cache-%d", os.Geteuid()))
	sum := sha256.Sum256([]byte(dir))
	at := filepath.Join(state, statedir.Name, "commands", hex.EncodeToString(sum[:8]))
	require.NoError(t, errors.Join(os.MkdirAll(cache, 0o700), os.MkdirAll(filepath.Dir(at), 0o700), os.Symlink(cache, at)))
}

// snapshot describes every file of a directory: its mode, time and content.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var content []byte
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			content = []byte(target)
		} else if content, err = os.ReadFile(p); err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		found[rel] = fmt.Sprintf("%s %d %x", info.Mode(), info.ModTime().UnixNano(), sha256.Sum256(content))
		return err
	}))
	return found
}
