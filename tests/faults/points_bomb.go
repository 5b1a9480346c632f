package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/tests/fakellm"
)

const (
	// stopAfter is how long a worker may work on a bomb before the operator stops the turn.
	stopAfter = 5 * time.Second
	// stopSoon is how soon the turn of a bomb must be over once it was stopped, and endSoon how soon the worker must have
	// ended once it was told to: its drain_timeout of 3 s, and time to close.
	stopSoon, endSoon = 5 * time.Second, 10 * time.Second
)

// bombs returns the points at which a provider's answer exhausts a worker's processor or memory.
func bombs() []point {
	return []point{
		bomb("attack_parts", "the provider's answer is one event with 1.9 million parts of calls", manyParts),
		bomb("attack_nested", "the provider's answer nests its text 4,900 deep around 28 MB", deepText),
	}
}

// bomb makes a point at which the provider answers the target with a bomb, every time. The turn fails, or the operator
// stops it; then the worker is told to end.
func bomb(name, about string, body func() string) point {
	return point{
		name: name, about: about,
		shape: func(r *harness) {
			r.adapt = func(_ fakellm.Request, t *turnPlan, reply fakellm.Reply) fakellm.Reply {
				if t.id == r.target.id {
					return fakellm.Raw(body())
				}
				return reply
			}
			r.failing = append(r.failing, r.target.id)
			r.stopped = append(r.stopped, r.target.id)
		},
		act: func(ctx context.Context, r *harness) error {
			err := r.besieged(ctx, bombResident, func(attack context.Context) error { return r.detonate(ctx, attack) })
			return errors.Join(err, r.first().end(endSoon), r.heal(ctx))
		},
	}
}

// detonate asks the target, stops it when the worker has had the bomb for stopAfter, and waits for the turn's end.
func (r *harness) detonate(turn, ctx context.Context) error {
	r.converse(turn, r.target, true)
	err := reach(ctx, "an answer that is a bomb", func() bool {
		sent := func(q fakellm.Request) bool { return q.Reply == "raw" && q.Outcome != fakellm.Open }
		return anyOf(r.model.Requests(), sent) || r.over(ctx, r.target)
	})
	if err != nil {
		return err
	}
	working, done := context.WithTimeout(ctx, stopAfter)
	defer done()
	if await(working, "the end of the turn", func() bool { return r.over(ctx, r.target) }) == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	_ = r.direct.CancelWorkflow(ctx, r.target.session, "") // it may have ended just now
	limited, cancel := context.WithTimeout(ctx, stopSoon)
	defer cancel()
	if err := await(limited, "the end of the stopped turn", func() bool { return r.over(ctx, r.target) }); err != nil {
		return fmt.Errorf("%s after the stop: %w", stopSoon, err)
	}
	return nil
}

// manyParts is one event whose tool calls have 1.9 million parts, each of another call: 32 MB, the limit of an answer.
var manyParts = sync.OnceValue(func() string {
	var b bytes.Buffer
	b.WriteString(`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0}`)
	for i := range 1_900_000 {
		fmt.Fprintf(&b, `,{"index":%d}`, i+1)
	}
	b.WriteString("]}}]}\n\n")
	return b.String()
})

// deepText is one event whose text is a list of parts of lists of parts, with 28 MB in the middle.
var deepText = sync.OnceValue(func() string {
	const depth = 4900 // a list and an object each: encoding/json takes 10,000 levels
	return `data: {"choices":[{"index":0,"delta":{"content":` + strings.Repeat(`[{"text":`, depth) + `"` +
		strings.Repeat("x", 28<<20) + `"` + strings.Repeat("}]", depth) + "}}]}\n\n"
})
