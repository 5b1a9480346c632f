package toolbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/everturn/everturn/internal/plain"
	"github.com/everturn/everturn/workflows/turn"
)

// connector manages the connections to one server. It connects when a call needs a connection, replaces sessions that
// died, closes idle ones, and backs off from a server that fails. Its sessions are caches: each may end at any time,
// and the next call opens another. A connector belongs to one server of one Host, so all of its sessions share one
// configuration and its credentials; each session belongs to one tenant (see party).
type connector struct {
	describer describer
	dialer    dialer
	redact    redactor
	opts      Options
	log       *slog.Logger
	ctx       context.Context // ends when the host closes
	running   *tasks          // the host's goroutines
	permits   chan struct{}   // one element for each call in flight; nil: unlimited
	share     chan struct{}   // one element for each call of this server that occupies the worker
	places    chan struct{}   // the host's, shared by all servers
	processes *processes      // nil: this worker does not run the server

	mu      sync.Mutex
	parties map[string]*party // by tenant; the default tenant's, under "", always exists
	version *string           // of the last handshake that succeeded
	record  record
	known   *turn.Catalogue // the catalogue that the default tenant's connection listed last
	events  chan struct{}   // signals a change; capacity 1
}

// attempt is what a caller without a session waits for: a connect in progress, or the end of a session that died.
type attempt struct {
	done chan struct{}
	err  error
}

func (c *connector) id() string { return c.describer.server.ID }

// name returns the server's name for messages.
func (c *connector) name() string { return fmt.Sprintf("MCP server %q", c.id()) }

// connect carries out an attempt. It lasts at most as long as the host, independently of the caller that needed it
// first.
func (c *connector) connect(sl *slot, a *attempt) {
	ctx, cancel := context.WithTimeout(c.ctx, c.describer.server.ConnectTimeout)
	defer cancel()
	p := sl.party
	s, err := c.open(ctx, p)
	if err == nil {
		err = c.install(sl, s)
		if err != nil { // no caller has used this session
			s.retire()
		}
		if errors.Is(err, errStillborn) {
			err = c.explain(ctx, s.link, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	sl.attempt = nil
	p.connecting--
	if err != nil {
		p.breaker.connectFailed(time.Now())
		p.problem, p.told = err.Error(), toldOf(err)
		c.record.failed(err.Error())
		if e := (*Excess)(nil); errors.As(err, &e) {
			c.quarantine(p, e)
		}
		a.err = &outage{all: c.name() + " is unavailable: " + p.problem, told: c.told(p), wait: p.breaker.pause(time.Now())}
		c.log.Warn("connecting to an MCP server", "server", c.id(), "tenant", p.tenant, "failures", p.breaker.connects, "error", err)
		c.forgetSlot(sl)
	}
	close(a.done)
	c.changed()
}

// errStillborn is the error of a connect whose connection ended before any call could use it.
var errStillborn = errors.New("its connection was lost as soon as it was made")

// install makes s the session that calls use, unless the host is closed or s has already ended. In the latter case
// ended has already been called for s, and is not called again.
func (c *connector) install(sl *slot, s *session) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ctx.Err() != nil:
		return errHostClosed
	case s.gone:
		return errStillborn
	}
	sl.party.connected()
	s.slot, sl.current, sl.resting = sl, s, false
	s.since, s.answers = time.Now(), sl.party.answers
	sl.party.slots[sl.turn] = sl
	s.startIdling(c.describer.server.IdleTimeout)
	return nil
}

// open dials and does the handshake, in each protocol version worth trying. If the server rejects one version, open
// tries the other; over HTTP it also does so if the server does not respond.
func (c *connector) open(ctx context.Context, p *party) (*session, error) {
	var last error
	var versions []string // chosen once: another tenant's connect may change what is worth trying
	for i := 0; ; i++ {
		l, err := c.dialer.dial(ctx, p.tenant)
		if err != nil {
			return nil, &outage{all: c.redact.text(err.Error()), told: inOurWords(err)}
		}
		if i == 0 {
			versions = c.worthTrying(l)
		}
		probe, cancel := ctx, context.CancelFunc(func() {})
		if i+1 < len(versions) && !l.disposable {
			probe, cancel = context.WithTimeout(ctx, c.describer.server.ConnectTimeout/3)
		}
		s, err := c.handshake(probe, p, l, versions[i])
		silentProbe := probe.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil {
			return c.upgraded(ctx, s, versions[i])
		}
		last = c.explain(ctx, l, err)
		var refusal *jsonrpc.Error
		if i+1 >= len(versions) || !silentProbe && !errors.As(err, &refusal) {
			c.forget()
			return nil, last
		}
	}
}

func (c *connector) worthTrying(l *link) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version != nil {
		return []string{*c.version}
	}
	return l.versions
}

func (c *connector) remember(version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = &version
}

func (c *connector) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = nil
}

// explain returns the error of a failed handshake, with the end of the server's stderr.
func (c *connector) explain(ctx context.Context, l *link, err error) error {
	why, told := c.clean(err.Error(), 400), inOurWords(err)
	server := c.describer.server
	if ctx.Err() != nil {
		why = fmt.Sprintf("it did not finish its handshake within %s (connect_timeout)", server.ConnectTimeout)
		told = why
		if server.URL == "" {
			why += "; if it is still downloading, install it first or raise that"
		}
	}
	if at := plain.Address(server.URL); at != "" && !strings.Contains(why, at) {
		why = at + ": " + why
	}
	if fate := l.fate(); fate != "" {
		why += "; its process ended with " + fate
		told = "its process ended with " + fate
	}
	c.keepStderr(l)
	if e := l.meter.excess(); e != nil {
		return fmt.Errorf("%w%s", e, c.stderrNote(l))
	}
	return &outage{all: c.redact.text(why) + c.stderrNote(l), told: told}
}

// offended starts a backoff from the server of a session in use that exceeded a bound, once per session, whether ended
// or detach reports it first. The caller holds the connector's lock.
func (c *connector) offended(s *session, e *Excess) {
	if !s.over {
		s.over = true
		c.quarantine(s.party, e)
	}
}

// quarantine starts a backoff from the server because a connection exceeded a bound. The caller holds the connector's
// lock.
func (c *connector) quarantine(p *party, e *Excess) {
	p.breaker.misbehaved(time.Now())
	c.record.drops++
	c.record.excess = e
	c.log.Warn("an MCP server's connection was dropped", "server", c.id(), "tenant", p.tenant,
		"bound", e.Bound, "limit", e.Limit, "offences", p.breaker.offences)
}

// stderrNote returns the end of the server's stderr, for operators.
func (c *connector) stderrNote(l *link) string {
	tail := c.stderrTail(l)
	if tail == "" {
		return ""
	}
	return "; its stderr ends with:\n" + tail
}

// stderrTail returns at most the last 1 KiB of stderr, redacted before it is cut.
func (c *connector) stderrTail(l *link) string {
	kept := l.tail()
	tail := plain.Sanitize(kept)
	if len(kept) >= c.opts.StderrTailBytes { // the text before it is lost
		tail = c.redact.tail(tail)
	}
	tail = c.redact.text(tail)
	if len(tail) > 1024 {
		tail = "…" + tail[plain.Start(tail, len(tail)-1024):]
	}
	return tail
}

// steady is the minimum lifetime of a connection that counts as useful without an answered call.
const steady = time.Second

// ended records that a session's connection has ended.
func (c *connector) ended(s *session, crashed bool) {
	c.keepStderr(s.link)
	excess, rested := s.link.meter.excess(), s.hasRested()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.gone = true
	c.vacate(s)
	if c.ctx.Err() == nil && !rested && s.slot != nil { // a session that was never in use does not count
		c.record.restarts++
	}
	if (crashed || excess != nil) && c.ctx.Err() == nil {
		c.lost(s, excess)
	}
	c.changed()
}

// lost records why a session's connection ended unexpectedly. The caller holds the connector's lock.
func (c *connector) lost(s *session, excess *Excess) {
	p, why := s.party, "its connection was lost"
	if excess != nil {
		why = excess.Error()
	}
	p.problem, p.told = c.redact.text(why)+c.stderrNote(s.link), why
	c.record.failed(p.problem)
	switch now := time.Now(); {
	case s.slot == nil: // it counts as a failed connect
	case excess != nil:
		c.offended(s, excess)
	default:
		p.breaker.lost(now, now.Sub(s.since) >= steady || p.answers > s.answers)
	}
	c.log.Warn("an MCP server's connection was lost", "server", c.id(), "tenant", p.tenant,
		"soon", p.breaker.flaps, "process", s.link.fate())
}

// answered records that the server answered.
func (c *connector) answered(p *party) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.breaker.answered()
	p.problem, p.told = "", ""
	p.answers++
	c.note()
}

// detach removes s from its slot, so that the next caller starts a new session.
func (c *connector) detach(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := s.link.meter.excess(); e != nil && s.slot != nil {
		s.party.problem, s.party.told = e.Error(), e.Error()
		c.record.failed(e.Error())
		c.offended(s, e)
	}
	c.vacate(s)
	c.note()
}

// changed updates the recorded states and wakes the watcher. The caller holds the connector's lock.
func (c *connector) changed() {
	c.note()
	c.poke()
}

// note records the server's current state, for each tenant and overall. The caller holds the connector's lock.
func (c *connector) note() {
	for _, p := range c.parties {
		p.note(p.state())
	}
	c.record.note(c.state())
}

// learn keeps the latest catalogue and wakes the watcher if it differs. There is one catalogue for all tenants: the one
// that the default tenant's connection lists. If another tenant's connection lists a different one, the default
// tenant's connection lists again.
func (c *connector) learn(p *party, offered turn.Catalogue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known != nil && c.known.Hash == offered.Hash {
		return
	}
	if p.tenant == "" {
		if n := offered.Misnamed; len(n) > 0 && (c.known == nil || !slices.Equal(n, c.known.Misnamed)) {
			c.log.Warn("agent.toml names tools that the server does not offer", "server", c.id(), "tools", n)
		}
		c.known = &offered
	} else if sl := c.shared().slots[""]; sl != nil {
		sl.resting = false
	}
	c.poke()
}

// poke wakes the watcher. It does not need the connector's lock.
func (c *connector) poke() {
	select {
	case c.events <- struct{}{}:
	default:
	}
}

// catalogue returns what the server offers now, or a catalogue whose Problem says why it cannot be listed.
func (c *connector) catalogue(ctx context.Context) turn.Catalogue {
	s, err := c.acquire(ctx, "", "")
	if err == nil {
		defer s.leave()
		var o offer
		if o, err = s.offer(ctx, false); err == nil {
			return o.catalogue
		}
	}
	out := c.describer.blank()
	out.Problem = err.Error()
	return out
}

// close ends the sessions in use, if any.
func (c *connector) close() {
	c.mu.Lock()
	var open []*session
	for _, p := range c.parties {
		for _, sl := range p.slots {
			if sl.current != nil {
				open = append(open, sl.current)
			}
		}
		clear(p.slots)
	}
	c.mu.Unlock()
	for _, s := range open {
		s.retire()
	}
}
