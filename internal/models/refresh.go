package models

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/internal/statedir"
)

// A worker fetches the list every RefreshEvery. A fetched list is reported as stale after StaleAfter, but still used.
const (
	RefreshEvery = 6 * time.Hour
	StaleAfter   = 24 * time.Hour
)

// Bounds of a list.
const (
	maxListBytes = 16 << 20
	fetchTimeout = 30 * time.Second
)

// cacheFile returns the path of the file that keeps the fetched list. It is in the folder of the journal, whose path
// is given.
func cacheFile(journal string) string { return filepath.Join(filepath.Dir(journal), "models.json") }

// Load returns the list that Keep wrote to the folder of the journal, whose path is given, or the built-in one if that
// is newer or there is no such list. If the list cannot be read, or may have come with a clone of a repository, Load
// returns the built-in list and an error.
func Load(journal string) (*List, error) {
	cache := cacheFile(journal)
	if info, err := os.Lstat(cache); err == nil && !info.Mode().IsRegular() { // a pipe would block
		return BuiltIn(), fmt.Errorf("reading the fetched list of models: %s is a link or not a file: delete it", cache)
	}
	fetched, err := Read(cache)
	if err == nil {
		err = fetched.checkOrigin(cache)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return BuiltIn(), nil
	case err != nil:
		return BuiltIn(), fmt.Errorf("reading the fetched list of models: %w", err)
	case fetched.Date < BuiltIn().Date:
		return BuiltIn(), nil
	}
	return fetched, nil
}

// checkOrigin returns an error if the list in the file cache may have come with a clone.
func (l *List) checkOrigin(cache string) error {
	if dir := filepath.Dir(cache); filepath.Base(dir) == statedir.Name && statedir.Made(dir) {
		return nil
	}
	if identity, err := statedir.Identity(cache); err != nil || identity != l.Origin {
		return fmt.Errorf("%s was not made here: delete it, or fetch a list with `everturn models update`", cache)
	}
	return nil
}

// Read returns the list in the file path.
func Read(path string) (*List, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readList(f, path)
}

// readList reads a list of at most maxListBytes from r. name is the list's file or URL, for errors.
func readList(r io.Reader, name string) (*List, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxListBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(b) > maxListBytes {
		return nil, fmt.Errorf("%s is over %d MiB, which no list of models is", name, maxListBytes>>20)
	}
	list, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return list, nil
}

// Fetch downloads the list at an HTTP URL.
func Fetch(ctx context.Context, url string) (*List, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	shown := printable.Address(url)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("fetching %s: the URL is not valid", shown)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", shown, errors.Unwrap(err)) // err itself repeats the URL, with any key
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetching %s: the server answered %s", shown, printable.Line(res.Status, 100))
	}
	return readList(res.Body, shown)
}

// Keep writes a fetched list to the folder of the journal, whose path is given, with now as the time when it was
// fetched. It refuses a list that is older than the one in use.
func Keep(list *List, journal string, now time.Time) error {
	if current, _ := Load(journal); list.Date < current.Date {
		return fmt.Errorf("the list is of %s, older than the one in use, which is of %s", list.Date, current.Date)
	}
	list.Fetched = now.UTC().Truncate(time.Second)
	cache := cacheFile(journal)
	dir := filepath.Dir(cache)
	var err error
	if filepath.Base(dir) == statedir.Name {
		err = statedir.Secure(dir)
	} else {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("keeping the list of models: %w", err)
	}
	return statedir.ReplaceWith(cache, func(identity string) ([]byte, error) {
		list.Origin = identity
		return json.Marshal(list)
	})
}

// Stale reports whether the list was fetched longer than StaleAfter before now. The built-in list is never stale.
func (l *List) Stale(now time.Time) bool {
	return !l.Fetched.IsZero() && now.Sub(l.Fetched) > StaleAfter
}
