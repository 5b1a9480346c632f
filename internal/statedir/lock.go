package statedir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Lock is an advisory lock on a file (flock(2)). The kernel releases it when its process ends, for whatever reason. The
// file stays: if it were removed, two processes could hold locks on two files of the same name.
type Lock struct{ f *os.File }

// Shared waits until no process holds an exclusive lock on the file, and takes a shared lock. It creates the file if
// necessary.
func Shared(ctx context.Context, path string) (*Lock, error) { return acquire(ctx, path, unix.LOCK_SH) }

// Exclusive waits until no other process holds a lock on the file, and takes an exclusive lock. It creates the file
// if necessary.
func Exclusive(ctx context.Context, path string) (*Lock, error) {
	return acquire(ctx, path, unix.LOCK_EX)
}

// While another process holds the lock, acquire tries again after firstRetry and then at growing intervals up to
// lastRetry, because a context cannot interrupt a blocking flock.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 50 * time.Millisecond
)

// acquire waits for a lock. how is unix.LOCK_SH or unix.LOCK_EX.
func acquire(ctx context.Context, path string, how int) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil {
			return &Lock{f}, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return nil, fmt.Errorf("locking %s: %w", path, errors.Join(err, f.Close()))
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			_ = f.Close() // nothing was written
			return nil, context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// File returns the locked file. A child process that inherits it holds the lock until its own end, even if this process
// ends before.
func (l *Lock) File() *os.File { return l.f }

// Release releases the lock. It does nothing if l is nil or was released before.
func (l *Lock) Release() error {
	if l == nil || l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}
