package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"
)

// Dir is the folder of the histories, relative to the repository's root.
const Dir = "tests/testdata/histories"

// sums is the file with the SHA-256 of every kept history, in the form of sha256sum.
const sums = "SHA256SUMS"

// readme is the file that says what each kept history is.
const readme = "README.md"

// described reports whether the README of dir has one row for a history.
func described(dir, name string) (bool, error) {
	b, err := os.ReadFile(filepath.Join(dir, readme))
	return bytes.Count(b, []byte("\n| `"+name+"` | ")) == 1, err
}

// ErrKept reports that a history of this name exists. It is not changed.
var ErrKept = errors.New("a kept history is never overwritten")

// names matches valid file names: the version of the wire format and a shape.
var names = regexp.MustCompile(`^v[1-9][0-9]*-[a-z0-9_]+(-[a-z0-9_]+)*$`)

// keeping makes recording a file and its sum one step in this process.
var keeping sync.Mutex

// Keep writes a run's history to dir under a name that the README beside the kept histories describes, if it replays.
// It returns ErrKept if a history of this name exists.
func Keep(dir, name string, events []*historypb.HistoryEvent) error {
	known, err := described(dir, name)
	switch {
	case err != nil:
		return fmt.Errorf("keeping %s: %w", name, err)
	case !names.MatchString(name):
		return fmt.Errorf(
			"keeping %q: a name is the wire version and a shape, such as v1-answer, of small letters, digits, - and _", name)
	case !known:
		return fmt.Errorf("keeping %s: say first what it is, in a row of %s", name, filepath.Join(dir, readme))
	}
	if err := Run(events); err != nil {
		return fmt.Errorf(
			"keeping %s: a history that the code does not replay is of no use; record it with the code that made it: %w", name,
			err)
	}
	b, err := protojson.MarshalOptions{Indent: "  "}.Marshal(&historypb.History{Events: events})
	if err != nil {
		return fmt.Errorf("keeping %s: %w", name, err)
	}
	keeping.Lock()
	defer keeping.Unlock()
	if err := write(dir, name+".json", b); err != nil {
		return fmt.Errorf("keeping %s: %w", name, err)
	}
	return nil
}

// write creates a new file and records its sum.
func write(dir, file string, b []byte) error {
	path := filepath.Join(dir, file)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: %s is there; record under another name", ErrKept, path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	list, err := os.OpenFile(filepath.Join(dir, sums), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(list, "%s  %s\n", sum(b), file)
	return errors.Join(err, list.Close())
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// Changed returns what is wrong with the kept histories of dir: files that differ from what was recorded, that are
// missing, or that were added by hand. It is empty if nothing is wrong.
func Changed(dir string) ([]string, error) {
	recorded, err := readSums(dir)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var wrong []string
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(path)
		switch was, ok := recorded[name]; {
		case !ok:
			wrong = append(wrong, name+" has no line in "+sums+": record it with -record")
		case was != sum(b):
			wrong = append(wrong, name+" is not what was recorded: bring it back, and record a new shape under a new name")
		}
		delete(recorded, name)
	}
	for name := range recorded {
		wrong = append(wrong, name+" is gone: bring it back")
	}
	return wrong, nil
}

func readSums(dir string) (map[string]string, error) {
	b, err := os.ReadFile(filepath.Join(dir, sums))
	if err != nil {
		return nil, fmt.Errorf("reading the sums of the kept histories: %w", err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(b)) {
		hash, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok || out[name] != "" {
			return nil, fmt.Errorf("reading the sums of the kept histories: the line %q is no sum, or its file has two",
				strings.TrimSpace(line))
		}
		out[name] = hash
	}
	return out, nil
}

// Read reads a kept history.
func Read(path string) ([]*historypb.HistoryEvent, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	h, err := client.HistoryFromJSON(bytes.NewReader(b), client.HistoryJSONOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return h.Events, nil
}
