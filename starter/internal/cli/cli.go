package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/internal/hidememory"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Main runs the command line of this process and returns its exit code.
func Main() int {
	if err := hidememory.Hide(); err != nil { // protects a worker that a command runs in this process
		fmt.Fprintln(os.Stderr, "everturn: "+err.Error())
	}
	// The buffer also holds a second Ctrl-C, with which run stops its turn.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	a := &app.App{
		Streams: app.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr},
		Program: app.ProgramName(os.Args[0]),
		Environ: os.Environ(),
	}
	return execute(context.Background(), a, os.Args[1:], signals)
}

// execute runs the command line args and returns its exit code. The first of the signals cancels the command's context,
// unless the command takes the signals over with Interrupts.Take.
func execute(ctx context.Context, a *app.App, args []string, signals <-chan os.Signal) int {
	out := &checkedWriter{Writer: a.Out}
	if !app.IsTerminal(a.Out) {
		a.Out = out
	}
	ctx, a.Interrupts = app.Catch(ctx, signals)
	a.Context = ctx
	defer a.Interrupts.Take() // ends the goroutine of Catch
	root := command(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err != nil && !a.Parsed: // cobra refused the command line
		err = app.UsageError(cmd, err)
	case err != nil && errors.Is(context.Cause(ctx), app.ErrInterrupted):
		err = &app.ExitError{Code: app.ExitCancelled, Cause: app.ErrInterrupted}
	case err == nil && out.err != nil:
		err = fmt.Errorf("writing the output: %w", out.err)
	}
	var exit *app.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.Cause != nil) { // an ExitError without a cause prints nothing
		a.Report(err, outputOf(cmd))
	}
	return app.ExitCode(err)
}

// checkedWriter keeps the first error of its Writer, because a command that could not write its whole output has
// failed.
type checkedWriter struct {
	io.Writer
	err error
}

func (w *checkedWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// outputOf returns the value of a command's --output, or "" if it has no such flag.
func outputOf(cmd *cobra.Command) string {
	if f := cmd.Flags().Lookup("output"); f != nil {
		return f.Value.String()
	}
	return ""
}
