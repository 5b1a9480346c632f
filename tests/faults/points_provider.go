package main

import (
	"context"
	"net/http"
	"time"

	"github.com/everturn/everturn/tests/fakellm"
)

// misbehaves makes a point at which the provider answers one request badly and the next one well.
func misbehaves(name, about string, bad func(good fakellm.Reply) fakellm.Reply) point {
	step := 0
	return point{
		name: name, about: about,
		shape: func(r *harness) {
			busy(r)
			step = r.rng.IntN(len(r.target.steps) + 1)
			r.adapt = func(q fakellm.Request, t *turnPlan, reply fakellm.Reply) fakellm.Reply {
				if t.id == r.target.id && q.Step == step && q.Attempt == 1 {
					return bad(reply)
				}
				return reply
			}
		},
		act: func(ctx context.Context, r *harness) error {
			if err := r.ask(ctx); err != nil {
				return err
			}
			return r.askedTwice(ctx, step)
		},
	}
}

func instead(reply fakellm.Reply) func(fakellm.Reply) fakellm.Reply {
	return func(fakellm.Reply) fakellm.Reply { return reply }
}

// provider returns the ways in which model providers are known to fail.
func provider() []point {
	limited := fakellm.Status(http.StatusTooManyRequests, "rate_limit_exceeded", "slow down")
	return []point{
		misbehaves("llm_429_seconds", "429, Retry-After in seconds", instead(limited.RetryAfter("1"))),
		misbehaves("llm_429_date", "429, Retry-After as a date", func(fakellm.Reply) fakellm.Reply {
			return limited.RetryAfter(time.Now().Add(time.Second).UTC().Format(http.TimeFormat))
		}),
		{name: "llm_429_absurd", about: "429, Retry-After of a year", shape: always(limited.RetryAfter("31536000")),
			act: func(ctx context.Context, r *harness) error { return r.ask(ctx) }},
		misbehaves("llm_500", "500", instead(fakellm.Status(http.StatusInternalServerError, "server_error", "oops"))),
		misbehaves("llm_503_page", "503 with a page of HTML",
			instead(fakellm.StatusBody(http.StatusServiceUnavailable, "text/html", "<h1>down</h1>"))),
		misbehaves("llm_cut", "the stream ends in the middle",
			func(good fakellm.Reply) fakellm.Reply { return good.CutAfter(2) }),
		misbehaves("llm_reset", "the connection is reset in the middle",
			func(good fakellm.Reply) fakellm.Reply { return good.ResetAfter(2) }),
		misbehaves("llm_refused", "the connection is reset before an answer",
			func(good fakellm.Reply) fakellm.Reply { return good.ResetAfter(-1) }),
		misbehaves("llm_stall", "the stream goes silent",
			func(good fakellm.Reply) fakellm.Reply { return good.StallAfter(2) }),
		misbehaves("llm_garbage", "events that are not JSON",
			instead(fakellm.Raw("data: {\"choices\":[{\n\n", "data: \xff\xfe\n\n"))),
		misbehaves("llm_bad_utf8", "text that is not UTF-8, and no end", instead(fakellm.Raw(
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\xff\xfe\xc3(\"}}]}\n\n"))),
		{name: "llm_huge", about: "a body of 1 GB, again and again", shape: always(fakellm.Huge(1 << 30)), act: refused},
		misbehaves("llm_no_finish", "no finish reason",
			func(good fakellm.Reply) fakellm.Reply { return good.Finish("").CutAfter(3) }),
	}
}

// always has the provider answer one of the target's steps badly, for good.
func always(reply fakellm.Reply) func(*harness) {
	return func(r *harness) {
		busy(r)
		step := r.rng.IntN(len(r.target.steps) + 1)
		r.adapt = func(q fakellm.Request, t *turnPlan, good fakellm.Reply) fakellm.Reply {
			if t.id == r.target.id && q.Step == step {
				return reply
			}
			return good
		}
		r.failing = append(r.failing, r.target.id)
	}
}

// refused waits until the worker has rejected an answer. The turn then fails: a retry would pay for the same answer
// again.
func refused(ctx context.Context, r *harness) error {
	if err := r.ask(ctx); err != nil {
		return err
	}
	return reach(ctx, "an answer that the worker breaks off", func() bool {
		return anyOf(r.model.Requests(), func(q fakellm.Request) bool {
			return q.Reply == "huge" &&
				q.Outcome == fakellm.Aborted
		})
	})
}
