package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// outageTurn bounds the working time of turns that an outage hits, which is longer.
const outageTurn = "turn_timeout = \"15s\"\n"

// outageTime is how long an outage lasts, and outageTurns how many turns it hits, half of them in flight when it
// begins. Flags set them for a run by hand with times that are not scaled.
var (
	outageTime  = 20 * time.Second
	outageTurns = 8
)

// ending begins an outage and returns what ends it.
type ending func(ctx context.Context, r *harness) (end func() error, err error)

// longOutage makes a point at which something is away for long, while eight sessions work.
func longOutage(name, about string, begin ending, ofModel bool) point {
	p := point{name: name, about: about, interruptions: 25}
	p.weak = func(*harness) []string { return []string{"-kill", ""} }
	p.shape = func(r *harness) {
		busy(r)
		r.settings.runtime = outageTurn
		if !ofModel {
			hold(r)
		}
	}
	p.then = func(ctx context.Context, r *harness) error {
		answered, failed, err := r.ends(ctx)
		r.figures += fmt.Sprintf(", answered %d, failed %d", answered, failed)
		if err == nil && failed > 0 {
			err = fmt.Errorf("turns failed: %s", r.figures)
		}
		return err
	}
	p.act = func(ctx context.Context, r *harness) error {
		var others []*turnPlan
		for i := range outageTurns - 2 { // besides the target and the companion
			t := randomTurn(r.rng, fmt.Sprintf("%s-o%d", r.target.session, i), 2)
			t.add(1, func(int) string { return once })
			others = append(others, r.plan(t))
		}
		reached := (*harness).ask
		if !ofModel {
			reached = func(r *harness, ctx context.Context) error { return r.askToGate(ctx) }
		}
		for _, t := range others[:len(others)/2] {
			r.converse(ctx, t, false)
		}
		if err := reached(r, ctx); err != nil {
			return err
		}
		end, err := begin(ctx, r)
		if err != nil {
			return err
		}
		r.gate.Release()
		for _, t := range others[len(others)/2:] {
			r.converse(ctx, t, false)
		}
		err = r.watchOutage(ctx, ofModel)
		return errors.Join(err, end())
	}
	return p
}

// watchOutage waits out an outage. Of a model's, it checks that what waits holds no slots of the worker and that the
// provider is left alone.
func (r *harness) watchOutage(ctx context.Context, ofModel bool) error {
	asked, held, samples, most := len(r.model.Requests()), 0, 0, 0
	for began := time.Now(); time.Since(began) < outageTime; {
		if err := pause(ctx, max(500*time.Millisecond, outageTime/100)); err != nil {
			return err
		}
		if time.Since(began) < outageTime/2 {
			continue // the first attempts are under way
		}
		n := r.slotsInUse(ctx)
		held += n
		samples++
		most = max(most, n)
	}
	requests := len(r.model.Requests()) - asked
	r.figures = fmt.Sprintf("%d turns, %d requests, slots in use %.1f on average and %d at most", outageTurns, requests,
		float64(held)/float64(max(samples, 1)), most)
	if !ofModel {
		return nil
	}
	if 2*held > outageTurns*samples { // turns that held their slots while they wait would hold all of them
		return fmt.Errorf("turns that wait hold slots: %s", r.figures)
	}
	if requests > 2*outageTurns+24+int(outageTime/(15*time.Second)) {
		return fmt.Errorf("the provider is not left alone: %s", r.figures)
	}
	return nil
}

// ends counts the turns that were answered, and those that ended otherwise.
func (r *harness) ends(ctx context.Context) (answered, failed int, err error) {
	for _, session := range r.sessions() {
		turns, err := r.journal.Turns(ctx, session)
		if err != nil {
			return 0, 0, err
		}
		for _, t := range turns {
			if t.State == turn.StateCompleted && t.Reason == turn.FinishAnswered {
				answered++
			} else {
				failed++
			}
		}
	}
	return answered, failed, nil
}

// slotsInUse counts the activities of all sessions that run on the worker.
func (r *harness) slotsInUse(ctx context.Context) (n int) {
	for _, session := range r.sessions() {
		d, err := r.direct.DescribeWorkflowExecution(ctx, session, "")
		if err != nil {
			continue // its turn has not begun
		}
		for _, a := range d.GetPendingActivities() {
			if a.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED {
				n++
			}
		}
	}
	return n
}

// modelRefuses lets the provider answer all requests in the same way.
func modelRefuses(reply fakellm.Reply) ending {
	return func(_ context.Context, r *harness) (func() error, error) {
		swap := func(adapt func(fakellm.Request, *turnPlan, fakellm.Reply) fakellm.Reply) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.adapt = adapt
		}
		swap(func(fakellm.Request, *turnPlan, fakellm.Reply) fakellm.Reply { return reply })
		return func() error { swap(nil); return nil }, nil
	}
}

func modelGoneAway(_ context.Context, r *harness) (func() error, error) {
	r.provider.down()
	return r.provider.up, nil
}

func modelSilent(_ context.Context, r *harness) (func() error, error) {
	up, err := r.provider.toxic("timeout", "upstream", map[string]any{"timeout": 0})
	if err != nil {
		return nil, err
	}
	return func() error { // what hangs in the link is dropped with it
		err := up()
		r.provider.down()
		return errors.Join(err, r.provider.up())
	}, nil
}

func diskFull(ctx context.Context, r *harness) (func() error, error) {
	return r.database.fill(ctx, r.first())
}

func journalUnreachable(_ context.Context, r *harness) (func() error, error) {
	r.journalLink.down()
	return r.journalLink.up, nil
}

// readOnly makes the database refuse writes, as after a failover that left a standby at the address.
func readOnly(ctx context.Context, r *harness) (func() error, error) {
	d := r.database.(*postgresDatabase)
	reconnect := func(ctx context.Context, setting string) error {
		return errors.Join(d.server.Exec(ctx, d.server.URL(), "ALTER DATABASE "+d.name+" "+setting),
			d.server.Exec(ctx, d.server.URL(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+
				d.name+"'"))
	}
	return func() error {
		return reconnect(context.WithoutCancel(ctx), "RESET default_transaction_read_only")
	}, reconnect(ctx, "SET default_transaction_read_only = on")
}

// both begins two outages.
func both(a, b ending) ending {
	return func(ctx context.Context, r *harness) (func() error, error) {
		endA, err := a(ctx, r)
		if err != nil {
			return nil, err
		}
		endB, err := b(ctx, r)
		if err != nil {
			return nil, errors.Join(err, endA())
		}
		return func() error { return errors.Join(endA(), endB()) }, nil
	}
}

// longOutages returns the outages of a provider and of a journal.
func longOutages() []point {
	limited := fakellm.Status(http.StatusTooManyRequests, "rate_limit_exceeded", "slow down")
	broken := fakellm.Status(http.StatusInternalServerError, "server_error", "oops")
	return []point{
		longOutage("long_429", "the provider limits the rate for long", modelRefuses(limited), true),
		longOutage("long_500", "the provider answers 500 for long", modelRefuses(broken), true),
		longOutage("long_refused", "nothing listens at the provider's address for long", modelGoneAway, true),
		longOutage("long_silent", "the provider accepts requests and says nothing for long", modelSilent, true),
		longOutage("long_disk", "the journal's disk is full for long", diskFull, false),
		longOutage("long_both", "the provider answers 500 and the journal's disk is full for long",
			both(modelRefuses(broken), diskFull), false),
		onPostgres(longOutage("long_postgres", "worker–Postgres is down for long", journalUnreachable, false)),
		onPostgres(longOutage("long_readonly", "Postgres is a standby for long", readOnly, false)),
	}
}

func onPostgres(p point) point {
	p.onlyPostgres = true
	return p
}
