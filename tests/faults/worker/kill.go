package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/everturn/everturn/journal"
)

// killer ends this process at its point.
type killer struct {
	point         string // "ClaimCall:after", "insert:messages"; empty for none
	nth           int
	armed, points string

	mu   sync.Mutex
	seen int
}

// newKiller reads the point. Points within transactions are planted in every connection that is opened from now on.
func newKiller(f flags) (*killer, error) {
	k := &killer{armed: f.armed, points: f.points}
	if f.kill == "" {
		return k, nil
	}
	parts := strings.Split(f.kill, ":")
	if len(parts) != 3 {
		return nil, fmt.Errorf("-kill %q is not METHOD:before|after:N or insert:TABLE:N", f.kill)
	}
	n, err := strconv.Atoi(parts[2])
	if err != nil || n < 1 {
		return nil, fmt.Errorf("-kill %q: N counts from 1", f.kill)
	}
	k.point, k.nth = parts[0]+":"+parts[1], n
	if parts[0] == "insert" {
		return k, k.plant(parts[1])
	}
	return k, nil
}

// hit is called at every point. It does not return from the one that counts.
func (k *killer) hit(point string) {
	if point != k.point {
		return
	}
	if _, err := os.Stat(k.armed); k.armed != "" && err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen++; k.seen != k.nth {
		return
	}
	if err := note(k.points, map[string]any{"point": k.point, "n": k.nth, "pid": os.Getpid()}); err != nil {
		fmt.Fprintln(os.Stderr, "noting the point:", err)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // nothing can keep it
	select {}
}

// wrap makes the journal's writing methods points.
func (k *killer) wrap(s journal.Store) journal.Store { return &points{Store: s, killer: k} }

// at runs a call between its two points.
func at[T any](k *killer, method string, call func() (T, error)) (T, error) {
	k.hit(method + ":before")
	out, err := call()
	k.hit(method + ":after")
	return out, err
}
