package devserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
)

// portTaken is a refusal because another program uses a port. The stack may try other ports.
type portTaken struct{ *Refusal }

func (e *portTaken) Unwrap() error { return e.Refusal }

// refusePort returns a *portTaken with this reason.
func refusePort(format string, args ...any) error {
	return &portTaken{&Refusal{fmt.Sprintf(format, args...)}}
}

// The ports that a stack tries if the configured ones are taken: firstFrontend+i, for i below maxMoves, each with that
// of the Web UI. They are below the range from which the system takes ports for outgoing connections.
const (
	firstFrontend = 7234
	maxMoves      = 100
)

// startOnFreePorts starts or joins the server at o.Address. If a port is taken and o.Moved permits it,
// startOnFreePorts uses the first pair of free ports instead.
func (s *Stack) startOnFreePorts(ctx context.Context, o Options) error {
	err := s.startOrJoin(ctx, o)
	var taken *portTaken
	if o.Moved == nil || !errors.As(err, &taken) {
		return err
	}
	fmt.Fprintf(o.Progress, "%s is taken: this folder gets ports of its own\n", o.Address)
	for i := range maxMoves {
		o.Address = net.JoinHostPort("127.0.0.1", strconv.Itoa(firstFrontend+i))
		if !isFree(o.Address) || !isFree(UIAddress(o.Address)) {
			continue
		}
		if err := s.startOrJoin(ctx, o); errors.As(err, &taken) {
			continue // another program has just taken a port
		} else if err != nil {
			return err
		}
		return o.Moved(firstFrontend + i)
	}
	return fmt.Errorf("no port from %d to %d is free: %w", firstFrontend, firstFrontend+maxMoves-1, err)
}

// UIAddress returns the address of the Web UI of the development server at an address: the next thousand, as Temporal's
// own command line has it.
func UIAddress(address string) string {
	_, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port) // Ensure refuses an address without a port
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(n+1000))
}

// isFree reports whether this process could listen on the address now.
func isFree(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	return l.Close() == nil
}
