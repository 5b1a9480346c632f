package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/tests/replay"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := record(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// program holds the command's flags.
type program struct {
	name, workflow, run, address, namespace, dir string
	plaintext, missing                           bool
}

func parse(args []string, stderr io.Writer) (program, error) {
	var p program
	f := flag.NewFlagSet("record", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&p.name, "name", "", "the shape's name in tests/replay/shapes.go, such as v2-approval")
	f.StringVar(&p.workflow, "workflow-id", "", "the session's ID")
	f.StringVar(&p.run, "run-id", "", "the run; without it, the session's latest")
	f.StringVar(&p.address, "address", "", "host:port of the server; without it, from TEMPORAL_* or 127.0.0.1:7233")
	f.StringVar(&p.namespace, "namespace", "", "its namespace; without it, from TEMPORAL_* or default")
	f.StringVar(&p.dir, "dir", replay.Dir, "where the kept histories are")
	f.BoolVar(&p.missing, "missing", false, "print a pattern that matches the tests whose histories are missing")
	f.BoolVar(&p.plaintext, "allow-plaintext", false, "permit a server that is not on this machine without TLS")
	if err := f.Parse(args); err != nil {
		return p, err
	}
	switch {
	case p.missing:
	case p.name == "" || p.workflow == "":
		return p, errors.New("say which run and what to call it: -name v1-approval -workflow-id ID")
	case f.NArg() > 0:
		return p, fmt.Errorf("%q is no flag; an ID with spaces needs quotes", f.Arg(0))
	}
	return p, nil
}

// record fetches a run's history, keeps it and prints what is left to do.
func record(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	p, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if info, err := os.Stat(p.dir); err != nil || !info.IsDir() {
		return fmt.Errorf("there is no folder %s: run this at the repository's root, or say -dir", p.dir)
	}
	if p.missing {
		fmt.Fprintln(stdout, replay.Missing(p.dir))
		return nil
	}
	events, err := p.fetch(ctx, environ)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d events: %s\n", len(events), replay.Outline(events))
	if err := replay.Keep(p.dir, p.name, events); err != nil {
		return err
	}
	fmt.Fprintf(stdout, `kept as %s/%s.json. What is left to do:
- look through it before you commit it: a history has the user's message, previews of arguments and results, and host names;
- put the outline above into tests/replay/shapes.go, if it is not there;
- go test ./tests/replay -run TestTheReadme -update
`, p.dir, p.name)
	return nil
}

// fetchWithin bounds how long a server may take to return a history.
const fetchWithin = time.Minute

func (p program) fetch(ctx context.Context, environ []string) ([]*historypb.HistoryEvent, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	c, err := temporalconn.Dial(ctx, temporalconn.Options{Address: p.address, Namespace: p.namespace, Environ: environ,
		AllowPlaintext: p.plaintext})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var events []*historypb.HistoryEvent
	iter := c.GetWorkflowHistory(ctx, p.workflow, p.run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for iter.HasNext() {
		e, err := iter.Next()
		var notFound *serviceerror.NotFound
		if errors.As(err, &notFound) {
			return nil, fmt.Errorf("the server has no such run (%w): look with `temporal workflow list`, and mind the "+
				"namespace and how long it keeps runs", err)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the history of %s: %w", p.workflow, err)
		}
		events = append(events, e)
	}
	return events, nil
}
