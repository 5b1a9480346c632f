package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Sample asks the model what a tool's server wants to know from it. An answer that the journal has already is not paid
// again. What cannot be made is recorded as refused, which is no error: the call goes on without it.
func (a *Activities) Sample(ctx context.Context, in workflows.SampleInput) (workflows.SampleResult, error) {
	clock := startClock(ctx)
	defer clock.stop()
	leave, err := a.flights.enter(ctx, in.Turn+"/"+in.ID)
	if err != nil {
		return workflows.SampleResult{}, failure(ctx, turn.Errorf(turn.CodeLLMTransport, err, "the attempt before is still under way"))
	}
	defer leave()
	ctx, release := a.steadfast(ctx, in.Turn)
	defer release()
	res, err := a.sample(ctx, in, clock)
	res.Busy = clock.busy()
	return res, err
}

func (a *Activities) sample(ctx context.Context, in workflows.SampleInput, clock *clock) (workflows.SampleResult, error) {
	if in.Refused != "" {
		return a.endSample(ctx, in, journal.SettleSample{Refused: in.Refused})
	}
	rec, err := a.journal.StartSample(ctx, journal.StartSample{
		Session: in.Session, Turn: in.Turn, ID: in.ID, Hash: in.Hash, Model: in.Model, At: time.Now(),
	})
	if err != nil {
		return workflows.SampleResult{}, failure(ctx, err)
	}
	if rec.Over() {
		return sampleResult(rec, true), nil
	}
	request, err := turn.ReadSampleRequest(rec.Request)
	if err != nil {
		return a.endSample(ctx, in, journal.SettleSample{Refused: "the request that was kept cannot be read"})
	}
	most := request.MaxTokens
	if in.MaxTokens > 0 {
		most = int(min(int64(most), in.MaxTokens))
	}
	answer, err := a.askModel(ctx, in, request.Prompt(in.Model, most), clock)
	if err != nil {
		return a.sampleFailed(ctx, in, rec, err)
	}
	return a.endSample(ctx, in, journal.SettleSample{Attempt: rec.Attempt, Answer: &turn.Sampled{
		Text: answer.Text, Model: answered(in.Model, answer.Model), StopReason: turn.StopReason(answer.FinishReason), Usage: answer.Usage,
	}})
}

// answered is the model that has answered, by the provider's word where it says.
func answered(asked, said string) string {
	if said == "" {
		return asked
	}
	return said
}

// askModel sends the prompt within the time that the turn has left. Nobody watches the answer grow: it is not the turn's.
func (a *Activities) askModel(ctx context.Context, in workflows.SampleInput, p turn.Prompt, clock *clock) (turn.Answer, error) {
	budget := max(in.Budget-clock.before, time.Second)
	asking, cancel := context.WithTimeoutCause(ctx, budget, turn.Errorf(turn.CodeGuardExceeded, nil,
		fmt.Sprintf("the model did not answer within the %s that the turn had left", budget.Round(time.Second))))
	defer cancel()
	answer, err := a.model.Infer(asking, p, unwatched{})
	if cause := context.Cause(asking); err != nil && cause != nil && ctx.Err() == nil {
		err = cause
	}
	return answer, err
}

// unwatched takes the pieces of an answer that nobody reads.
type unwatched struct{}

func (unwatched) Text(string)      {}
func (unwatched) Reasoning(string) {}

// sampleFailed decides what follows a failure, as for inferences: a stop and a worker's end count as nothing, and the
// provider is asked again RetryMax times over all attempts. After that the server is told.
func (a *Activities) sampleFailed(ctx context.Context, in workflows.SampleInput, rec journal.SampleRecord, err error) (workflows.SampleResult, error) {
	if temporal.IsCanceledError(context.Cause(ctx)) {
		return workflows.SampleResult{}, temporal.NewCanceledError()
	}
	if ctx.Err() != nil {
		return workflows.SampleResult{}, failure(ctx, turn.Errorf(turn.CodeLLMTransport, err, "the worker stopped in the middle of an inference"))
	}
	e := asTurnError(err)
	e = &turn.Error{Code: e.Code, Message: a.redact(e.Message), RetryAfter: e.RetryAfter, Cause: e.Cause}
	failures, ferr := a.journal.FailSample(ctx, in.Turn, in.ID, rec.Attempt)
	if ferr != nil {
		return workflows.SampleResult{}, failure(ctx, ferr)
	}
	if e.Code.Retryable() && failures <= in.RetryMax {
		return workflows.SampleResult{}, failure(ctx, e)
	}
	logFailure(ctx, e)
	return a.endSample(ctx, in, journal.SettleSample{Refused: string(e.Code) + ": the model has not answered"})
}

// endSample records how it ended, before anybody is told.
func (a *Activities) endSample(ctx context.Context, in workflows.SampleInput, end journal.SettleSample) (workflows.SampleResult, error) {
	end.Turn, end.ID, end.At = in.Turn, in.ID, time.Now()
	rec, err := patiently(context.WithoutCancel(ctx), workflows.SettleWithin, func(ctx context.Context) (journal.SampleRecord, error) {
		return a.journal.SettleSample(ctx, end)
	})
	if err != nil {
		return workflows.SampleResult{}, failure(ctx, err)
	}
	return sampleResult(rec, false), nil
}

func sampleResult(rec journal.SampleRecord, reused bool) workflows.SampleResult {
	res := workflows.SampleResult{Version: workflows.WireVersion, Failures: rec.Failures, Attempt: rec.Attempt, Reused: reused, Refused: rec.Refused}
	if rec.Answer != nil {
		res.Usage, res.Model, res.StopReason = rec.Answer.Usage, rec.Answer.Model, rec.Answer.StopReason
	}
	return res
}

// keepSamples puts into the journal what a call's server asks the model, and leaves the workflow what it needs to ask a
// person. A server that has asked as often as it may is refused without asking anybody.
func (a *Activities) keepSamples(ctx context.Context, in workflows.CallInput, inquiries []turn.Inquiry, id func(n int) string) error {
	n := 0
	for i := range inquiries {
		if inquiries[i].Sample == nil {
			continue
		}
		n++
		if err := a.keepSample(ctx, in, &inquiries[i], id(n)); err != nil {
			return err
		}
	}
	return nil
}

func (a *Activities) keepSample(ctx context.Context, in workflows.CallInput, q *turn.Inquiry, id string) error {
	s := *q.Sample
	s.ID = id
	q.Sample = &s
	if s.Request == nil { // of a question that is asked again
		return a.keptSample(ctx, in, &s)
	}
	request, err := a.clean(*s.Request).Bytes()
	s.Request = nil
	if err != nil {
		return err
	}
	if len(request) > journal.MaxSampleBytes {
		s.Refused = fmt.Sprintf("what it asks has %d bytes, and %d are the most", len(request), journal.MaxSampleBytes)
		return nil
	}
	rec, err := patiently(context.WithoutCancel(ctx), workflows.SettleWithin, func(ctx context.Context) (journal.SampleRecord, error) {
		return a.journal.AskSample(ctx, journal.SampleInput{
			Turn: in.Turn, CallID: in.Call.ID, ID: id, Server: serverOf(in.Tool.ID), Request: request, Free: s.Free, Most: s.Most, At: time.Now(),
		})
	})
	switch {
	case errors.Is(err, journal.ErrSpent):
		s.Refused = fmt.Sprintf("it has asked the model %d times in this turn, which is as often as it may (sampling_max_requests)", s.Most)
		return nil
	case errors.Is(err, journal.ErrConflict): // the turn was reset, and the server asks for something else this time
		s.Refused = "it has asked for something else before"
		return nil
	}
	s.Hash = rec.Hash
	return err
}

// keptSample finds what was asked before.
func (a *Activities) keptSample(ctx context.Context, in workflows.CallInput, s *turn.Sampling) error {
	rec, err := patiently(ctx, workflows.ClaimWithin, func(ctx context.Context) (journal.SampleRecord, error) {
		return a.journal.Sample(ctx, in.Turn, s.ID)
	})
	if errors.Is(err, journal.ErrNotFound) || err == nil && rec.CallID != in.Call.ID {
		s.Refused = "it may not ask the model any more, or what it asks is lost"
		return nil
	}
	s.Hash = rec.Hash
	return err
}

// serverOf is the server of a tool: mcp/<server>.
func serverOf(tool string) string {
	parts := strings.SplitN(tool, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// clean takes secrets out of what a model would be asked, before a person is shown it.
func (a *Activities) clean(r turn.SampleRequest) turn.SampleRequest {
	r.System = a.redact(r.System)
	messages := make([]turn.SampleMessage, len(r.Messages))
	for i, m := range r.Messages {
		messages[i] = turn.SampleMessage{Role: m.Role, Text: a.redact(m.Text)}
	}
	r.Messages = messages
	return r
}

// fetched puts the answers of samples into the replies that go on with a call.
func (a *Activities) fetched(ctx context.Context, in workflows.CallInput) ([]turn.Reply, error) {
	replies := make([]turn.Reply, len(in.Replies))
	for i, r := range in.Replies {
		replies[i] = r
		if r.Sample == "" || r.Action != turn.ReplyAccept {
			continue
		}
		rec, err := patiently(ctx, workflows.ClaimWithin, func(ctx context.Context) (journal.SampleRecord, error) {
			return a.journal.Sample(ctx, in.Turn, r.Sample)
		})
		if err == nil {
			replies[i], err = toldOf(r, rec)
		}
		if err != nil {
			return nil, err
		}
	}
	return replies, nil
}

// toldOf is the reply with what came of a sample.
func toldOf(r turn.Reply, rec journal.SampleRecord) (turn.Reply, error) {
	if rec.Answer == nil {
		r.Action, r.Why = turn.ReplyCancel, rec.Refused
		return r, nil
	}
	var err error
	r.Action = turn.ReplyAccept
	if r.Content, err = json.Marshal(rec.Answer); err != nil {
		return r, fmt.Errorf("writing the answer of sample %s: %w", rec.ID, err)
	}
	return r, nil
}
