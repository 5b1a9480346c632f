package temporalconn

import (
	"errors"
	"fmt"

	"github.com/everturn/everturn/config"
)

// ErrUnreachable means that Temporal does not answer.
var ErrUnreachable = errors.New("no connection to Temporal")

func unreachable(address string, cause error) error {
	return WithKind(ErrUnreachable, fmt.Errorf("no Temporal answers at %s: start one with `go run ./starter dev`, add "+
		"--dev to the command, or set [temporal] address in agent.toml (%w)", address, cause))
}

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
