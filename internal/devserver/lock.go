package devserver

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lock is an advisory lock on a file (flock(2)). The kernel releases it when its process ends, for whatever reason.
type lock struct{ f *os.File }

func shared(ctx context.Context, path string) (*lock, error) { return acquire(ctx, path, unix.LOCK_SH) }

func exclusive(ctx context.Context, path string) (*lock, error) {
	return acquire(ctx, path, unix.LOCK_EX)
}

// pollLock is the interval at which a taken lock is tried again: a context cannot interrupt a blocking flock.
const pollLock = 50 * time.Millisecond

func acquire(ctx context.Context, path string, how int) (*lock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	ticker := time.NewTicker(pollLock)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil {
			return &lock{f}, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

func (l *lock) release() error {
	if l == nil || l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}
