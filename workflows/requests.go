package workflows

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// requestSet holds the requests of the turn's current step and their decisions. Update handlers add decisions, and the
// workflow code reads them. Both stay in the set after the last decision, so that a client that decides too late gets
// the first decision.
type requestSet struct {
	requests  []turn.Request
	decisions []turn.Decision
	// messagesBefore is the number of messages that were waiting to be merged when the question was asked. The next
	// message answers it.
	messagesBefore int
	// recording counts the activities that record decisions in the journal. Until they end, a message that has answered
	// the question may turn out to be a duplicate, and the question stays open.
	recording int
}

// add adds requests, all of the same step, and removes those of other steps with their decisions. The other requests of
// the same step stay: its calls wait independently, so another call may not have read its decisions yet. A request with
// the ID of an earlier one replaces it and keeps its decision, which can arrive in a continued run before the run opens
// its requests again. The list requests must not be empty.
func (s *requestSet) add(requests ...turn.Request) {
	s.requests = slices.DeleteFunc(s.requests, func(req turn.Request) bool {
		return req.Step != requests[0].Step || hasRequest(requests, req.ID)
	})
	s.requests = append(s.requests, requests...)
	s.decisions = slices.DeleteFunc(s.decisions, func(r turn.Decision) bool { return !hasRequest(s.requests, r.ID) })
}

// drop removes requests that could not be opened, with their decisions.
func (s *requestSet) drop(requests []turn.Request) {
	s.requests = slices.DeleteFunc(s.requests, func(req turn.Request) bool { return hasRequest(requests, req.ID) })
	s.decisions = slices.DeleteFunc(s.decisions, func(r turn.Decision) bool { return hasRequest(requests, r.ID) })
}

func hasRequest(list []turn.Request, id string) bool {
	return slices.ContainsFunc(list, func(r turn.Request) bool { return r.ID == id })
}

// find returns the request with this ID; the second result is false if there is none.
func (s *requestSet) find(id string) (turn.Request, bool) {
	i := slices.IndexFunc(s.requests, func(r turn.Request) bool { return r.ID == id })
	if i < 0 {
		return turn.Request{}, false
	}
	return s.requests[i], true
}

// decision returns the decision of the request with this ID; the second result is false if there is none.
func (s *requestSet) decision(id string) (turn.Decision, bool) {
	i := slices.IndexFunc(s.decisions, func(r turn.Decision) bool { return r.ID == id })
	if i < 0 {
		return turn.Decision{}, false
	}
	return s.decisions[i], true
}

// decide records the decision of a request, unless it already has one.
func (s *requestSet) decide(r turn.Decision) {
	if _, settled := s.decision(r.ID); !settled {
		s.decisions = append(s.decisions, r)
	}
}

// uncertain reports whether the request is a question that a message has answered which may be a duplicate.
func (s *requestSet) uncertain(id string) bool {
	d, _ := s.decision(id)
	return len(d.Messages) > 0 && s.recording > 0
}

// restore adds decisions that the journal already has, because the turn was reset to a point before them. They take
// precedence over decisions that have arrived since the reset.
func (s *requestSet) restore(recorded []turn.Decision) {
	arrived := s.decisions
	s.decisions = slices.Clone(recorded)
	for _, r := range arrived {
		s.decide(r)
	}
}

// decided returns the decisions of the given requests, in the order of their arrival.
func (s *requestSet) decided(requests []turn.Request) (list []turn.Decision) {
	for _, r := range s.decisions {
		if hasRequest(requests, r.ID) {
			list = append(list, r)
		}
	}
	return list
}

// undecided returns the given requests that have no decision.
func (s *requestSet) undecided(requests []turn.Request) (list []turn.Request) {
	for _, r := range requests {
		if _, settled := s.decision(r.ID); !settled {
			list = append(list, r)
		}
	}
	return list
}

// open returns the requests without a decision.
func (s *requestSet) open() []turn.Request { return s.undecided(s.requests) }

// expiry returns the time at which a request of now expires; the zero time means never, as does within <= 0.
func expiry(ctx workflow.Context, within time.Duration) time.Time {
	if within <= 0 {
		return time.Time{}
	}
	return workflow.Now(ctx).Add(within)
}

// request opens requests and waits until each is settled: by a decision, by its expiry, or because ended reports that
// the server of a call under way no longer waits. ended is nil for requests that belong to no call under way. It
// returns the decisions by request ID. within is the time until the requests expire; 0 means never. If the turn should
// continue in a new run (see mayMove), request returns errMoves. Waiting occupies no process and uses neither the
// turn's time nor its steps.
func (r *run) request(
	ctx workflow.Context, requests []turn.Request, within time.Duration, ended func() bool,
) (map[string]turn.Decision, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	open, err := r.openRequests(ctx, requests, ended != nil)
	if err == nil && len(open) > 0 {
		err = r.collect(ctx, open, within, ended)
	}
	if err != nil {
		return nil, err
	}
	decisions := make(map[string]turn.Decision, len(requests))
	for _, decision := range r.requests.decided(requests) {
		decisions[decision.ID] = decision
	}
	r.show(ctx)
	if len(r.requests.open()) > 0 { // another call of the step still waits
		return decisions, nil
	}
	return decisions, r.upsertState(ctx, turn.StateRunning)
}

// openRequests publishes requests in the request set, in the journal and in the search attributes, and returns the
// requests without a decision in the journal. The request set comes first: a client that reads a request in the journal
// must be able to decide it, even if the worker that wrote it has died since. fromUpdate means that an update has asked
// for the requests.
func (r *run) openRequests(ctx workflow.Context, requests []turn.Request, fromUpdate bool) ([]turn.Request, error) {
	for i := range requests {
		requests[i].Session, requests[i].Turn = r.session, r.turnID
	}
	r.requests.add(requests...)
	ask := runJournal[[]turn.Request, []turn.Decision]
	if fromUpdate {
		ask = recordUpdate[[]turn.Request, []turn.Decision]
	}
	decisions, err := ask(ctx, Activities.Ask, requests, askSummary(requests))
	if err != nil {
		r.requests.drop(requests)
		return nil, err
	}
	r.requests.restore(decisions)
	open := slices.DeleteFunc(slices.Clone(requests), func(req turn.Request) bool {
		return slices.ContainsFunc(decisions, func(d turn.Decision) bool { return d.ID == req.ID })
	})
	r.show(ctx)
	return open, r.upsertState(ctx, turn.StateWaiting)
}

// askSummary returns the line that the Web UI shows for the activity that opens requests.
func askSummary(requests []turn.Request) string {
	switch requests[0].Kind {
	case turn.RequestQuestion:
		return "ask the user"
	case turn.RequestElicitation:
		return "ask for " + turn.Truncate(requests[0].Tool, 120)
	case turn.RequestResult:
		return "hand out " + turn.Truncate(requests[0].Tool, 120)
	}
	if len(requests) == 1 {
		return "ask for 1 approval"
	}
	return fmt.Sprintf("ask for %d approvals", len(requests))
}

// collect waits until every request of open is settled, and records each decision in the journal as it arrives. See
// request for within, ended and errMoves.
func (r *run) collect(ctx workflow.Context, open []turn.Request, within time.Duration, ended func() bool) error {
	never := func() bool { return false }
	expired := never
	if ended == nil {
		ended = never
	}
	if within > 0 {
		timing, stop := workflow.WithCancel(ctx)
		defer stop()
		expired = workflow.NewTimerWithOptions(timing, within,
			timer("expiry of "+string(open[0].Kind)+" "+open[0].ID)).IsReady
	}
	for len(open) > 0 {
		err := workflow.Await(ctx, func() bool {
			return len(r.requests.undecided(open)) < len(open) || r.questionAnswered() || expired() || ended() ||
				r.mayMove(ctx, open)
		})
		if ctx.Err() != nil { // cancellation fires the timer, too
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		r.decideWithoutUser(ctx, open, ended())
		fresh := r.requests.decided(open)
		if len(fresh) == 0 && r.mayMove(ctx, open) { // new decisions are recorded first
			return errMoves
		}
		decided := make([]turn.Request, len(fresh))
		for i, d := range fresh {
			decided[i] = turn.Request{Session: r.session, Turn: r.turnID, ID: d.ID, Decision: &d}
		}
		r.requests.recording++
		alreadySent, err := recordUpdate(ctx, Activities.Decide, decided, "record what was decided")
		r.requests.recording--
		if err != nil {
			return err
		}
		if alreadySent { // the messages are duplicates: the question stays open
			r.reopenQuestion()
			continue
		}
		open = slices.DeleteFunc(slices.Clone(open), func(req turn.Request) bool {
			return slices.ContainsFunc(fresh, func(d turn.Decision) bool { return d.ID == req.ID })
		})
	}
	return nil
}

// recordUpdate runs an activity that writes to the journal what has come with updates. It is a regular activity, which
// the server schedules together with the updates. A local activity's write would survive even if its workflow task is
// lost. The updates would then be redelivered, possibly in a different order, and get answers that contradict the
// journal.
func recordUpdate[In, Out any](ctx workflow.Context, act func(Activities, context.Context, In) (Out, error), in In,
	summary string) (out Out, err error) {
	future := runRegular(ctx, act, in, summary)
	if workflow.Await(ctx, future.IsReady) != nil { // cancelled
		return out, ctx.Err()
	}
	err = future.Get(ctx, &out)
	return out, err
}

// decideWithoutUser decides the requests that need no decision of a user: a question that a message has answered,
// requests that have expired and, if ended is true, the elicitations of a call that has ended. The others stay open.
func (r *run) decideWithoutUser(ctx workflow.Context, open []turn.Request, ended bool) {
	for _, req := range open {
		expired := turn.Decision{
			ID: req.ID, Status: turn.StatusExpired, At: workflow.Now(ctx), ArgumentsHash: req.ArgumentsHash,
		}
		switch {
		case req.Kind == turn.RequestQuestion && r.questionAnswered():
			r.requests.decide(turn.Decision{ID: req.ID, Status: turn.StatusAnswered, At: workflow.Now(ctx),
				Messages: r.messagesSinceQuestion()})
		case !req.ExpiresAt.IsZero() && !workflow.Now(ctx).Before(req.ExpiresAt):
			r.requests.decide(expired)
		case ended:
			expired.Reason = turn.ReasonCallEnded
			r.requests.decide(expired)
		}
	}
}
