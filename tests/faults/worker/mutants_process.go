//go:build mutants

package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// childLeft starts a process that outlives the worker.
type childLeft struct {
	mutant
	once sync.Once
}

func (m *childLeft) Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error) {
	m.once.Do(func() {
		// The process names the harness's folder, as every child of the worker does. It ends by itself, later than the
		// slowest schedule.
		cmd := exec.Command("sh", "-c", "sleep 600; : "+filepath.Dir(m.cfg.Runtime.Workspace))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = cmd.Start() // without it the mutant is not caught
	})
	return m.Journal.Begin(ctx, in)
}

// goroutinesLeft leaves a goroutine behind with every turn.
type goroutinesLeft struct{ mutant }

func (m *goroutinesLeft) Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error) {
	for range 4 {
		go func() { select {} }()
	}
	return m.Journal.Begin(ctx, in)
}
