package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/everturn/everturn/config"
)

// Folder is a folder with the content that the user is asked to trust.
type Folder struct {
	Root string // its real path
	// Content is the text of agent.toml, and Settings are the settings in it. Both are nil if the folder has none.
	Content  []byte
	Settings *config.Loaded
	environ  []string
}

// Look reads the agent.toml of a folder, if there is one, and no other file. An error in its settings is returned
// together with the folder.
func Look(dir string, environ []string) (Folder, error) {
	root, err := filepath.Abs(dir)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return Folder{}, fmt.Errorf("finding the folder: %w", err)
	}
	f := Folder{Root: root, environ: environ}
	path := filepath.Join(root, config.DefaultPath)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err == nil && !info.Mode().IsRegular():
		return f, fmt.Errorf("%s is not a regular file", path)
	}
	if f.Content, err = config.ReadFile(path); err != nil {
		return f, err
	}
	f.Settings, err = config.Written(config.DefaultPath, f.Content)
	return f, err
}

// maxFile is the maximum size of a file that is hashed, in bytes.
const maxFile = 1 << 30

// Files returns the hex SHA-256 of agent.toml, of the files that it runs and of those in the folder that it reads
// secrets from, by path. Paths of files in the folder are relative to it; others are absolute. A path of a secret that
// is not a real path has "leads to" and the real one. The map is empty if there is no agent.toml.
func (f Folder) Files() (map[string]string, error) {
	files := map[string]string{}
	if f.Settings == nil {
		return files, nil
	}
	sum := sha256.Sum256(f.Content)
	files[config.DefaultPath] = hex.EncodeToString(sum[:])
	programs, err := f.programs()
	if err != nil {
		return nil, err
	}
	for written, target := range f.secretFiles() {
		if Inside(f.Root, target) {
			programs = append(programs, target)
		}
		if target != written {
			files[written] = leadsTo + f.recordName(target)
		}
	}
	for _, path := range programs {
		hash, err := hashOf(path)
		if err != nil {
			return nil, fmt.Errorf("reading a file that agent.toml names: %w", err)
		}
		files[f.recordName(path)] = hash
	}
	return files, nil
}

// leadsTo begins the content of a link in a record. Its target follows, as the record names it.
const leadsTo = "leads to "

// hashOf returns the hex SHA-256 of a file.
func hashOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(file, maxFile+1))
	if err == nil && n > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// recordName returns the path of a file in the form of a record: relative to the folder if the file is in it.
func (f Folder) recordName(path string) string {
	if rel, ok := strings.CutPrefix(path, f.Root+string(filepath.Separator)); ok {
		return rel
	}
	return path
}

// programs returns the real paths of the regular files that MCP servers run, if they are in the folder or the
// settings name them by a relative path. It does not find files that these programs load themselves.
func (f Folder) programs() (paths []string, err error) {
	seen := map[string]bool{}
	for _, s := range f.Settings.Config.MCP.Servers {
		programs, err := Programs(s, f.Root, f.lookup)
		if err != nil {
			return nil, err
		}
		for _, p := range programs {
			target, err := filepath.EvalSymlinks(p.Path)
			if err != nil || seen[target] || !p.Relative && !Inside(f.Root, target) {
				continue
			}
			if isRegular(target) {
				seen[target] = true
				paths = append(paths, target)
			}
		}
	}
	return paths, nil
}

// secretFiles returns the files that the settings read by ${file:PATH}, by PATH: the real path of each regular file.
// The content of one in the folder can be an environment variable that decides what runs, or a URL. A link in the
// folder can lead to any file of the user.
func (f Folder) secretFiles() map[string]string {
	targets := map[string]string{}
	for _, path := range f.Settings.SecretFiles() {
		if target, err := realPath(path); err == nil && isRegular(target) {
			targets[path] = target
		}
	}
	return targets
}

// lookup returns the value of a variable in the folder's environment.
func (f Folder) lookup(name string) string { return lookup(f.environ, name) }

// lookup returns the value of an environment variable, or "" if it is not set. If the variable occurs several times,
// the last value counts.
func lookup(environ []string, name string) (value string) {
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// Inside reports whether path is folder itself or below it, after links are followed. It is false if one of them does
// not exist.
func Inside(folder, path string) bool {
	folder, err := realPath(folder)
	if err != nil {
		return false
	}
	if path, err = realPath(path); err != nil {
		return false
	}
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// realPath returns the absolute path with all links followed.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}
