package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/journal"
)

// probe serves /healthz and /readyz to process managers. Liveness depends on nothing outside the process: otherwise an
// outage of Temporal, the journal or a provider would restart all workers.
type probe struct {
	server *http.Server
	polls  atomic.Bool // false while the worker starts or stops
}

// readyWithin bounds the checks of a request to /readyz.
const readyWithin = 3 * time.Second

// openProbe starts to serve /healthz and /readyz if worker.health_address is set. It is one of the first steps of New,
// so that a process manager sees that the process runs while the other steps take time.
func (e *Engine) openProbe(ctx context.Context) error {
	address := e.cfg.Worker.HealthListen()
	if address == "" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening on worker.health_address: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		writeHealth(w, e.checkReady(r.Context()))
	})
	e.probe.server = &http.Server{Handler: mux, ReadHeaderTimeout: readyWithin, WriteTimeout: 2 * readyWithin}
	go func() { _ = e.probe.server.Serve(listener) }() // Close ends it
	return nil
}

// writeHealth answers a probe: {"ok": true}, or {"ok": false, "problem": "…"} with status 503.
func writeHealth(w http.ResponseWriter, problem error) {
	answer := map[string]any{"ok": problem == nil}
	w.Header().Set("Content-Type", "application/json")
	if problem != nil {
		answer["problem"] = problem.Error()
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer) // an error means that the caller has gone
}

// checkReady returns nil if the worker polls and can reach what it needs; otherwise its error, without secrets, says
// what is missing. It answers /readyz, and is the activity of the workflow Ready.
func (e *Engine) checkReady(ctx context.Context) error {
	if !e.probe.polls.Load() {
		return errors.New("the worker does not poll: it is starting or stopping")
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := e.reachable(ctx); err != nil {
		return errors.New(e.secrets.String(err.Error()))
	}
	return nil
}

// reachable returns an error if this worker cannot reach Temporal, its journal or a required MCP server, because its
// turns and calls would then wait.
func (e *Engine) reachable(ctx context.Context) error {
	if _, err := e.client.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return fmt.Errorf("asking Temporal: %w", err)
	}
	id, err := e.journal.ID(ctx)
	switch {
	case err != nil:
		return err
	case id != e.journalID:
		return fmt.Errorf("the journal has changed: %w", journal.ErrReplaced)
	}
	for _, s := range e.tools.Health() {
		if e.required(s.Server) && !s.Available() {
			return fmt.Errorf("required MCP server %s is %s: %s", s.Server, s.State, s.LastError)
		}
	}
	return nil
}

// required reports whether the MCP server with this ID is configured as required.
func (e *Engine) required(server string) bool {
	for _, s := range e.cfg.MCP.Servers {
		if s.ID == server {
			return s.Required
		}
	}
	return false
}
