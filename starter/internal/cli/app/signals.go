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

// ErrInterrupted is the cancellation cause of a context that a signal has cancelled.
var ErrInterrupted = errors.New("interrupted")

// interrupts handles the signals that end the program, SIGINT and SIGTERM. The first signal cancels the command's
// context, so that a build, a connection or a read from standard input ends; the next one kills the program, as in a
// program that catches no signals. A command that handles the signals itself calls Take.
type interrupts struct {
	incoming   <-chan os.Signal
	once       sync.Once
	handedOver chan struct{} // closed by Take
	ended      chan struct{} // closed when the goroutine of Catch has ended
}

// Catch returns a context that the first signal of incoming cancels with the cause ErrInterrupted.
func Catch(ctx context.Context, incoming <-chan os.Signal) (context.Context, *interrupts) {
	ctx, cancel := context.WithCancelCause(ctx)
	i := &interrupts{incoming: incoming, handedOver: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(i.ended)
		select {
		case <-incoming:
			cancel(ErrInterrupted)
			// From then on, the next signal kills the program. A copy of the first signal must not.
			time.AfterFunc(sameSignalWithin, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })
		case <-i.handedOver:
		}
	}()
	return ctx, i
}

// Take returns the channel of the signals, which the caller handles from now on: they no longer cancel the context of
// Catch. A signal that came before has cancelled it.
func (i *interrupts) Take() <-chan os.Signal {
	i.once.Do(func() { close(i.handedOver) })
	<-i.ended
	return i.incoming
}

const (
	// sameSignalWithin is the time within which a repeated signal counts as a copy of the first one. GNU timeout sends a
	// signal to its command and then to the command's process group, and a parent process may pass on a terminal's Ctrl-C.
	sameSignalWithin = 50 * time.Millisecond
	// secondCtrlCWithin is how long a command waits for a second Ctrl-C after the first one has detached it from its turn.
	secondCtrlCWithin = 3 * time.Second
)

// PressedAgain waits three seconds for a second Ctrl-C and reports whether the user pressed it. Another signal
// ends the wait.
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
