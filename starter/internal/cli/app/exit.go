package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Exit codes, derived from the turn's final state.
const (
	ExitAnswered    = 0
	ExitFailed      = 1
	ExitCancelled   = 2
	ExitConfig      = 3
	ExitCredentials = 4
	ExitUnreachable = 5 // Temporal, the workers or the journal; or the journal cannot be written
	ExitWaiting     = 6 // the turn waits for a decision or an answer
	ExitLimit       = 7 // limit or budget; the answer was cut, filtered or refused
	ExitTimeout     = 124
)

// ExitError is a command's error that sets the exit code. If Cause is nil, nothing more is printed, because the command
// has already printed everything.
type ExitError struct {
	Code  int
	Cause error
}

func (e *ExitError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Cause.Error()
}

func (e *ExitError) Unwrap() error { return e.Cause }

// Usage returns a configuration error (ExitConfig).
func Usage(format string, args ...any) error {
	return &ExitError{Code: ExitConfig, Cause: fmt.Errorf(format, args...)}
}

// AsUsage turns err into a configuration error (ExitConfig), unless it already has an exit code.
func AsUsage(err error) error {
	var exit *ExitError
	if errors.As(err, &exit) {
		return err
	}
	return &ExitError{Code: ExitConfig, Cause: err}
}

// ExitCode returns the program's exit code for the error of a command.
func ExitCode(err error) int {
	var exit *ExitError
	switch {
	case err == nil:
		return ExitAnswered
	case errors.As(err, &exit):
		return exit.Code
	case errors.Is(err, config.ErrCredentials):
		return ExitCredentials
	case errors.Is(err, config.ErrInvalid), errors.Is(err, client.ErrNewer), errors.Is(err, client.ErrForkPoint),
		errors.Is(err, client.ErrOtherTenant):
		return ExitConfig
	case errors.Is(err, client.ErrUnreachable), errors.Is(err, client.ErrUnavailable), errors.Is(err, client.ErrReadOnly):
		return ExitUnreachable
	case errors.Is(err, context.Canceled):
		return ExitCancelled
	case errors.Is(err, context.DeadlineExceeded):
		return ExitTimeout
	}
	return ExitFailed
}

// TurnExit returns the exit code for a turn's result. Every finish reason that it does not list is a limit.
func TurnExit(r workflows.Result) int {
	switch {
	case r.State == turn.StateCancelled:
		return ExitCancelled
	case r.State == turn.StateWaiting:
		return ExitWaiting
	case r.State == turn.StateFailed && (r.Code == turn.CodeConfigInvalid || r.Code == turn.CodeInputInvalid):
		return ExitConfig
	case r.State == turn.StateFailed && r.Code == turn.CodeLLMUnauthorized:
		return ExitCredentials
	case r.State == turn.StateFailed, r.State == turn.StateClosed:
		return ExitFailed
	}
	switch r.FinishReason {
	case turn.FinishAnswered, turn.FinishDuplicate:
		return ExitAnswered
	case turn.FinishTimeout:
		return ExitTimeout
	case turn.FinishInterrupted, turn.FinishNoMessage:
		return ExitFailed
	}
	return ExitLimit
}

// ErrDetached ends a command that has stopped to follow a turn, which continues. The exit code is ExitAnswered.
var ErrDetached = &ExitError{Code: ExitAnswered}

// errorCodes name the exit codes in JSON.
var errorCodes = map[int]string{ExitFailed: "failed", ExitCancelled: "cancelled", ExitConfig: "config_invalid",
	ExitCredentials: "credentials", ExitUnreachable: "unreachable", ExitWaiting: "waiting", ExitLimit: "limit_exceeded",
	ExitTimeout: "timeout"}

// errorRecord is an error as -o json prints it.
type errorRecord struct {
	Version int    `json:"v"`
	Error   string `json:"error"` // one of errorCodes
	Exit    int    `json:"exit"`
	Message string `json:"message"`
}

// Report prints the error of a command on stderr: as JSON if output, the value of its flag --output, is a JSON format,
// and otherwise as text.
func (a *App) Report(err error, output string) {
	message, exit := a.WithTypedCommands(Printable(err.Error())), ExitCode(err)
	if output == OutputJSON || output == OutputJSONL {
		// an error of writing to stderr cannot be reported
		_ = WriteJSON(a.Err, errorRecord{workflows.WireVersion, errorCodes[exit], exit, message})
		return
	}
	name := "everturn:"
	if a.Colored(a.Err) {
		name = faultStyle.Render(name)
	}
	fmt.Fprintln(a.Err, name+" "+message)
}
