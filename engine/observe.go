package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/everturn/everturn/activities"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/telemetry"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/internal/version"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

func (e *Engine) openTelemetry(ctx context.Context) (err error) {
	e.secrets.Add(telemetry.Credentials()...)
	e.telemetry, err = telemetry.New(ctx, telemetry.Options{
		MetricsAddress: e.cfg.Telemetry.MetricsAddress, Content: e.cfg.Telemetry.Content, Redact: e.secrets.String,
		Provider: e.model.provider, Model: e.model.name, Worker: e.identity(), Version: version.String(), Log: e.log,
	})
	if err != nil {
		return temporalconn.WithKind(config.ErrInvalid, err)
	}
	return nil
}

// observed returns the journal with the telemetry and the sinks that follow what this worker writes. Without them it is
// the journal itself.
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

// closeSinks closes the sinks at the same time, so that each has the whole sinkTimeout.
func (e *Engine) closeSinks() {
	var all sync.WaitGroup
	for _, s := range e.sinks {
		all.Go(s.close)
	}
	all.Wait()
}

// gaugesEvery is how often a worker reads what no event tells it: open requests and the backlog of its task queue.
const gaugesEvery = 5 * time.Second

// watchGauges reads the gauges until ctx ends. They are not read while metrics are collected, because the reading
// itself is measured by the Temporal SDK, which would wait for the collection to end.
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

// observedJournal tells telemetry and sinks about the ledger's changes.
type observedJournal struct {
	Journal
	telemetry *telemetry.Telemetry // may be nil
	sinks     []*sink
}

// follow lets the sinks follow a turn; owned means that this worker runs the turn's workflow.
func (j *observedJournal) follow(turnID string, owned bool) {
	for _, s := range j.sinks {
		s.follow(turnID, owned)
	}
}

// Begin implements Journal. It may close the session's unfinished turn, which has ended then.
func (j *observedJournal) Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error) {
	out, err := j.Journal.Begin(ctx, in)
	if err != nil || out.DuplicateOf != nil || out.Kept {
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

// Finish implements Journal.
func (j *observedJournal) Finish(ctx context.Context, in turn.FinishInput) (journal.TurnRecord, error) {
	out, err := j.Journal.Finish(ctx, in)
	if err == nil {
		j.follow(in.Turn, true)
	}
	if err == nil && j.telemetry != nil {
		repeated := !out.EndedAt.Equal(in.At)
		j.telemetry.TurnEnded(ctx, out, repeated)
		if !repeated {
			j.telemetry.CallsNotRun(ctx, in.Outcomes)
		}
	}
	return out, err
}

// Ask implements Journal.
func (j *observedJournal) Ask(ctx context.Context, in turn.AskInput) ([]turn.Decision, error) {
	out, err := j.Journal.Ask(ctx, in)
	if err == nil {
		j.follow(in.Turn, true)
	}
	return out, err
}

// Decide implements Journal.
func (j *observedJournal) Decide(ctx context.Context, in turn.DecideInput) error {
	err := j.Journal.Decide(ctx, in)
	if err == nil {
		j.follow(in.Turn, false)
	}
	return err
}

// StartInference implements Journal.
func (j *observedJournal) StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error) {
	out, err := j.Journal.StartInference(ctx, in)
	if err == nil {
		j.follow(in.Key.Turn, false)
	}
	if err == nil && j.telemetry != nil && out.Attempt == 1 && !out.Settled {
		j.telemetry.CallsNotRun(ctx, in.Outcomes)
	}
	return out, err
}

// SettleInference implements Journal.
func (j *observedJournal) SettleInference(ctx context.Context, in journal.SettleInference) (journal.Inference, error) {
	out, err := j.Journal.SettleInference(ctx, in)
	if err == nil && j.telemetry != nil && out.SettledAt.Equal(in.At) {
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
func (j *observedJournal) ClaimCall(ctx context.Context, in journal.ClaimInput) (journal.Claim, error) {
	out, err := j.Journal.ClaimCall(ctx, in)
	if err == nil {
		j.follow(in.Turn, false)
	}
	return out, err
}

// SettleCall implements Journal.
func (j *observedJournal) SettleCall(ctx context.Context, in journal.SettleInput) (journal.CallRecord, error) {
	out, err := j.Journal.SettleCall(ctx, in)
	if err == nil && j.telemetry != nil && !out.Late && out.SettledAt.Equal(in.At) {
		j.telemetry.CallSettled(ctx, out)
	}
	return out, err
}

// observedTools returns the tools, each call with the span context that it has in its turn's trace.
func (e *Engine) observedTools() activities.Tools {
	if e.telemetry == nil {
		return e.tools
	}
	return tracedTools{e.tools, e.telemetry}
}

type tracedTools struct {
	activities.Tools
	telemetry *telemetry.Telemetry
}

// Call implements activities.Tools.
func (t tracedTools) Call(ctx context.Context, c turn.ToolRequest) (turn.ToolResult, error) {
	return t.Tools.Call(t.telemetry.CallContext(ctx, c.Turn, c.CallID), c)
}

// observedModel returns the model, whose requests are measured.
func (e *Engine) observedModel() activities.Model {
	if e.telemetry == nil {
		return e.model
	}
	return measuredModel{e.model, e.telemetry}
}

type measuredModel struct {
	activities.Model
	telemetry *telemetry.Telemetry
}

// Infer implements activities.Model.
func (m measuredModel) Infer(ctx context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error) {
	first := &firstEvent{Sink: sink}
	began := time.Now()
	answer, err := m.Model.Infer(ctx, p, first)
	m.telemetry.Inferred(ctx, telemetry.Inference{Began: began, FirstEvent: first.at, Completion: answer, Err: err})
	return answer, err
}

// firstEvent notes when a completion's first delta arrives.
type firstEvent struct {
	turn.Sink
	at time.Time
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
