package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Exit codes, derived from the turn's final state.
const (
	exitAnswered    = 0
	exitFailed      = 1
	exitCancelled   = 2
	exitConfig      = 3
	exitCredentials = 4
	exitUnreachable = 5
	exitWaiting     = 6 // the turn waits for a decision or an answer
	exitGuard       = 7 // guard or budget; the answer was cut, filtered or refused
	exitTimeout     = 124
)

// exitError ends the program with a code. A nil cause prints nothing, because the command has already printed
// everything.
type exitError struct {
	code  int
	cause error
}

func (e *exitError) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.cause.Error()
}

func (e *exitError) Unwrap() error { return e.cause }

func usage(format string, args ...any) error {
	return &exitError{code: exitConfig, cause: fmt.Errorf(format, args...)}
}

// asUsage turns err into a configuration error (exitConfig), unless it already has an exit code.
func asUsage(err error) error {
	var exit *exitError
	if errors.As(err, &exit) {
		return err
	}
	return &exitError{code: exitConfig, cause: err}
}

// exitCode returns the program's exit code for the error of a command.
func exitCode(err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return exitAnswered
	case errors.As(err, &exit):
		return exit.code
	case errors.Is(err, config.ErrCredentials):
		return exitCredentials
	case errors.Is(err, config.ErrInvalid), errors.Is(err, journal.ErrNewer), errors.Is(err, journal.ErrForkPoint), errors.Is(err, journal.ErrOtherTenant):
		return exitConfig
	case errors.Is(err, client.ErrUnreachable):
		return exitUnreachable
	case errors.Is(err, context.Canceled):
		return exitCancelled
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	}
	return exitFailed
}

// turnExit returns the exit code for a turn's result.
func turnExit(r workflows.Result) int {
	switch {
	case r.State == turn.StateCancelled:
		return exitCancelled
	case r.State == turn.StateWaiting:
		return exitWaiting
	case r.State == turn.StateFailed && r.Code == turn.CodeConfigInvalid:
		return exitConfig
	case r.State == turn.StateFailed && r.Code == turn.CodeLLMUnauthorized:
		return exitCredentials
	case r.State == turn.StateFailed, r.State == turn.StateClosed:
		return exitFailed
	}
	switch r.FinishReason {
	case turn.FinishAnswered, turn.FinishDuplicate:
		return exitAnswered
	case turn.FinishTimeout:
		return exitTimeout
	case turn.FinishInterrupted, turn.FinishNoMessage:
		return exitFailed
	}
	return exitGuard
}
