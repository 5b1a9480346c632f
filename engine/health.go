package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/activities/toolbox"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows/turn"
)

// ServerHealth is how a tool server does. It holds no secret.
type ServerHealth = toolbox.Health

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
// none. What is older than healthStale is of a worker that is gone.
const (
	healthLook  = time.Second
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
	b, err := os.ReadFile(file)
	return w, err == nil && json.Unmarshal(b, &w) == nil
}

// tellHealth writes how this worker's servers do until ctx ends, and then takes it away. That it cannot be written stops
// no turn: it is logged once.
func (e *Engine) tellHealth(ctx context.Context) {
	if len(e.cfg.MCP.Servers) == 0 {
		return
	}
	file := filepath.Join(healthDir(e.cfg), fmt.Sprintf("%d.json", os.Getpid()))
	defer func() { _ = os.Remove(file) }()
	e.sweepHealth()
	tick := time.NewTicker(healthLook)
	defer tick.Stop()
	var last WorkerHealth
	for warned := false; ; {
		now := WorkerHealth{Worker: e.identity(), At: time.Now(), Servers: e.host.Health()}
		if now.At.Sub(last.At) >= healthEvery || !reflect.DeepEqual(now.Servers, last.Servers) {
			if err := writeHealth(file, now); err != nil && !warned {
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

// writeHealth replaces the file as a whole: a reader sees the old one or the new one.
func writeHealth(file string, w WorkerHealth) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(w)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// AskServers connects to the configured servers, asks what they offer and closes them again: for people who want to look,
// without journal, model or Temporal. The catalogues are those of the local tools and of every server.
func AskServers(ctx context.Context, cfg config.Config, opts ...Option) ([]turn.Catalogue, []ServerHealth, error) {
	e := &Engine{cfg: cfg, options: newOptions(opts)}
	e.log = e.options.log
	if err := e.openTools(ctx); err != nil {
		return nil, nil, err
	}
	catalogues := e.host.Catalogues(ctx)
	health := e.host.Health()
	return catalogues, health, e.Close()
}
