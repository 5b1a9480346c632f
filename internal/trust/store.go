package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/statedir"
)

// Record is the content of a folder that the user trusts.
type Record struct {
	Version int               `json:"v"`
	Root    string            `json:"root"`
	At      time.Time         `json:"trusted_at"`
	Files   map[string]string `json:"files"` // the result of Folder.Files
	// Settings are the lines of config.Loaded.Changes, to show the user what a later agent.toml changes.
	Settings []string `json:"settings,omitempty"`
	// Hashes are the other result of Changes: those of values that the lines do not show.
	Hashes map[string]string `json:"hashes,omitempty"`
}

// version is the version of the record's format.
const version = 1

// Store is the set of records, one file for each folder.
type Store struct{ dir string }

// Open returns the store of the user with this environment. It creates nothing. The store is in a folder with the
// name of the state folder, which the file tools never access, so a model cannot change it even if the workspace is
// the user's home.
func Open(environ []string) (Store, error) {
	state := lookup(environ, "XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the XDG Base Directory Specification ignores relative paths
		home := lookup(environ, "HOME")
		if !filepath.IsAbs(home) {
			return Store{}, errors.New("there is no place for what you trust: set HOME or XDG_STATE_HOME to an absolute path")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return Store{filepath.Join(state, statedir.Name, "trust")}, nil
}

// Dir returns the folder of the records.
func (s Store) Dir() string { return s.dir }

// file returns the path of the record of the folder root. Its name is a hash of root, because root contains
// separators and need not be valid UTF-8.
func (s Store) file(root string) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16])+".json")
}

// check returns an error if another user could have written records.
func (s Store) check() error {
	info, err := os.Lstat(s.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("checking the folder of what you trust: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%s is a link or not a folder: delete it", s.dir)
	case int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others may write to %s, so what it says is not trusted: make it yours with chown and chmod 700, "+
			"or delete it", s.dir)
	}
	return nil
}

// Find returns the record of the folder root, or nil if there is none.
func (s Store) Find(root string) (*Record, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return s.read(s.file(root))
}

// read reads a record, or returns nil if there is no such file.
func (s Store) read(file string) (*Record, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var r Record
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err == nil && r.Version != version {
		err = fmt.Errorf("it has the format %d", r.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what you trust from %s: %w; delete the file", file, err)
	}
	return &r, nil
}

// Trusts reports whether the user trusts the folder with its current content. A folder without an agent.toml is
// trusted if it has a record.
func (s Store) Trusts(f Folder) (bool, error) {
	r, err := s.Find(f.Root)
	if err != nil || r == nil || f.Settings == nil {
		return r != nil, err
	}
	sum := sha256.Sum256(f.Content)
	if r.Files[config.DefaultPath] != hex.EncodeToString(sum[:]) {
		return false, nil // without reading the files that the untrusted agent.toml names
	}
	files, err := f.Files()
	return err == nil && maps.Equal(r.Files, files), err
}

// Add records that the user trusts the folder with its current content, at the time at.
func (s Store) Add(f Folder, at time.Time) error {
	files, err := f.Files()
	if err != nil {
		return err
	}
	r := Record{Version: version, Root: f.Root, At: at.UTC().Truncate(time.Second), Files: files}
	if f.Settings != nil {
		r.Settings, r.Hashes = f.Settings.Changes()
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("creating the folder of what you trust: %w", err)
	}
	if err := s.check(); err != nil {
		return err
	}
	if err := statedir.Replace(s.file(f.Root), string(b)+"\n"); err != nil {
		return fmt.Errorf("writing what you trust: %w", err)
	}
	return nil
}

// Remove removes the record of the folder root and reports whether there was one. The folder need not exist.
func (s Store) Remove(root string) (bool, error) {
	err := os.Remove(s.file(root))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// List returns all records, sorted by the path of their folder.
func (s Store) List() ([]Record, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []Record
	for _, file := range files {
		if filepath.Ext(file.Name()) != ".json" {
			continue
		}
		r, err := s.read(filepath.Join(s.dir, file.Name()))
		if err != nil {
			return nil, err
		}
		if r != nil {
			all = append(all, *r)
		}
	}
	slices.SortFunc(all, func(a, b Record) int { return strings.Compare(a.Root, b.Root) })
	return all, nil
}
