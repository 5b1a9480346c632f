package temporalconn

import (
	"errors"
	"fmt"
	"strings"

	"github.com/everturn/everturn/config"
)

// ErrUnreachable means that Temporal does not answer.
var ErrUnreachable = errors.New("no connection to Temporal")

func unreachable(address string, cause error) error {
	detail := cause.Error()
	if _, dialing, ok := strings.Cut(detail, "Error while dialing: "); ok { // the layers of gRPC before it say nothing
		detail = strings.TrimSuffix(dialing, `"`)
	}
	err := fmt.Errorf("no Temporal answers at %s: start one with `everturn dev`, or set [temporal] address in "+
		"agent.toml (%s)", address, detail)
	return WithKind(ErrUnreachable, WithKind(cause, err))
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
