package workflows

import (
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// desk is where people find what a turn asks them, and where the turn finds what they said. It is empty while nothing
// is asked; the last rulings stay on it, so that who comes late is told.
type desk struct {
	waits   []turn.Request
	rulings []turn.Decision
	kept    int // the first so many of them were in the journal when the waits were asked for
	// answers is how many messages waited to join when a question was asked: the next one answers it.
	answers int
}

// put asks for something new.
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

// rule takes the first ruling of a wait.
func (d *desk) rule(r turn.Decision) {
	if _, ruled := d.ruling(r.ID); !ruled {
		d.rulings = append(d.rulings, r)
	}
}

// keep puts the journal's rulings, of a run that was reset, in front of what was said since: the first one stands.
func (d *desk) keep(before []turn.Decision) {
	since := d.rulings
	d.rulings, d.kept = slices.Clone(before), len(before)
	for _, r := range since {
		d.rule(r)
	}
}

// open are the waits that nobody has ruled.
func (d *desk) open() []turn.Request {
	var list []turn.Request
	for _, w := range d.waits {
		if _, ruled := d.ruling(w.ID); !ruled {
			list = append(list, w)
		}
	}
	return list
}

// summary is what an operator sees of the open waits.
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
