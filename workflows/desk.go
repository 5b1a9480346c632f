package workflows

import (
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// desk holds the turn's open requests and their decisions, for handlers and workflow code. It is empty until the turn
// asks for something. The last decisions stay on it, so that a late caller learns of them.
type desk struct {
	waits   []turn.Request
	rulings []turn.Decision
	kept    int // the number of leading decisions that the journal already has
	// answers is the number of messages that were waiting to be merged when the question was asked. The next message
	// answers it.
	answers int
}

// put replaces the requests and forgets the decisions.
func (d *desk) put(requests ...turn.Request) { d.waits, d.rulings, d.kept = requests, nil, 0 }

func (d *desk) find(id string) (turn.Request, bool) {
	i := slices.IndexFunc(d.waits, func(w turn.Request) bool { return w.ID == id })
	if i < 0 {
		return turn.Request{}, false
	}
	return d.waits[i], true
}

func (d *desk) ruling(id string) (turn.Decision, bool) {
	i := slices.IndexFunc(d.rulings, func(r turn.Decision) bool { return r.ID == id })
	if i < 0 {
		return turn.Decision{}, false
	}
	return d.rulings[i], true
}

// rule records the decision of a request, unless it already has one.
func (d *desk) rule(r turn.Decision) {
	if _, ruled := d.ruling(r.ID); !ruled {
		d.rulings = append(d.rulings, r)
	}
}

// keep puts decisions that the journal has from before a reset in front of those that arrived since. The first decision
// of a request stands.
func (d *desk) keep(before []turn.Decision) {
	since := d.rulings
	d.rulings, d.kept = slices.Clone(before), len(before)
	for _, r := range since {
		d.rule(r)
	}
}

// open returns the requests without a decision.
func (d *desk) open() []turn.Request {
	var list []turn.Request
	for _, w := range d.waits {
		if _, ruled := d.ruling(w.ID); !ruled {
			list = append(list, w)
		}
	}
	return list
}

// summary describes the open requests for an operator.
func (d *desk) summary() string {
	var lines []string
	for _, w := range d.open() {
		if w.Kind != turn.RequestApproval {
			lines = append(lines, "an answer: "+turn.Truncate(w.Question, 200))
		} else {
			lines = append(lines, fmt.Sprintf("approval of %s %s %s", w.ID, w.Tool, turn.Truncate(w.Arguments, 120)))
		}
	}
	return turn.Truncate(strings.Join(lines, "; "), 1000)
}
