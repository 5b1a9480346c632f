package config

import (
	"errors"
	"fmt"
	"strings"
)

// ErrInvalid and ErrCredentials are the kinds of errors that this package returns, for errors.Is. ErrInvalid means that
// the configuration is wrong; ErrCredentials means that only secrets are missing, such as the provider's key.
var (
	ErrInvalid     = errors.New("configuration is invalid")
	ErrCredentials = errors.New("credentials are missing")
)

// maxProblems bounds how many problems one error lists; a longer list is no more useful.
const maxProblems = 50

// Problem is one mistake in a configuration and how to correct it. It never holds the value of a secret.
type Problem struct {
	// Key is the dotted key, for instance mcp.servers[0].id; empty if the problem concerns the file as a whole.
	Key string
	// Source is the origin of the value: a file, an environment variable or a flag; empty for a default.
	Source string
	// Line and Column count from 1, in characters; they are 0 if the value is not from a file.
	Line, Column int
	// Message begins with the key, if there is one.
	Message string
	// Credentials means that the only problem is a missing secret.
	Credentials bool
}

// String returns the message after its source and position, as far as they are known.
func (p Problem) String() string {
	switch {
	case p.Source == "":
		return p.Message
	case p.Line == 0:
		return p.Source + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.Source, p.Line, p.Column, p.Message)
}

// Error lists every problem of a configuration.
type Error struct{ Problems []Problem }

// Error returns the problems, one per line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	if len(lines) >= maxProblems {
		lines = append(lines, "there may be more problems; correct these first")
	}
	return strings.Join(lines, "\n")
}

// Is matches ErrCredentials if only secrets are missing, else ErrInvalid.
func (e *Error) Is(target error) bool {
	for _, p := range e.Problems {
		if !p.Credentials {
			return target == ErrInvalid
		}
	}
	return target == ErrCredentials
}

// asError returns nil if there are no problems.
func asError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &Error{Problems: problems}
}
