package cluster

import (
	"errors"
	"fmt"

	"github.com/everturn/everturn/config"
)

// Unreachable reports that no Temporal server answers at an address.
type Unreachable struct {
	Address string
	Cause   error
}

func (e *Unreachable) Error() string {
	return fmt.Sprintf("no Temporal answers at %s: start one with `go run ./starter dev`, add --dev to the command, or set [temporal] address in agent.toml (%v)", e.Address, e.Cause)
}

// Unwrap makes the error ErrUnreachable.
func (e *Unreachable) Unwrap() []error { return []error{ErrUnreachable, e.Cause} }

// ErrUnreachable means that Temporal does not answer.
var ErrUnreachable = errors.New("no connection to Temporal")

// kindError is an error with its own text that is also another one.
type kindError struct {
	error
	kind error
}

func (e *kindError) Unwrap() []error { return []error{e.kind, e.error} }

// WithKind returns an error that reads like err and is also kind, for errors.Is.
func WithKind(kind, err error) error { return &kindError{err, kind} }

func invalid(format string, args ...any) error {
	return WithKind(config.ErrInvalid, fmt.Errorf(format, args...))
}
