package childproc

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
)

// ErrSpawnerClosed is the error of starts after Close.
var ErrSpawnerClosed = errors.New("the spawner is closed")

// Spawner forks all children from one operating-system thread, which lives until Close. On Linux the kernel sends the
// parent-death signal when the thread that forked ends, not when the process ends: a child forked by an ordinary
// goroutine would be killed when the runtime ends that goroutine's thread.
type Spawner struct {
	starts chan startRequest
	quit   chan struct{}
	ended  chan struct{}
	once   sync.Once
}

type startRequest struct {
	cmd   *exec.Cmd
	reply chan error
}

// NewSpawner returns a running Spawner.
func NewSpawner() *Spawner {
	s := &Spawner{starts: make(chan startRequest), quit: make(chan struct{}), ended: make(chan struct{})}
	go s.run()
	return s
}

// run starts the children that start requests, on its own thread. It never unlocks the thread, so that the thread ends
// with run, and the kernel then kills every remaining child.
func (s *Spawner) run() {
	runtime.LockOSThread()
	defer close(s.ended)
	for {
		select {
		case st := <-s.starts:
			st.reply <- st.cmd.Start()
		case <-s.quit:
			return
		}
	}
}

// start starts cmd on the spawner's thread.
func (s *Spawner) start(cmd *exec.Cmd) error {
	st := startRequest{cmd: cmd, reply: make(chan error, 1)}
	select {
	case s.starts <- st:
		return <-st.reply
	case <-s.quit:
		return ErrSpawnerClosed
	}
}

// Close ends the thread. Stop every Process first: the kernel kills the children that still run, without a grace
// period.
func (s *Spawner) Close() {
	s.once.Do(func() { close(s.quit) })
	<-s.ended
}
