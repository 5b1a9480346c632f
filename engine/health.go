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

// ServerHealth is how a tool server does. It holds no secret.
type ServerHealth = toolbox.Health

// TenantHealth is how a tool server stands with one tenant.
type TenantHealth = toolbox.TenantHealth

// The states of a server, as its worker has it.
const (
	ServerIdle       = toolbox.StateIdle
	ServerConnecting = toolbox.StateConnecting
	ServerConnected  = toolbox.StateConnected
	ServerFailing    = toolbox.StateFailing
)

// WorkerHealth is how the tool servers of one worker do.
type WorkerHealth struct {
	Worker  string         `json:"worker"`
	At      time.Time      `json:"at"` // when it was written
	Servers []ServerHealth `json:"servers"`
}

// A worker looks every healthLook whether there is news of its servers, and writes after healthEvery even if there is
// none. What is older than healthStale is of a worker that is gone, or hangs.
const (
	healthLook  = 200 * time.Millisecond
	healthEvery = 10 * time.Second
	healthStale = 30 * time.Second
)

// maxHealthBytes bounds a file that is read: the servers of a worker with a KiB of stderr each.
const maxHealthBytes = 4 << 20

// healthDir is where the workers of one machine write how their servers do: beside the journal that they share.
func healthDir(cfg config.Config) string { return cfg.Journal.Path + ".workers" }

// Health is what the workers that run on this machine with this journal last said of their tool servers, by worker.
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

// readHealth reads a worker's file. One that is being replaced, or is none of ours, is passed over.
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

// abandoned reports whether the worker that wrote the file is gone: it keeps a lock on it (flock(2)), of which the kernel
// lets go with the process, however that ends. Where the file system has no locks its age tells.
func abandoned(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil
}

// tellHealth writes how this worker's servers do until ctx ends, and then takes it away. That it cannot be written stops
// no turn: it is logged once.
func (e *Engine) tellHealth(ctx context.Context) {
	if len(e.cfg.MCP.Servers) == 0 {
		return
	}
	file := filepath.Join(healthDir(e.cfg), fmt.Sprintf("%d.json", os.Getpid()))
	var kept *os.File // with the lock that says that this worker lives
	defer func() {
		_ = os.Remove(file)
		_ = kept.Close() // nil is an error, and nothing
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

// sweepHealth takes away what workers that were killed have left.
func (e *Engine) sweepHealth() {
	files, err := filepath.Glob(filepath.Join(healthDir(e.cfg), "*.json*"))
	if err != nil { // of a path with a bracket in it
		return
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && time.Since(info.ModTime()) > time.Hour {
			_ = os.Remove(file)
		}
	}
}

// writeHealth replaces the file as a whole: a reader sees the old one or the new one, and both are locked. The caller closes
// what it returns when there is a newer one.
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
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) // where there are no locks, a reader does not go by them either
	if _, err = f.Write(b); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// AskServers connects to the configured servers, asks what they offer and closes them again: for people who want to look,
// without journal, model or Temporal. The catalogues are those of the local tools and of every server.
func AskServers(ctx context.Context, cfg config.Config, opts ...Option) ([]turn.Catalogue, []ServerHealth, error) {
	e := newEngine(cfg, opts)
	if err := e.openTools(ctx); err != nil {
		return nil, nil, err
	}
	catalogues := e.host.Catalogues(ctx)
	health := e.host.Health()
	return catalogues, health, e.Close()
}
