package check

import (
	"bytes"
	"regexp"
	"slices"

	"github.com/everturn/everturn/journal"
)

// inferences checks I4: what the provider counted against what the journal says was paid.
func (c *checker) inferences() {
	known, paid := 0, 0
	for _, r := range c.Requests {
		if r.Summary {
			if known++; r.Outcome == sent {
				paid++
			}
		}
	}
	if paid > c.compaction+c.Run.Interruptions {
		c.breaks(I4, "%d summaries are paid for, the journal has %d, and the schedule interrupted %d times", paid,
			c.compaction,
			c.Run.Interruptions)
	}
	for _, t := range c.sortedTurns() {
		for _, inf := range t.inferences {
			if inf.Completion.Plan { // no provider has answered it
				continue
			}
			requests := c.asked(t, inf.Key.Step)
			known += len(requests)
			c.inference(t, inf, requests)
		}
	}
	if known != len(c.Requests) {
		c.breaks(I4, "the provider has %d requests and the journal accounts for %d", len(c.Requests), known)
	}
}

var modelOf = regexp.MustCompile(`"model":"[^"]*"`)

// anyModel leaves out the name of the model: a fallback sends the prompt to another one.
func anyModel(body []byte) []byte { return modelOf.ReplaceAllLiteral(body, nil) }

// inJSON reports whether a request describes its tools in the prompt, and its answer is a JSON action: the model takes no
// native tools, which it may show by refusing a request that has some.
func (r Request) inJSON() bool {
	return !bytes.Contains(r.Body, []byte(`"tools":[`)) && bytes.Contains(r.Body, []byte(`\"type\":\"tool_call\"`))
}

func (c *checker) inference(t *turnLedger, inf journal.ExportInference, requests []Request) {
	step, id := inf.Key.Step, t.record.ID
	whole := 0
	var last []byte // the request that was answered last
	for _, r := range requests {
		if inf.Settled && r.At.After(inf.SettledAt) {
			c.breaks(I4, "step %d of turn %s was sent again after it was settled", step, id)
		}
		first := requests[slices.IndexFunc(requests, func(o Request) bool { return o.inJSON() == r.inJSON() })]
		if !bytes.Equal(anyModel(r.Body), anyModel(first.Body)) {
			c.breaks(I4, "step %d of turn %s was sent again with another prompt", step, id)
		}
		if r.Outcome == sent {
			whole++
			last = r.Body
		}
	}
	if inf.Settled && whole > 0 && !bytes.Contains(last, []byte(`"model":"`+inf.Model+`"`)) {
		c.breaks(I4, "step %d of turn %s is settled by the model %s, which was not the last to answer", step, id, inf.Model)
	}
	if len(requests) > inf.Attempt {
		c.breaks(I4, "step %d of turn %s was sent %d times and the journal counts %d", step, id, len(requests), inf.Attempt)
	}
	if inf.Settled && whole == 0 {
		c.breaks(I4, "step %d of turn %s is settled and the provider never answered it whole", step, id)
	}
	if again := inf.Attempt - 1 - inf.Failures - inf.Released; again > c.Run.Interruptions {
		c.breaks(I4, "step %d of turn %s was begun %d times beyond the provider's failures, and the schedule interrupted "+
			"%d times",
			step, id, again, c.Run.Interruptions)
	}
}
