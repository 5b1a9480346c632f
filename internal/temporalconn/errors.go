package temporalconn

import (
	"errors"
	"fmt"
	"strings"

	"github.com/everturn/everturn/config"
)

// ErrUnreachable means that Temporal does not answer.
var ErrUnreachable = errors.New("no connection to Temporal")

// unreachable returns the error for an address at which no Temporal answers.
func unreachable(address string, cause error) error {
	detail := cause.Error()
	if _, dialing, ok := strings.Cut(detail, "Error while dialing: "); ok { // gRPC's text before it says nothing more
		detail = strings.TrimSuffix(dialing, `"`)
	}
	err := fmt.Errorf("no Temporal answers at %s: start one with `everturn dev`, or set [temporal] address in "+
		"agent.toml (%s)", address, detail)
	return WithKind(ErrUnreachable, WithKind(cause, err))
}

// kindError is an error with the text of one error that also is another one, for errors.Is.
type kindError struct {
	error
	kind error
}

func (e *kindError) Unwrap() []error { return []error{e.kind, e.error} }

// WithKind returns an error that has the text of err and for which errors.Is(result, kind) is true.
func WithKind(kind, err error) error { return &kindError{err, kind} }

// invalid returns an error that is config.ErrInvalid.
func invalid(format string, args ...any) error {
	return WithKind(config.ErrInvalid, fmt.Errorf(format, args...))
}
