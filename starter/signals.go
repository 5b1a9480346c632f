package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// errInterrupted is the cause of a context that a signal has ended.
var errInterrupted = errors.New("interrupted")

// interrupts are the signals that ask the program to end. Until a command takes them over the first one cancels its
// context, so that a build, a connection or a read from standard input ends with it; the next one kills, as it does in
// programs that catch none.
type interrupts struct {
	incoming <-chan os.Signal
	once     sync.Once
	taken    chan struct{}
	gone     chan struct{} // the watcher is
}

// catch returns a context that ends with the first signal.
func catch(ctx context.Context, incoming <-chan os.Signal) (context.Context, *interrupts) {
	ctx, cancel := context.WithCancelCause(ctx)
	i := &interrupts{incoming: incoming, taken: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer close(i.gone)
		select {
		case <-incoming:
			cancel(errInterrupted)
			time.AfterFunc(twin, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })
		case <-i.taken:
		}
	}()
	return ctx, i
}

// take hands the signals over to the caller: from now on none of them ends the context.
func (i *interrupts) take() <-chan os.Signal {
	i.once.Do(func() { close(i.taken) })
	<-i.gone
	return i.incoming
}

const (
	// twin is how soon after a signal the same one is no second one: GNU timeout signals its command and then the group
	// that the command is in, and a terminal's Ctrl-C may be passed on by a parent besides.
	twin = 50 * time.Millisecond
	// stopAgain is how long a second Ctrl-C is waited for after the first one has detached.
	stopAgain = 3 * time.Second
)

// pressedAgain waits for another Ctrl-C. Any other signal is no answer but the end of the wait.
func pressedAgain(signals <-chan os.Signal) bool {
	first, over := time.Now(), time.After(stopAgain)
	for {
		select {
		case <-over:
			return false
		case s := <-signals:
			switch {
			case s != os.Interrupt:
				return false
			case time.Since(first) >= twin:
				return true
			}
		}
	}
}
