package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/everturn/everturn/tests/check"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// collect ends what still runs and writes every ledger that is not a file yet.
func (r *harness) collect(ctx context.Context, run check.Run) error {
	if err := r.findAgents(ctx); err != nil {
		return err
	}
	errs := []error{r.environments(), r.histories(ctx), r.endWorkers()}
	r.stopRead()
	r.readers.Wait()
	run.Stopped, run.Failing, run.Asked, run.StopWithin = r.stopped, r.failing, askMark, r.stopWithin
	run.Repeatable = []string{"mcp/again/", "mcp/quick/", "local/write_file", "local/plan", turn.AgentTools}
	if run.Tainting = r.settings.taint != "off"; r.settings.stateful {
		run.Stateful = "mcp/keeper/"
	}
	if r.settings.trusted {
		run.Tainting, run.Repeatable = false, append(run.Repeatable, "mcp/once/echo", "mcp/once/environ") // both only read
	}
	run.Canaries = []string{r.canary(1), r.canary(2), r.canary(3)}
	errs = append(errs, r.orphans(ctx), r.providerLedger(), r.waits(ctx), r.exports(ctx),
		r.database.dump(ctx, inDir(r.dir, "ledgers", "sinks")), // which may hold no secret

		writeJSON(inDir(r.dir, "ledgers", "run.json"), run))
	return errors.Join(errs...)
}

// findAgents notes the sessions of the agents that were called.
func (r *harness) findAgents(ctx context.Context) error {
	all, err := r.journal.Sessions(ctx, 10_000)
	for _, s := range all {
		if strings.HasPrefix(s.ID, turn.AgentTools) {
			r.agents = append(r.agents, s.ID)
		}
	}
	return err
}

func writeJSON(file string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o600)
}

// environments copies the environments of the servers that were not given a token.
func (r *harness) environments() error {
	for _, s := range r.settings.servers() {
		id := s.id
		if s.http || id == "once" || id == keeper.id {
			continue
		}
		found := false
		for pid, command := range mentioning(r.dir) {
			if !strings.Contains(command, r.pidfile(id)) {
				continue
			}
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if err != nil {
				continue // it is ending
			}
			found = true
			if err := os.WriteFile(inDir(r.dir, "ledgers", "sinks", fmt.Sprintf("environ-%s-%d", id, pid)), b,
				0o600); err != nil {
				return err
			}
		}
		if !found {
			return fmt.Errorf("no MCP server %s lives whose environment could be read", id)
		}
	}
	return nil
}

// histories writes every run of the harness's sessions, as the server has it.
func (r *harness) histories(ctx context.Context) error {
	for _, session := range r.sessions() {
		runs, err := r.runs(ctx, session)
		if err != nil {
			return fmt.Errorf("listing the runs of %s: %w", session, err)
		}
		for _, run := range runs {
			h := &historypb.History{}
			events := r.direct.GetWorkflowHistory(ctx, session, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
			for events.HasNext() {
				e, err := events.Next()
				if err != nil {
					return fmt.Errorf("reading the history of %s: %w", session, err)
				}
				h.Events = append(h.Events, e)
			}
			b, err := protojson.Marshal(h)
			if err != nil {
				return err
			}
			name := url.PathEscape(session) + "-" + run + ".json"
			if err := os.WriteFile(inDir(r.dir, "ledgers", "histories", name), b, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// runs lists a session's runs once Temporal's index has the latest of them.
func (r *harness) runs(ctx context.Context, session string) ([]string, error) {
	latest, err := r.direct.DescribeWorkflowExecution(ctx, session, "")
	if err != nil {
		return nil, err
	}
	var runs []string
	var listing error
	err = reach(ctx, "the index of runs", func() bool {
		runs, listing = nil, nil
		var token []byte
		for {
			page, err := r.direct.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
				Query: fmt.Sprintf("WorkflowId = '%s'", session), NextPageToken: token})
			if err != nil {
				listing = err
				return false
			}
			for _, e := range page.Executions {
				runs = append(runs, e.Execution.RunId)
			}
			if token = page.NextPageToken; len(token) == 0 {
				break
			}
		}
		for _, run := range runs {
			if run == latest.WorkflowExecutionInfo.Execution.RunId {
				return true
			}
		}
		return false
	})
	return runs, errors.Join(err, listing)
}

// endWorkers lets the workers drain. A worker that its schedule killed has ended already.
func (r *harness) endWorkers() error {
	var errs []error
	for _, w := range r.workers {
		if w.gone() {
			continue
		}
		line, err := json.Marshal(check.Process{PID: w.pid(), Command: "worker", PeakBytes: w.peakBytes()})
		errs = append(errs, err, appendLine(r.processLedger(), line), w.end(20*time.Second))
	}
	return errors.Join(errs...)
}

func appendLine(file string, line []byte) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// reaped is how long a process may take to end after it has lost its parent.
const reaped = 5 * time.Second

// orphans records processes that are alive although every worker has ended.
func (r *harness) orphans(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reaped)
	defer cancel()
	if await(ctx, "the end of all children", func() bool { return len(r.children()) == 0 }) == nil {
		return nil
	}
	var errs []error
	for pid, command := range r.children() {
		line, err := json.Marshal(check.Process{PID: pid, Command: command, Orphan: true})
		errs = append(errs, err, appendLine(r.processLedger(), line))
	}
	return errors.Join(errs...)
}

// children returns the processes that belong to the harness: their command lines name its folder.
func (r *harness) children() map[int]string {
	all := mentioning(r.dir)
	for pid, command := range all {
		if strings.Contains(command, "start-dev") || r.remoteServer != nil && pid == r.remoteServer.pid() {
			delete(all, pid)
		}
	}
	return all
}

// providerLedger writes the scripted model's counts.
func (r *harness) providerLedger() error {
	l, err := openLedger(inDir(r.dir, "ledgers", "provider.jsonl"))
	if err != nil {
		return err
	}
	r.noteRequests(l, r.model.Drain())
	r.noteRequests(l, r.model.Requests()) // requests that stayed open to the end
	return l.f.Close()
}

// noteRequests writes requests to the provider's ledger, each with its planned answer. An answer is whole once its
// finish reason is out: a client that disconnects after that has received all of it.
func (r *harness) noteRequests(l *ledger, requests []fakellm.Request) {
	for _, q := range requests {
		asked := q.Chat.Asked()
		line := check.Request{At: q.At, Asked: asked, Step: q.Step + 1, Body: q.Body, Outcome: string(q.Outcome),
			Summary: isSummary(q)}
		if q.Finished {
			line.Outcome = string(fakellm.Sent)
		}
		r.mu.Lock()
		t := r.plans[asked]
		r.mu.Unlock()
		if t != nil {
			line.Answer, line.Calls = t.answer(q)
		}
		l.write(line)
	}
}

// answer returns the planned answer to a request: its text, which may be a question, and its calls.
func (t *turnPlan) answer(q fakellm.Request) (text string, calls []check.RequestCall) {
	output := t.callsFor(q)
	if len(output) == 0 {
		return t.final, nil
	}
	if question := asks(output); question != "" {
		return question, nil
	}
	for _, c := range output {
		calls = append(calls, check.RequestCall{Name: c.tool, Arguments: c.arguments()})
	}
	return "", calls
}

// waits writes the requests of turns from the journal's own table. The checker compares them with the export and the
// stream.
func (r *harness) waits(ctx context.Context) error {
	l, err := openLedger(inDir(r.dir, "ledgers", "waits.jsonl"))
	if err != nil {
		return err
	}
	defer l.f.Close()
	for _, session := range r.sessions() {
		turns, err := r.journal.Turns(ctx, session)
		if err != nil {
			return fmt.Errorf("listing the turns of %s: %w", session, err)
		}
		for _, t := range turns {
			list, err := r.journal.Requests(ctx, t.ID)
			if err != nil {
				return fmt.Errorf("listing what turn %s waited for: %w", t.ID, err)
			}
			for _, w := range list {
				l.write(w)
			}
		}
	}
	return nil
}

// exports writes the sessions as the journal exports them.
func (r *harness) exports(ctx context.Context) error {
	for _, session := range r.sessions() {
		f, err := os.Create(inDir(r.dir, "ledgers", "journal", url.PathEscape(session)+".jsonl"))
		if err != nil {
			return err
		}
		if err := errors.Join(r.journal.Export(ctx, session, f), f.Close()); err != nil {
			return fmt.Errorf("exporting %s: %w", session, err)
		}
	}
	return nil
}
