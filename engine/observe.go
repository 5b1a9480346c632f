package engine

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/everturn/everturn/activities"
	"github.com/everturn/everturn/activities/completion"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/telemetry"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/internal/version"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// openTelemetry starts the telemetry, if it is configured. Its credentials are redacted in logs and tool output.
func (e *Engine) openTelemetry(ctx context.Context) (err error) {
	e.secrets.Add(telemetry.Credentials()...)
	provider, _ := e.model.Default()
	e.telemetry, err = telemetry.New(ctx, telemetry.Options{
		Redact: e.secrets.String, Provider: provider, Worker: e.identity(), Version: version.String(), Log: e.log,
	})
	if err != nil {
		return temporalconn.WithKind(config.ErrInvalid, err)
	}
	return nil
}

// observed creates the engine's sinks, and returns the journal j in a wrapper that notifies the sinks and the telemetry
// of this worker's writes. Without sinks and telemetry it returns j itself.
func (e *Engine) observed(j Journal) Journal {
	for _, send := range e.options.sinks {
		e.sinks = append(e.sinks, newSink(send, j, e.telemetry, e.log))
	}
	if e.telemetry == nil && len(e.sinks) == 0 {
		return j
	}
	if e.telemetry != nil {
		e.telemetry.Start(j)
	}
	return &observedJournal{Journal: j, telemetry: e.telemetry, sinks: e.sinks}
}

// sendProcess sends the start or the end of an MCP server's process to the sinks.
func (e *Engine) sendProcess(server string, p turn.ProcessEvent) {
	kind := EventServerStarted
	if p.Ended != "" {
		kind = EventServerEnded
	}
	data, err := json.Marshal(ServerEvent{Server: server, PID: p.PID, Ended: p.Ended})
	if err != nil {
		return // cannot happen: two strings and a number are always JSON
	}
	for _, s := range e.sinks {
		s.offer(Event{Tenant: p.Tenant, Event: turn.Event{Kind: kind, At: p.At, Data: data}})
	}
}

// closeSinks closes the sinks concurrently, so that each has the whole sinkTimeout for its last events.
func (e *Engine) closeSinks() {
	var all sync.WaitGroup
	for _, s := range e.sinks {
		all.Go(s.close)
	}
	all.Wait()
}

// gaugesEvery is how often a worker updates its gauges: the numbers of open requests and the backlog of its task queue.
// No event reports their changes.
const gaugesEvery = 5 * time.Second

// watchGauges updates the gauges until ctx ends, or does nothing if metrics are off. It runs beside the collection of
// metrics, not as a callback of it: the Temporal SDK measures the calls that read the backlog, and that would wait for
// the collection to end.
func (e *Engine) watchGauges(ctx context.Context) {
	if !e.telemetry.Metrics() {
		return
	}
	warned := false
	every(ctx, gaugesEvery, func() bool {
		err := e.readGauges(ctx)
		if err != nil && !warned && ctx.Err() == nil {
			e.log.Warn("reading open requests and backlogs for the metrics", "error", err)
		}
		warned = err != nil
		return true
	})
}

// readGauges updates the gauges once. If one read fails, it still makes the other.
func (e *Engine) readGauges(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, gaugesEvery)
	defer cancel()
	open, err := e.journal.OpenRequests(ctx)
	if err == nil {
		e.telemetry.OpenRequests(ctx, open)
	}
	backlogs, err2 := temporalconn.Backlogs(ctx, e.client, e.namespace, e.cfg.Temporal.TaskQueue)
	e.telemetry.Backlogs(ctx, backlogs)
	return errors.Join(err, err2)
}

// observedJournal is a journal that measures this worker's writes, and lets the sinks follow the turns that it writes
// to.
type observedJournal struct {
	Journal
	telemetry *telemetry.Telemetry // may be nil
	sinks     []*sink
}

// follow makes each sink follow a turn: see sink.follow. owned means that this worker runs the turn's workflow.
func (j *observedJournal) follow(turnID string, owned bool) {
	for _, s := range j.sinks {
		s.follow(turnID, owned)
	}
}

// Begin implements Journal. If Begin has closed an unfinished turn of the session, it measures the end of that turn.
func (j *observedJournal) Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error) {
	out, err := j.Journal.Begin(ctx, in)
	noTurn := out.DuplicateOf != nil || out.Kept // the message did not begin one
	if err != nil || noTurn {
		return out, err
	}
	j.follow(in.Turn, true)
	if out.Closed != "" && j.telemetry != nil {
		if closed, err := j.Journal.Tenant(in.Tenant).Turn(ctx, out.Closed); err == nil {
			j.telemetry.TurnEnded(ctx, closed, false)
		}
	}
	return out, nil
}

// Finish implements Journal. It measures the end of the turn, and the calls that did not run, once.
func (j *observedJournal) Finish(ctx context.Context, in turn.FinishInput) (journal.TurnRecord, error) {
	out, err := j.Journal.Finish(ctx, in)
	if err == nil {
		j.follow(in.Turn, true)
	}
	if err == nil && j.telemetry != nil {
		repeated := !out.EndedAt.Equal(in.At) // the turn had ended already
		j.telemetry.TurnEnded(ctx, out, repeated)
		if !repeated {
			j.telemetry.CallsNotRun(ctx, in.Outcomes)
		}
	}
	return out, err
}

// Ask implements Journal.
func (j *observedJournal) Ask(ctx context.Context, session, turnID string, requests []turn.Request,
	at time.Time) ([]turn.Decision, error) {
	out, err := j.Journal.Ask(ctx, session, turnID, requests, at)
	if err == nil {
		j.follow(turnID, true)
	}
	return out, err
}

// Decide implements Journal.
func (j *observedJournal) Decide(ctx context.Context, session, turnID string, decisions []turn.Decision,
	at time.Time) error {
	err := j.Journal.Decide(ctx, session, turnID, decisions, at)
	if err == nil {
		j.follow(turnID, false)
	}
	return err
}

// StartInference implements Journal. The first attempt of an inference measures the calls of the last step that did not
// run.
func (j *observedJournal) StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error) {
	out, err := j.Journal.StartInference(ctx, in)
	if err == nil {
		j.follow(in.Key.Turn, false)
	}
	if err == nil && j.telemetry != nil && out.Attempt == 1 && !out.Settled { // later attempts bring the same outcomes
		j.telemetry.CallsNotRun(ctx, in.Outcomes)
	}
	return out, err
}

// SettleInference implements Journal. It measures an inference that it has settled: a step, and its usage.
func (j *observedJournal) SettleInference(ctx context.Context, in journal.SettleInference) (journal.Inference, error) {
	out, err := j.Journal.SettleInference(ctx, in)
	if err == nil && j.telemetry != nil && out.SettledAt.Equal(in.At) { // not settled by an earlier attempt
		j.telemetry.StepSettled(ctx)
		j.telemetry.Used(ctx, out.Model, out.Completion.Usage)
	}
	return out, err
}

// RecordUsage implements Journal.
func (j *observedJournal) RecordUsage(ctx context.Context, in journal.AttemptUsage) error {
	err := j.Journal.RecordUsage(ctx, in)
	if err == nil && j.telemetry != nil {
		j.telemetry.Used(ctx, in.Model, in.Usage)
	}
	return err
}

// ClaimCall implements Journal.
func (j *observedJournal) ClaimCall(ctx context.Context, in journal.CallRecord, approved bool,
	sensitive ...string) (journal.CallRecord, error) {
	out, err := j.Journal.ClaimCall(ctx, in, approved, sensitive...)
	if err == nil {
		j.follow(in.Turn, false)
	}
	return out, err
}

// SettleCall implements Journal. It measures a call that it has settled.
func (j *observedJournal) SettleCall(ctx context.Context, turnID, callID string, attempt int, r turn.ToolResult,
	at time.Time) (journal.CallRecord, error) {
	out, err := j.Journal.SettleCall(ctx, turnID, callID, attempt, r, at)
	if err == nil && j.telemetry != nil && !out.Late && out.SettledAt.Equal(at) { // not settled before
		j.telemetry.CallSettled(ctx, out)
	}
	return out, err
}

// observedTools returns the tools in a wrapper that makes each call part of its turn's trace. Without telemetry it
// returns the tools themselves.
func (e *Engine) observedTools() activities.Tools {
	if e.telemetry == nil {
		return e.tools
	}
	return tracedTools{e.tools, e.telemetry}
}

// tracedTools calls tools with the span context that the call has in the trace of its turn.
type tracedTools struct {
	activities.Tools
	telemetry *telemetry.Telemetry
}

// Call implements activities.Tools.
func (t tracedTools) Call(ctx context.Context, c turn.ToolRequest) (turn.ToolResult, error) {
	return t.Tools.Call(t.telemetry.CallContext(ctx, c.Turn, c.CallID), c)
}

// observedModel returns the model in a wrapper that measures its inferences. Without telemetry it returns the model
// itself.
func (e *Engine) observedModel() completion.Model {
	if e.telemetry == nil {
		return e.model
	}
	return measuredModel{e.model, e.telemetry}
}

// measuredModel measures the duration and the first output of each inference.
type measuredModel struct {
	completion.Model
	telemetry *telemetry.Telemetry
}

// Infer implements completion.Model.
func (m measuredModel) Infer(ctx context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error) {
	first := &firstEvent{Sink: sink}
	began := time.Now()
	answer, err := m.Model.Infer(ctx, p, first)
	m.telemetry.Inferred(ctx, telemetry.Inference{Provider: p.Provider, Model: p.Model, Began: began, FirstEvent: first.at,
		Completion: answer, Err: err})
	return answer, err
}

// firstEvent is a turn.Sink that records when the first delta of a completion arrives.
type firstEvent struct {
	turn.Sink
	at time.Time // zero until then
}

func (f *firstEvent) note() {
	if f.at.IsZero() {
		f.at = time.Now()
	}
}

// Text implements turn.Sink.
func (f *firstEvent) Text(delta string) { f.note(); f.Sink.Text(delta) }

// Reasoning implements turn.Sink.
func (f *firstEvent) Reasoning(delta string) { f.note(); f.Sink.Reasoning(delta) }
