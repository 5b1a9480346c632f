package childproc

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
)

// ErrSpawnerClosed is the error of starts after Close.
var ErrSpawnerClosed = errors.New("the spawner is closed")

// Spawner forks children from one operating-system thread that lives until Close. The kernel's parent-death signal is
// tied to the thread that forked, not to the process: a child forked by an ordinary goroutine would be killed when the
// runtime ends that goroutine's thread.
type Spawner struct {
	starts chan start
	quit   chan struct{}
	ended  chan struct{}
	once   sync.Once
}

type start struct {
	cmd   *exec.Cmd
	reply chan error
}

// NewSpawner returns a running Spawner.
func NewSpawner() *Spawner {
	s := &Spawner{starts: make(chan start), quit: make(chan struct{}), ended: make(chan struct{})}
	go s.run()
	return s
}

// run never unlocks its thread. When it returns, the thread ends, and the kernel kills every remaining child.
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

func (s *Spawner) start(cmd *exec.Cmd) error {
	st := start{cmd: cmd, reply: make(chan error, 1)}
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
