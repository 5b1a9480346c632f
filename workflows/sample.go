package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// SampleInput asks for one sample, by reference: the journal has the request.
type SampleInput struct {
	Version int    `json:"v"`
	Session string `json:"session"`
	Turn    string `json:"turn"`
	Step    int    `json:"step"`
	Call    string `json:"call"`
	ID      string `json:"id"`
	Hash    string `json:"hash"` // of the request that was allowed
	Model   string `json:"model"`
	// MaxTokens is what is left to the turn, 0 where it has no ceiling. The request's own bound counts where it is lower.
	MaxTokens int64         `json:"max_tokens,omitempty"`
	Budget    time.Duration `json:"budget"` // working time left, over all attempts
	RetryMax  int           `json:"retry_max"`
	// Refused: the model is not to be asked, and this is why. It is recorded for those who wait for an answer.
	Refused string `json:"refused,omitempty"`
}

// SampleResult is what a sample took. Its text is in the journal, and goes to the server that has asked.
type SampleResult struct {
	Version    int           `json:"v"`
	Usage      turn.Usage    `json:"usage"`
	Model      string        `json:"model,omitempty"`
	StopReason string        `json:"stop_reason,omitempty"`
	Failures   int           `json:"failures,omitempty"`
	Attempt    int           `json:"attempt,omitempty"`
	Busy       time.Duration `json:"busy"`
	Reused     bool          `json:"reused,omitempty"`  // it was settled before and not asked for again
	Refused    string        `json:"refused,omitempty"` // why there is no answer
}

// SampleID is the ID of the n-th sample, from 1, that a dispatch of a call asks for.
func SampleID(call string, attempt, n int) string { return fmt.Sprintf("s%s.%d.%d", call, attempt, n) }

// lend asks people whether the model may be asked what servers want to know from it, and then asks it, one after the other:
// each counts into the budget before the next one is weighed. It returns what to tell the servers, by the samples' IDs.
func (r *run) lend(ctx workflow.Context, flights []*flight) (map[string]turn.Reply, error) {
	var waits []turn.Wait
	for _, f := range flights {
		for _, q := range f.receipt.Inquiries {
			if s := q.Sample; s != nil && !s.Free && s.Refused == "" {
				waits = append(waits, r.sampleWait(ctx, f, q))
			}
		}
	}
	rulings, err := r.hear(ctx, waits, r.progress.Pins.People.ApprovalExpiry)
	if err != nil {
		return nil, err
	}
	replies := map[string]turn.Reply{}
	for _, f := range flights {
		for _, q := range f.receipt.Inquiries {
			if q.Sample == nil {
				continue
			}
			if replies[q.Sample.ID], err = r.lent(ctx, f, q, rulings[q.Sample.ID]); err != nil {
				return nil, err
			}
		}
	}
	return replies, nil
}

// sampleWait is for the approval of what a server asks the model. The journal fills in what would be asked.
func (r *run) sampleWait(ctx workflow.Context, f *flight, q turn.Inquiry) turn.Wait {
	return turn.Wait{
		ID: q.Sample.ID, Kind: turn.WaitApproval, Step: r.progress.Counters.Step, Tool: f.call.Tool, Call: f.call.ID, Inquiry: &q,
		Arguments: turn.Cut(q.Message, turn.ArgumentsPreview), ArgumentsHash: q.Sample.Hash, Widest: turn.AlwaysNever, Why: turn.Cut(q.Message, turn.ResultPreview),
		ExpiresAt: expiry(ctx, r.progress.Pins.People.ApprovalExpiry),
	}
}

// lent is what a server is told: by reference where there is an answer, and otherwise why there is none.
func (r *run) lent(ctx workflow.Context, f *flight, q turn.Inquiry, ruling turn.Ruling) (turn.Reply, error) {
	out := turn.Reply{Key: q.Key, Action: turn.ReplyCancel, Why: q.Sample.Refused}
	switch {
	case out.Why != "":
		return out, nil
	case q.Sample.Free, ruling.Allowed:
	case ruling.Verdict == turn.VerdictExpired:
		out.Why = "nobody has allowed it in time"
		return out, nil
	default:
		out.Action, out.Why = turn.ReplyDecline, "the user denied it"
		if ruling.Reason != "" {
			out.Why += ": " + ruling.Reason
		}
		return out, nil
	}
	res, err := r.sample(ctx, f.call.ID, *q.Sample)
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case err != nil:
		out.Why = message(err)
	case res.Refused != "":
		out.Why = res.Refused
	default:
		out.Action, out.Sample = turn.ReplyAccept, q.Sample.ID
	}
	return out, nil
}

// sample asks the model, unless the turn's budget is used up: then the journal has that. It is an inference like any other,
// but no step of the turn, and its answer is not the turn's.
func (r *run) sample(ctx workflow.Context, callID string, s turn.Sampling) (SampleResult, error) {
	pins, c := r.progress.Pins, &r.progress.Counters
	budget := turn.Remaining(pins.Limits, *c)
	in := SampleInput{
		Version: WireVersion, Session: r.session, Turn: r.turnID, Step: c.Step, Call: callID, ID: s.ID, Hash: s.Hash,
		Model: pins.Model, Budget: budget, RetryMax: pins.RetryMax,
	}
	left, no := turn.GuardSample(pins.Limits, *c)
	in.MaxTokens = left
	if no != nil {
		in.Refused = string(turn.CodeBudgetExceeded) + ": " + no.Message
	}
	ctx = workflow.WithActivityOptions(ctx, inferOptions(budget, fmt.Sprintf("%s · for the server of call %s", turn.Cut(pins.Model, 80), callID)))
	res, err := call(ctx, r.atOnce(), Activities.Sample, in)
	if err == nil {
		c.Usage = c.Usage.Add(res.Usage)
		c.Busy += res.Busy
		c.CostUnknown = c.CostUnknown || res.Usage.Total() > 0 // as for inferences
	}
	return res, err
}

// inferOptions are those of what asks a model.
func inferOptions(budget time.Duration, summary string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout: budget + inferRoom,
		HeartbeatTimeout:    heartbeat,
		WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
			MaximumAttempts: inferAttempts, NonRetryableErrorTypes: nonRetryable,
		},
		Summary: summary,
	}
}
