package toolbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// outage is why a call cannot be sent now. A server's own words, such as its stderr, are for people only: the model
// reads told, in which all words are ours.
type outage struct {
	all, told string
	wait      time.Duration // until the server is tried again; 0: as soon as it can be
}

func (o *outage) Error() string { return o.all }

// inOurs is an outage whose text holds no word of a server.
func inOurs(text string) *outage { return &outage{all: text, told: text} }

// toldOf is what the model may read of an error.
func toldOf(err error) string {
	var o *outage
	if errors.As(err, &o) {
		return o.told
	}
	if e := (*Excess)(nil); errors.As(err, &e) {
		return e.Error()
	}
	return inOurWords(err)
}

// told says to the model that the server is unavailable for p, and why. The connector's lock is held.
func (c *connector) told(p *party) string {
	if p.told == "" {
		return c.name() + " is unavailable"
	}
	return c.name() + " is unavailable: " + p.told
}

// unavailable says that the server is left alone for now, as far as p is concerned. The connector's lock is held.
func (c *connector) unavailable(p *party, wait time.Duration) error {
	all := fmt.Sprintf("%s is unavailable and is tried again in %s: %s", c.name(), max(wait.Round(time.Second), time.Second), p.problem)
	if wait <= 0 {
		all = fmt.Sprintf("%s is unavailable; another call is testing it now: %s", c.name(), p.problem)
	}
	return &outage{all: all, told: c.told(p), wait: wait}
}

// notCalled is the error of a call that did not leave: the one that it has already, or tool_not_sent with the reason
// and the time until the next attempt.
func notCalled(tool string, err error) error {
	var e *turn.Error
	if errors.As(err, &e) {
		return e
	}
	out := turn.Errorf(turn.CodeToolNotSent, err, tool+" was not called")
	if why := toldOf(err); why != "" {
		out.Message += ": " + why
	}
	var o *outage
	if errors.As(err, &o) {
		out.RetryAfter = o.wait
	}
	return out
}
