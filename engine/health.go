package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/everturn/everturn/activities/toolbox"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows/turn"
)

// ServerHealth is the state of a tool server. It holds no secret.
type ServerHealth = toolbox.Health

// TenantHealth is the state of a tool server for one tenant.
type TenantHealth = toolbox.TenantHealth

// The states of a server, as its worker sees it.
const (
	ServerIdle       = toolbox.StateIdle
	ServerConnecting = toolbox.StateConnecting
	ServerConnected  = toolbox.StateConnected
	ServerFailing    = toolbox.StateFailing
)

// WorkerHealth is the state of one worker's tool servers.
type WorkerHealth struct {
	Worker  string         `json:"worker"`
	At      time.Time      `json:"at"` // when the file was written
	Servers []ServerHealth `json:"servers"`
}

// A worker checks every healthLook whether the state of its servers has changed, and writes every healthEvery even if
// it has not. A file older than healthStale belongs to a worker that is gone or hangs.
const (
	healthLook  = 200 * time.Millisecond
	healthEvery = 10 * time.Second
	healthStale = 30 * time.Second
)

// maxHealthBytes bounds a file that is read, in bytes: the servers of a worker with 1 KiB of stderr each.
const maxHealthBytes = 4 << 20

// healthDir is the folder beside the journal in which the workers of one machine write the state of their servers.
func healthDir(cfg config.Config) string { return cfg.Journal.Path + ".workers" }

// Health returns the latest state of the tool servers, by worker, for all workers on this machine that share this
// journal.
func Health(cfg config.Config) ([]WorkerHealth, error) {
	files, err := os.ReadDir(healthDir(cfg))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what workers say of their tool servers: %w", err)
	}
	var out []WorkerHealth
	for _, f := range files {
		w, ok := readHealth(filepath.Join(healthDir(cfg), f.Name()))
		if age := time.Since(w.At); ok && age < healthStale && age > -healthStale {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b WorkerHealth) int { return strings.Compare(a.Worker, b.Worker) })
	return out, nil
}

// readHealth reads a worker's file. It skips a file that is being replaced or that is not a health file.
func readHealth(file string) (w WorkerHealth, ok bool) {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxHealthBytes || filepath.Ext(file) != ".json" {
		return w, false
	}
	f, err := os.Open(file)
	if err != nil {
		return w, false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxHealthBytes))
	return w, err == nil && !abandoned(f) && json.Unmarshal(b, &w) == nil
}

// abandoned reports whether the worker that wrote the file is gone. A worker keeps a lock on its file (flock(2)), which
// the kernel releases when the process ends, however it ends. On a file system without locks, the file's age decides.
func abandoned(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil
}

// tellHealth writes the state of this worker's servers until ctx ends, and then removes the file. A write error stops
// no turn: it is logged once.
func (e *Engine) tellHealth(ctx context.Context) {
	if len(e.cfg.MCP.Servers) == 0 {
		return
	}
	file := filepath.Join(healthDir(e.cfg), fmt.Sprintf("%d.json", os.Getpid()))
	var kept *os.File // holds the lock that shows that this worker is alive
	defer func() {
		_ = os.Remove(file)
		_ = kept.Close() // Close of a nil file returns an error, which does not matter
	}()
	e.sweepHealth()
	tick := time.NewTicker(healthLook)
	defer tick.Stop()
	var last WorkerHealth
	for warned := false; ; {
		now := WorkerHealth{Worker: e.identity(), At: time.Now(), Servers: e.host.Health()}
		if now.At.Sub(last.At) >= healthEvery || !reflect.DeepEqual(now.Servers, last.Servers) {
			written, err := writeHealth(file, now)
			if err == nil {
				_ = kept.Close()
				kept = written
			} else if !warned {
				e.log.Warn("telling how the tool servers do", "error", err)
				warned = true
			}
			last = now
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// sweepHealth removes the files of workers that were killed.
func (e *Engine) sweepHealth() {
	files, err := filepath.Glob(filepath.Join(healthDir(e.cfg), "*.json*"))
	if err != nil { // a path that contains a bracket
		return
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && time.Since(info.ModTime()) > time.Hour {
			_ = os.Remove(file)
		}
	}
}

// writeHealth replaces the file as a whole: a reader sees the old file or the new one, and both are locked. The caller
// closes the returned file when there is a newer one.
func writeHealth(file string, w WorkerHealth) (_ *os.File, err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	b, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(file+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) // a file system without locks: readers use the age
	if _, err = f.Write(b); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// AskServers connects to the configured servers, lists their tools and closes them again, without journal, model or
// Temporal. The catalogues are those of the local tools and of every server.
func AskServers(ctx context.Context, cfg config.Config, opts ...Option) ([]turn.Catalogue, []ServerHealth, error) {
	e := newEngine(cfg, opts)
	if err := e.openTools(ctx); err != nil {
		return nil, nil, err
	}
	catalogues := e.host.Catalogues(ctx)
	health := e.host.Health()
	return catalogues, health, e.Close()
}
