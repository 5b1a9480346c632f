package workspace

import (
	"context"
	"crypto/sha1" //nolint:gosec // of git objects
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"path"
	"time"

	"github.com/everturn/everturn/internal/beneath"
)

// index is what a process knows of a tree: the files of the commit, and the state of each file on disk when its content
// was found to be the commit's. While a file has that state, it need not be read again.
type index struct {
	commit string
	files  map[string]indexed
	dirs   map[string]bool // the directories that have or had such files
}

// indexed is a file of the commit. seen is zero if the file on disk has not been compared.
type indexed struct {
	entry
	seen beneath.Entry
}

// settles is how old the last change of a file must be when it is compared. A younger file could change again without
// a change of its times, whose clock has this resolution at most.
const settles = 20 * time.Millisecond

// stamp returns the state of a file for indexed.seen, or zero if the file was changed just now.
func stamp(e beneath.Entry) beneath.Entry {
	if time.Now().UnixNano()-max(e.Changed, e.Modified) < int64(settles) {
		return beneath.Entry{}
	}
	e.Name = ""
	return e
}

// same reports whether the file on disk is in the state in which it was compared.
func (i indexed) same(e beneath.Entry) bool {
	e.Name = ""
	return i.seen == e
}

func newIndex(commit string, files map[string]entry) *index {
	x := &index{commit: commit, files: make(map[string]indexed, len(files)), dirs: map[string]bool{".": true}}
	for name, e := range files {
		if isFilePath(name) {
			x.set(name, indexed{entry: e})
		}
	}
	return x
}

// set adds or replaces a file.
func (x *index) set(name string, f indexed) {
	x.files[name] = f
	for dir := path.Dir(name); !x.dirs[dir]; dir = path.Dir(dir) {
		x.dirs[dir] = true
	}
}

// indexOf returns the index of a tree for the commit. It keeps what an older index knows of files that are the same.
func (s *Store) indexOf(ctx context.Context, name, commit string) (*index, error) {
	old, ok := s.indexes.Get(name)
	if ok && old.commit == commit {
		return old, nil
	}
	files, err := s.list(ctx, commit)
	if err != nil {
		return nil, err
	}
	x := newIndex(commit, files)
	if ok {
		for file, e := range old.files {
			if now, is := x.files[file]; is && now.entry == e.entry {
				x.files[file] = e
			}
		}
	}
	s.indexes.Add(name, x)
	return x, nil
}

// blobHash returns the hash for the ID of a blob of this size. The caller writes the content to it.
func (s *Store) blobHash(size int64) hash.Hash {
	h := sha1.New() //nolint:gosec // of git objects
	if s.sha256 {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", size)
	return h
}

// blobID returns the ID of a blob.
func (s *Store) blobID(content []byte) string {
	h := s.blobHash(int64(len(content)))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}
