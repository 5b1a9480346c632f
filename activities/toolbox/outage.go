package toolbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// outage is why a call cannot be sent now. A server's own words, such as its stderr, are only for operators: the model
// reads told, which contains only this package's words.
type outage struct {
	all, told string
	wait      time.Duration // until the server is tried again; 0: immediately
}

func (o *outage) Error() string { return o.all }

// inOurs returns an outage whose text contains no words of a server.
func inOurs(text string) *outage { return &outage{all: text, told: text} }

// toldOf returns what the model may read of an error.
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

// told tells the model that the server is unavailable for p, and why. The connector's lock is held.
func (c *connector) told(p *party) string {
	if p.told == "" {
		return c.name() + " is unavailable"
	}
	return c.name() + " is unavailable: " + p.told
}

// unavailable returns the outage of a server that is not tried for p right now. The connector's lock is held.
func (c *connector) unavailable(p *party, wait time.Duration) error {
	all := fmt.Sprintf("%s is unavailable and is tried again in %s: %s", c.name(), max(wait.Round(time.Second), time.Second), p.problem)
	if wait <= 0 {
		all = fmt.Sprintf("%s is unavailable; another call is testing it now: %s", c.name(), p.problem)
	}
	return &outage{all: all, told: c.told(p), wait: wait}
}

// notCalled returns the error of a call that was not sent: err itself if it is a *turn.Error, otherwise tool_not_sent
// with the reason and the time until the next attempt.
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
