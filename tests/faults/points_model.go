package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/everturn/everturn/tests/fakellm"
)

// models returns the points at which the worker dies while another model takes over, while it compacts a prompt, and
// while the turn waits for a limit of its provider.
func models() []point {
	return []point{
		withModel(dies("fallback_before", "the model is gone and the journal names no other", "ChangeModel:before", firstOf),
			"fallback = [\"openai:spare\"]\n", modelGone),
		withModel(dies("fallback_after", "the journal names another model, which was not asked", "ChangeModel:after",
			firstOf),
			"fallback = [\"openai:spare\"]\n", modelGone),
		withModel(dies("limit_before", "the provider refuses for seconds, and the failure is not counted",
			"FailInference:before", firstOf), "", quotaUsedUp),
		withModel(dies("limit_after", "the failure is counted and the turn does not wait yet", "FailInference:after",
			firstOf), "", quotaUsedUp),
		withoutTools(dies("mode_before", "a model refuses tools and the journal does not know", "ChangeModel:before", firstOf), 2),
		withoutTools(dies("mode_after", "the journal knows that a model takes no tools, and it was not asked again",
			"ChangeModel:after", firstOf), 1),
		compactionSettings(dies("compaction_before", "a summary is paid for and not settled", "SettleCompaction:before", firstOf)),
		compactionSettings(dies("compaction_after", "a compaction is settled and the prompt was not sent",
			"SettleCompaction:after", firstOf)),
	}
}

// withModel adds lines to the section [llm], and answers one of the target's steps with bad as long as ill says so.
func withModel(p point, llm string, bad func(q fakellm.Request) (reply fakellm.Reply, ill bool)) point {
	p.shape = func(r *harness) {
		r.settings.llm = llm
		busy(r)
		step := r.rng.IntN(len(r.target.steps) + 1)
		r.adapt = func(q fakellm.Request, t *turnPlan, reply fakellm.Reply) fakellm.Reply {
			if t.id != r.target.id || q.Step != step {
				return reply
			}
			if failure, ill := bad(q); ill {
				return failure
			}
			return reply
		}
	}
	return p
}

// withoutTools lets the model refuse the target's requests with tools, and answer the others with JSON actions. Only the
// first requests may have tools.
func withoutTools(p point, first int) point {
	p.shape = func(r *harness) {
		for range 2 + r.rng.IntN(2) {
			r.target.add(1, func(int) string { return tools[r.rng.IntN(len(tools))] })
		}
		r.adapt = func(q fakellm.Request, t *turnPlan, reply fakellm.Reply) fakellm.Reply {
			switch {
			case t.id != r.target.id:
				return reply
			case len(q.Chat.Tools) > 0:
				return fakellm.Status(http.StatusBadRequest, "api_error", "scripted does not support tools")
			case q.Step < len(t.steps):
				c := t.steps[q.Step][0]
				return fakellm.JSONCall(c.tool, c.arguments()).Usage(10, 5, 0)
			}
			return fakellm.JSONFinal(t.final).Usage(10, 5, 0)
		}
	}
	p.then = func(_ context.Context, r *harness) error {
		refused := 0
		for _, q := range r.model.Requests() {
			if q.Chat.Asked() == r.target.text && len(q.Chat.Tools) > 0 {
				refused++
			}
		}
		if refused > first {
			return fmt.Errorf("tools were offered %d times to a model that takes none", refused)
		}
		return nil
	}
	return p
}

func modelGone(q fakellm.Request) (fakellm.Reply, bool) {
	return fakellm.Status(http.StatusNotFound, "model_not_found", "no such model"), q.Chat.Model != "spare"
}

func quotaUsedUp(q fakellm.Request) (fakellm.Reply, bool) {
	return fakellm.Status(http.StatusTooManyRequests, "rate_limit_exceeded", "used up").RetryAfter("4"), q.Attempt == 1
}

// compacting makes the target's session so long that its next turn compacts it.
func compactionSettings(p point) point {
	p.shape = func(r *harness) {
		r.settings.extra += "[[models]]\nname = \"scripted\"\ncontext_tokens = 17000\n"
		r.target.text += strings.Repeat(" It is long.", 830)
		busy(r)
		r.adapt = func(q fakellm.Request, _ *turnPlan, reply fakellm.Reply) fakellm.Reply {
			return reply.Counts(fakellm.Usage{Prompt: len(q.Body) / 4, Completion: 20})
		}
	}
	act := p.act
	p.act = func(ctx context.Context, r *harness) error {
		for n := range 7 {
			t := newTurn(r.rng, r.target.session, 10+n)
			t.final += strings.Repeat(" "+strings.Repeat("so-it-is-", 100)+"explained.", 3)
			r.converse(ctx, r.plan(t), true)
			if err := r.settle(); err != nil {
				return err
			}
		}
		return act(ctx, r)
	}
	return p
}

// isSummary says whether a request asks for a summary.
func isSummary(q fakellm.Request) bool {
	return len(q.Chat.Messages) > 0 && strings.HasPrefix(q.Chat.Messages[0].Content, "You summarize")
}

// summary is the answer to a request for a summary.
func summary() fakellm.Reply {
	return fakellm.Text("They talked about a long explanation.").Delay(10 * time.Millisecond)
}
