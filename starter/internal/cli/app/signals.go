package app

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// ErrInterrupted is the cause of a context that a signal has ended.
var ErrInterrupted = errors.New("interrupted")

// interrupts are the signals that ask the program to end. Until a command takes them over, the first one cancels the
// command's context, so that a build, a connection or a read from standard input ends; the next one kills the program,
// as in programs that catch no signals.
type interrupts struct {
	incoming   <-chan os.Signal
	once       sync.Once
	handedOver chan struct{}
	ended      chan struct{} // closed when the goroutine of catch has ended
}

// Catch returns a context that ends with the first signal.
func Catch(ctx context.Context, incoming <-chan os.Signal) (context.Context, *interrupts) {
	ctx, cancel := context.WithCancelCause(ctx)
	i := &interrupts{incoming: incoming, handedOver: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(i.ended)
		select {
		case <-incoming:
			cancel(ErrInterrupted)
			time.AfterFunc(sameSignalWithin, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })
		case <-i.handedOver:
		}
	}()
	return ctx, i
}

// Take hands the signals over to the caller: from now on, no signal ends the context.
func (i *interrupts) Take() <-chan os.Signal {
	i.once.Do(func() { close(i.handedOver) })
	<-i.ended
	return i.incoming
}

const (
	// sameSignalWithin is the time within which a repeated signal counts as the same one: GNU timeout signals its command
	// and then the command's process group, and a parent process may also pass on a terminal's Ctrl-C.
	sameSignalWithin = 50 * time.Millisecond
	// secondCtrlCWithin is how long the command waits for a second Ctrl-C after the first one has detached.
	secondCtrlCWithin = 3 * time.Second
)

// PressedAgain waits for another Ctrl-C and reports whether it came. Any other signal ends the wait.
func PressedAgain(signals <-chan os.Signal) bool {
	first, over := time.Now(), time.After(secondCtrlCWithin)
	for {
		select {
		case <-over:
			return false
		case s := <-signals:
			switch {
			case s != os.Interrupt:
				return false
			case time.Since(first) >= sameSignalWithin:
				return true
			}
		}
	}
}
