package shell

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/statedir"
)

// record is what a file says about a job, so that its output outlives its worker.
type record struct {
	Line   string
	Ended  string // how it ended; empty while it runs
	Output string // the end of it
	From   int64  // the first byte of Output
}

// recordAge is how long the records of dead workers are kept.
const recordAge = 24 * time.Hour

// newRecord makes the file of a job's record, in the folder dir. Its number is at least from, and unique among the jobs
// of the session, also those of other workers. Without a folder there is no file.
func newRecord(dir string, o owner, from int) (number int, file string, err error) {
	if dir == "" {
		return from, "", nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, "", err
	}
	for number = from; ; number++ {
		file = recordFile(dir, o, fmt.Sprintf("job-%d", number))
		f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return number, file, errors.Join(err, f.Close())
		}
	}
}

// recordFile returns the file of the record of a session's job.
func recordFile(dir string, o owner, id string) string {
	return filepath.Join(dir, fmt.Sprintf("%.16x-%s", sha256.Sum256([]byte(o.tenant+"\x00"+o.session)), id))
}

// writeRecord records the state of a job, if it has changed.
func (one *job) writeRecord(secrets *redact.Redactor) {
	if one.record == "" || one.forgotten.Load() {
		return
	}
	r := record{Line: secrets.Mask(one.line)}
	if one.ended() {
		r.Ended = one.end
	}
	r.Output, r.From, _ = one.out.part(max(0, one.out.written()-maxJobShown), maxJobShown)
	b, err := json.Marshal(r)
	if err != nil || string(b) == one.recorded {
		return
	}
	// A record that cannot be written is missed only if the worker dies.
	if statedir.Replace(one.record, string(b)) == nil {
		one.recorded = string(b)
	}
}

// readRecord returns the record of a job of a session.
func readRecord(dir string, o owner, id string) (r record, ok bool) {
	number, isJob := strings.CutPrefix(id, "job-")
	if dir == "" || !isJob || strings.Trim(number, "0123456789") != "" {
		return r, false
	}
	b, err := os.ReadFile(recordFile(dir, o, id))
	return r, err == nil && (len(b) == 0 || json.Unmarshal(b, &r) == nil)
}

// records returns the records of a session's jobs, by their IDs.
func records(dir string, o owner) iter.Seq2[string, record] {
	return func(yield func(string, record) bool) {
		files, _ := filepath.Glob(recordFile(dir, o, "job-*")) // the only error is that of a malformed pattern
		slices.Sort(files)
		for _, file := range files {
			id := filepath.Base(file)[len(filepath.Base(recordFile(dir, o, ""))):]
			if r, ok := readRecord(dir, o, id); ok && !yield(id, r) {
				return
			}
		}
	}
}

// state says how a job of another worker ended.
func (r record) state() string {
	if r.Ended != "" {
		return r.Ended
	}
	return "unknown, because its worker has ended, or is another one"
}

// report returns the state of a job of another worker, and the end of its output.
func (r record) report(id string) string {
	next := r.From + int64(len(r.Output))
	return fmt.Sprintf("[%s: %s; bytes %d to %d of %d]\n%s", id, r.state(), r.From, next, next, r.Output)
}

// forgetRecords removes the records of workers that have died long ago.
func forgetRecords(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > recordAge {
			_ = os.Remove(filepath.Join(dir, e.Name())) // the next worker tries again
		}
	}
}
