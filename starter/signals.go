package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
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
			signal.Reset(os.Interrupt, syscall.SIGTERM)
			cancel(errInterrupted)
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
