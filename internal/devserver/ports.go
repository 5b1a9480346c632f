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

// The ports that a stack tries if the configured ones are taken: firstFrontend+i with firstUI+i, for i below maxMoves.
// They are below the range from which the system takes ports for outgoing connections.
const (
	firstFrontend = 7234
	firstUI       = 8234
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
		o.Address, o.UIPort = net.JoinHostPort("127.0.0.1", strconv.Itoa(firstFrontend+i)), firstUI+i
		if !isFree(o.Address) || !isFree(uiAddress(o.UIPort)) {
			continue
		}
		if err := s.startOrJoin(ctx, o); errors.As(err, &taken) {
			continue // another program has just taken a port
		} else if err != nil {
			return err
		}
		return o.Moved(firstFrontend+i, o.UIPort)
	}
	return fmt.Errorf("no port from %d to %d is free: %w", firstFrontend, firstFrontend+maxMoves-1, err)
}

// uiAddress returns the address of the Web UI at a port.
func uiAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// isFree reports whether this process could listen on the address now.
func isFree(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	return l.Close() == nil
}
