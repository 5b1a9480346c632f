package shell

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/activities/tools/shell/proxy"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/sandbox"
	"github.com/everturn/everturn/workflows/turn"
)

// Options configure the tool.
type Options struct {
	Sandbox *sandbox.Sandbox
	Places  Places
	// Where describes the place for the model: "the workspace; it can write only to build".
	Where   string
	Timeout time.Duration
	// Before is how long In may take before it calls run.
	Before time.Duration
	// Trusted means that the authors of what is there may run commands.
	Trusted bool
	// Ended reports whether a turn has ended; its jobs then end, too. It is nil if that is unknown.
	Ended func(ctx context.Context, turnID string) bool
	// Proxy says which hosts commands reach, if the sandbox has the network NetworkProxy.
	Proxy proxy.Options
	// Records is a folder for what is kept of jobs if their worker dies. Empty means that nothing is kept.
	Records string

	secrets   *redact.Redactor
	isolation string // for the model
}

// Places gives each command the place in which it runs. Contexts are those of calls: see tools.CallInfo.
type Places interface {
	// In runs a command by calling run with the place of the call, and returns its result. title says what is run, in one
	// line.
	In(ctx context.Context, title string, run func(sandbox.Place) (string, error)) (string, error)
	// StartJob is like In, for a call whose command goes on after run has returned, for atMost at the longest. When it has
	// ended, JobEnded must be called with the context of the same call.
	StartJob(ctx context.Context, title string, atMost time.Duration, run func(sandbox.Place) (string, error)) (string,
		error)
	// JobEnded records what a job has changed. The note says what that is, if there is something to say.
	JobEnded(ctx context.Context) (note string, err error)
}

// maxOutput bounds what is kept of a command's output, in bytes. grace is how long a call may take beyond its command,
// to end the command's processes and to return its output.
const (
	maxOutput = 8 << 20
	grace     = 10 * time.Second
)

type input struct {
	Command string `json:"command" jsonschema:"the command line, as for sh -c"`
}

// Register adds the tool shell and those of jobs.
func Register(r *tools.Registry, o Options) error {
	o.secrets = r.Secrets()
	rule := turn.CommandRule{Isolated: o.Trusted && o.Sandbox.Isolated(),
		Unconfined: o.Sandbox.Level() == sandbox.LevelNone, Host: o.Sandbox.Network() == sandbox.NetworkHost}
	o.isolation = o.Sandbox.String()
	if o.Sandbox.Network() == sandbox.NetworkProxy {
		o.isolation += ": " + turn.Truncate(strings.Join(o.Proxy.Hosts, ", "), 1000)
	}
	err := tools.Add(r, "shell", fmt.Sprintf("Run a command line with sh in %s. Isolation: %s. A command ends after %s "+
		"with all of its processes. The result is its exit code and its output; any other exit code than 0 is an error.",
		o.Where, o.isolation, o.Timeout), o.run, tools.Risk(turn.RiskHigh), tools.Timeout(o.Before+o.Timeout+grace),
		tools.Commands(rule))
	return errors.Join(err, registerJobs(r, o, rule))
}

// run implements the tool shell: it runs a command and returns its exit code and output. The output of a command that
// fails is the text of the error.
func (o Options) run(ctx context.Context, in input) (string, error) {
	return o.Places.In(ctx, title(in.Command), func(p sandbox.Place) (string, error) {
		return o.runIn(ctx, in.Command, p)
	})
}

// title returns the title of a call.
func title(line string) string {
	return "run " + turn.Truncate(strings.Join(strings.Fields(line), " "), 60)
}

// runIn runs a command line in a place and waits for its end.
func (o Options) runIn(ctx context.Context, line string, place sandbox.Place) (string, error) {
	limit := o.Timeout
	if deadline, ok := ctx.Deadline(); ok { // the turn may have less time left than a command may take
		limit = min(limit, max(time.Until(deadline)-grace/2, time.Until(deadline)/2))
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out := newOutput(ctx, o.secrets)
	defer out.close()
	hosts := o.newProxy(out.say)
	exit, err := o.Sandbox.Run(limited, sandbox.Command{Line: line, Place: place, Output: out, Serve: hosts.Serve})
	out.close()
	text := refusals(hosts) + out.text()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case limited.Err() != nil:
		return "", fmt.Errorf("[ended after %s, with all of its processes]\n%s", limit.Round(time.Millisecond), text)
	case err != nil:
		return "", err
	case exit.Limit != "":
		return "", fmt.Errorf("[ended: %s]\n%s", exit.Limit, text)
	case exit.Code != 0:
		return "", errors.New(fmt.Sprintf("[exit code %d]\n", exit.Code) + text)
	}
	return "[exit code 0]\n" + text, nil
}

// newProxy returns the proxy of one command. say, which may be nil, gets each refusal when it happens.
func (o Options) newProxy(say func(message string)) *proxy.Proxy {
	return proxy.New(o.Proxy, func(refused string) {
		if say != nil {
			say("refused to connect to " + refused)
		}
	})
}

// refusals says which hosts a command did not reach, and what to do about it, as a line of its result.
func refusals(p *proxy.Proxy) string {
	refused := p.Refused()
	if len(refused) == 0 {
		return ""
	}
	return "[no connection to " + strings.Join(refused, ", ") + ": if a host is needed, ask the user to add it to hosts " +
		"of [sandbox] in agent.toml]\n"
}

// Run runs a command line in a place, as the tool does, and reports its output, without secrets, to the call of the
// context. It returns the output after a line that says how the command ended, as the text of the error if the command
// failed.
func (o Options) Run(ctx context.Context, line string, place sandbox.Place, secrets *redact.Redactor) (string, error) {
	o.secrets = secrets
	return o.runIn(ctx, line, place)
}

// Grace is how long a command may take beyond its timeout.
const Grace = grace

// list joins words for a sentence.
func list(words []string) string {
	if len(words) == 0 {
		return "no directory"
	}
	return strings.Join(words, ", ")
}
