package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/everturn/everturn/engine"
)

// killer ends this process at its point, or holds it there.
type killer struct {
	kill, hold            trap
	armed, points, resume string
}

// trap counts how often a point is reached.
type trap struct {
	point string // "ClaimCall:after", "insert:messages"; empty for none
	nth   int

	mu   sync.Mutex
	seen int
}

// newKiller reads the points. It plants points within transactions in every connection that is opened from now on.
func newKiller(f flags) (*killer, error) {
	k := &killer{armed: f.armed, points: f.points, resume: f.resume}
	for text, t := range map[string]*trap{f.kill: &k.kill, f.hold: &k.hold} {
		if text == "" {
			continue
		}
		parts := strings.Split(text, ":")
		if len(parts) != 3 {
			return nil, fmt.Errorf("%q is not METHOD:before|after:N or insert:TABLE:N", text)
		}
		n, err := strconv.Atoi(parts[2])
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q: N counts from 1", text)
		}
		t.point, t.nth = parts[0]+":"+parts[1], n
		if parts[0] != "insert" {
			continue
		}
		if err := k.plant(parts[1]); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// reached reports whether this is the occurrence that counts.
func (t *trap) reached(point string) bool {
	if point != t.point {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen++
	return t.seen == t.nth
}

// hit is called at every point. At the point that kills it does not return; at the point that holds it returns when the
// hold is over.
func (k *killer) hit(point string) {
	if point != k.kill.point && point != k.hold.point {
		return
	}
	if _, err := os.Stat(k.armed); k.armed != "" && err != nil {
		return
	}
	if k.hold.reached(point) {
		k.note(point)
		for _, err := os.Stat(k.resume); err != nil; _, err = os.Stat(k.resume) {
			time.Sleep(time.Millisecond) // a file offers no event
		}
	}
	if k.kill.reached(point) {
		k.note(point)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // SIGKILL cannot be blocked
		select {}
	}
}

func (k *killer) note(point string) {
	if err := note(k.points, map[string]any{"point": point, "pid": os.Getpid()}); err != nil {
		fmt.Fprintln(os.Stderr, "noting the point:", err)
	}
}

// wrap makes the journal's writing methods points.
func (k *killer) wrap(s engine.Journal) engine.Journal { return &points{Journal: s, killer: k} }

// at runs a call between its two points.
func at[T any](k *killer, method string, call func() (T, error)) (T, error) {
	k.hit(method + ":before")
	out, err := call()
	k.hit(method + ":after")
	return out, err
}

// around is at for a call that returns only an error.
func (k *killer) around(method string, call func() error) error {
	_, err := at(k, method, func() (struct{}, error) { return struct{}{}, call() })
	return err
}
