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

// Shared waits for a lock that other shared locks may hold at the same time. It creates the file.
func Shared(ctx context.Context, path string) (*Lock, error) { return acquire(ctx, path, unix.LOCK_SH) }

// Exclusive waits for a lock that is the only one. It creates the file.
func Exclusive(ctx context.Context, path string) (*Lock, error) {
	return acquire(ctx, path, unix.LOCK_EX)
}

// A lock that is taken is tried again after firstRetry, and then at growing intervals up to lastRetry: a context cannot
// interrupt a blocking flock.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 50 * time.Millisecond
)

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

// Release releases the lock, once. A nil lock is released.
func (l *Lock) Release() error {
	if l == nil || l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}
