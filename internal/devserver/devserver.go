package devserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/everturn/everturn/internal/loopback"
	"github.com/everturn/everturn/internal/statedir"
)

// Options describe the development server to join or start.
type Options struct {
	Dir       string // the state folder, with the server's database, logs and locks
	Address   string // host:port of the frontend; must be on loopback
	Namespace string
	Progress  io.Writer // receives messages for the user
	Environ   []string  // "NAME=value", from which the server's environment is taken
	// CodecURL is the address of a codec server for the Web UI; empty means none.
	CodecURL string
	// Started and Joined are called with the server's address once the server answers: Started if Ensure has started
	// it, Joined if it was running before. Prepare is called after either, and prepares the namespace for use. All
	// three may be nil. They run under the start lock, and Ensure returns their errors. Joined returns a *Refusal if
	// the server belongs to another folder.
	Started, Joined, Prepare func(ctx context.Context, address string) error
	// Moved permits other ports of 127.0.0.1 if those of Address and of the Web UI are taken. It is called with
	// the port of the server that was started or joined. If it is nil, taken ports are an error.
	Moved func(port int) error
}

// Refusal means that the options cannot work until the user changes them. Nothing was started.
type Refusal struct{ Reason string }

func (e *Refusal) Error() string { return e.Reason }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// Stack is a running development server that this process uses.
type Stack struct {
	Address string
	UIURL   string
	// Reason is a message for the user: which server this is, and whether it was started or joined.
	Reason string

	lock *statedir.Lock
}

// readyWithin bounds how long a started server may take to answer.
const readyWithin = 60 * time.Second

// Ensure joins the server that listens on o.Address, or starts one. The caller must close the stack: a server that
// Ensure has started stops when its last user closes it. The error is a *Refusal if the options cannot work.
func Ensure(ctx context.Context, o Options) (*Stack, error) {
	if !loopback.Address(o.Address) {
		return nil, refuse("--dev never uses a Temporal that is not on this machine, and the configuration says %s: leave "+
			"--dev out, or remove [temporal] address", o.Address)
	}
	if err := statedir.Secure(o.Dir); err != nil {
		return nil, err
	}
	starting, err := statedir.Exclusive(ctx, filepath.Join(o.Dir, "start.lock"))
	if err != nil {
		return nil, fmt.Errorf("waiting for another command that brings the stack up: %w", err)
	}
	defer starting.Release()
	s := &Stack{}
	// A supervisor that is stopping holds the lock exclusively, so joining waits until the supervisor has ended.
	if s.lock, err = statedir.Shared(ctx, lockFile(o.Dir)); err != nil {
		return nil, fmt.Errorf("joining the stack: %w", err)
	}
	if err := s.startOnFreePorts(ctx, o); err != nil {
		s.Close()
		return nil, err
	}
	fmt.Fprintln(o.Progress, s.Reason)
	return s, nil
}

// startOrJoin finds the server that listens on o.Address, or starts one, and prepares its namespace. The error is a
// *portTaken if other ports might work.
func (s *Stack) startOrJoin(ctx context.Context, o Options) error {
	s.Address, s.UIURL = o.Address, "http://"+UIAddress(o.Address)
	state, version := probe(ctx, o.Address)
	hook := o.Joined
	switch state {
	case otherListener:
		return refusePort("something that is not Temporal listens on %s: stop it, or choose another port with [temporal] "+
			"address in agent.toml", o.Address)
	case temporalListener:
		s.Reason = fmt.Sprintf("using the Temporal server %s that already listens on %s", version, o.Address)
	case noListener:
		// Without Moved, the failed start below reports the taken port.
		if o.Moved != nil && !isFree(UIAddress(o.Address)) {
			return refusePort("another program listens on %s, the address of the Web UI: stop it, or choose another port with "+
				"[temporal] address in agent.toml", UIAddress(o.Address))
		}
		binary, why, err := FindTemporal(ctx, o)
		if err != nil {
			return err
		}
		if err := start(ctx, o, binary); err != nil {
			// Another program may have taken a port since the checks above.
			if o.Moved != nil && ctx.Err() == nil && (!isFree(o.Address) || !isFree(UIAddress(o.Address))) {
				return refusePort("%v", err)
			}
			return err
		}
		s.Reason = fmt.Sprintf("started a Temporal server on %s (%s)", o.Address, why)
		hook = o.Started
	}
	err := callHooks(ctx, o.Address, hook, o.Prepare)
	var foreign *Refusal // from o.Joined: the server belongs to another folder
	if state == temporalListener && errors.As(err, &foreign) {
		return &portTaken{foreign}
	}
	return err
}

// callHooks calls the hooks that are not nil, in order, with the server's address.
func callHooks(ctx context.Context, address string, hooks ...func(context.Context, string) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for _, hook := range hooks {
		if hook == nil {
			continue
		}
		if err := hook(ctx, address); err != nil {
			return fmt.Errorf("preparing the namespace: %w", err)
		}
	}
	return nil
}

// Close releases this process's lock on the server, which stops if no other process holds one.
func (s *Stack) Close() error { return s.lock.Release() }

func lockFile(dir string) string { return filepath.Join(dir, "stack.lock") }
