package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/everturn/everturn/engine"
)

// Main runs the command line of this process and returns its exit code.
func Main() int {
	if err := engine.HideMemory(); err != nil { // protects a worker that a command runs in this process
		fmt.Fprintln(os.Stderr, "everturn: "+err.Error())
	}
	// The buffer also holds a second Ctrl-C, with which run stops its turn.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	a := &app{
		streams: streams{in: os.Stdin, out: os.Stdout, err: os.Stderr},
		program: programName(os.Args[0]),
		environ: os.Environ(),
	}
	return a.execute(context.Background(), os.Args[1:], signals)
}

// streams are a command's standard input and outputs.
type streams struct {
	in  *os.File
	out io.Writer
	err io.Writer
}

// execute runs one command and returns the exit code.
func (a *app) execute(ctx context.Context, args []string, signals <-chan os.Signal) int {
	ctx, a.interrupts = catch(ctx, signals)
	defer a.interrupts.take()
	root := a.command()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err != nil && !a.parsed:
		err = usageError(cmd, err)
	case err != nil && context.Cause(ctx) == errInterrupted:
		err = &exitError{code: exitCancelled, cause: errInterrupted}
	}
	var exit *exitError
	if err != nil && (!errors.As(err, &exit) || exit.cause != nil) {
		fmt.Fprintln(a.err, a.withTypedCommands("everturn: "+printable(err.Error())))
	}
	return exitCode(err)
}
