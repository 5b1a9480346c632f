package config

import (
	"errors"
	"fmt"
	"strings"
)

// ErrInvalid and ErrCredentials are what errors.Is finds in every error of this package: the configuration is wrong,
// or it is right but lacks a key to the chosen provider.
var (
	ErrInvalid     = errors.New("configuration is invalid")
	ErrCredentials = errors.New("credentials are missing")
)

// maxProblems bounds what is reported at once; nobody reads more.
const maxProblems = 50

// Problem is one thing that is wrong, with what to do about it. It never holds the value of a secret.
type Problem struct {
	// Key is the dotted key, for instance mcp.servers[0].id; empty where the file as a whole is meant.
	Key string
	// Source is where the value came from: a file, an environment variable, a flag; empty for a default.
	Source string
	// Line and Column count from 1, in characters; 0 where there is no file.
	Line, Column int
	// Message begins with the key where there is one.
	Message string
	// Credentials says that nothing but a secret is missing.
	Credentials bool
}

func (p Problem) String() string {
	switch {
	case p.Source == "":
		return p.Message
	case p.Line == 0:
		return p.Source + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.Source, p.Line, p.Column, p.Message)
}

// Error is everything that is wrong with a configuration.
type Error struct{ Problems []Problem }

// Error lists the problems, one a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	if len(lines) >= maxProblems {
		lines = append(lines, "there may be more; mend these first")
	}
	return strings.Join(lines, "\n")
}

// Is matches ErrCredentials where secrets are all that is missing, else ErrInvalid.
func (e *Error) Is(target error) bool {
	for _, p := range e.Problems {
		if !p.Credentials {
			return target == ErrInvalid
		}
	}
	return target == ErrCredentials
}

// asError returns nil for no problems.
func asError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &Error{Problems: problems}
}
