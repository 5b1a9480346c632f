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

// connector keeps one server reachable: it connects when a call needs it, replaces sessions that died, ends those that
// nobody uses, and leaves a server that fails alone for a while. Its sessions are caches: each may go at any time, and
// the next call makes another. They belong to one configuration of one server, with its credentials, because a Host is
// made for one configuration and a connector for one of its servers; and each belongs to one tenant: see party.
type connector struct {
	describer describer
	local     *Local // nil but for the local tools
	dialer    dialer
	redact    redactor
	opts      Options
	log       *slog.Logger
	ctx       context.Context // the host's life
	running   *tasks          // the host's goroutines
	permits   chan struct{}   // holds one for each call in flight; nil: they are not bounded
	share     chan struct{}   // holds one for each call that occupies the worker
	places    chan struct{}   // the host's, of all servers
	processes *processes      // nil: the server is not run here

	mu      sync.Mutex
	parties map[string]*party // by tenant; that of the default tenant, without a name, is always there
	version *string           // of the last handshake that succeeded
	record  record
	known   *turn.Catalogue // what the default tenant's connections listed last
	events  chan struct{}   // something changed; capacity 1
}

// attempt is something to wait for before there is a session: a connect under way, or the end of a session that died.
type attempt struct {
	done chan struct{}
	err  error
}

func (c *connector) id() string { return c.describer.server.ID }

// name is the server as people know it.
func (c *connector) name() string {
	if c.local != nil {
		return "the local tools"
	}
	return fmt.Sprintf("MCP server %q", c.id())
}

// connect carries out an attempt. It lives as long as the host at most, not as long as the caller that needed it first.
func (c *connector) connect(sl *slot, a *attempt) {
	ctx, cancel := context.WithTimeout(c.ctx, c.describer.server.ConnectTimeout)
	defer cancel()
	p := sl.party
	s, err := c.open(ctx, p)
	if err == nil {
		err = c.install(sl, s)
		if err != nil { // nobody has seen this session
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

// errStillborn is why a session is not used whose connection ended before anybody could.
var errStillborn = errors.New("its connection was lost as soon as it was made")

// install makes s the session that calls use, unless the host is closed, or s is over already: of that the connector has
// been told, and is not told again.
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

// open dials and shakes hands, in each protocol version that is worth a try. A server that refuses one is asked again
// in the other; over HTTP, one that stays silent too.
func (c *connector) open(ctx context.Context, p *party) (*session, error) {
	var last error
	for i := 0; ; i++ {
		l, err := c.dialer.dial(ctx, p.tenant)
		if err != nil {
			return nil, &outage{all: c.redact.text(err.Error()), told: inOurWords(err)}
		}
		versions := c.worthTrying(l)
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

// explain says why a handshake failed, with what the server last said.
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

// offended quarantines the server of a session in use that exceeded a bound, once per session, whether ended or detach
// reports it first. The connector's lock is held.
func (c *connector) offended(s *session, e *Excess) {
	if !s.over {
		s.over = true
		c.quarantine(s.party, e)
	}
}

// quarantine leaves the server alone, because a connection exceeded a bound. The connector's lock is held.
func (c *connector) quarantine(p *party, e *Excess) {
	p.breaker.misbehaved(time.Now())
	c.record.drops++
	c.record.excess = e
	c.log.Warn("an MCP server's connection was dropped", "server", c.id(), "tenant", p.tenant,
		"bound", e.Bound, "limit", e.Limit, "offences", p.breaker.offences)
}

// stderrNote is the last of what a server said on stderr, for people.
func (c *connector) stderrNote(l *link) string {
	tail := c.stderrTail(l)
	if tail == "" {
		return ""
	}
	return "; its stderr ends with:\n" + tail
}

// stderrTail is at most 1 KiB of it, redacted before it is cut.
func (c *connector) stderrTail(l *link) string {
	kept := l.tail()
	tail := plain.Sanitize(kept)
	if len(kept) >= c.opts.StderrTailBytes { // what came before is lost
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

// ended is told when a session's connection is gone.
func (c *connector) ended(s *session, crashed bool) {
	c.keepStderr(s.link)
	excess, rested := s.link.meter.excess(), s.hasRested()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.gone = true
	c.vacate(s)
	if c.ctx.Err() == nil && !rested && s.slot != nil { // one that was never in use is no loss
		c.record.restarts++
	}
	if (crashed || excess != nil) && c.ctx.Err() == nil {
		c.lost(s, excess)
	}
	c.changed()
}

// lost notes why a session's connection is gone that was not given up. The connector's lock is held.
func (c *connector) lost(s *session, excess *Excess) {
	p, why := s.party, "its connection was lost"
	if excess != nil {
		why = excess.Error()
	}
	p.problem, p.told = c.redact.text(why)+c.stderrNote(s.link), why
	c.record.failed(p.problem)
	switch now := time.Now(); {
	case s.slot == nil: // it counts with the attempt to connect
	case excess != nil:
		c.offended(s, excess)
	case c.local == nil:
		p.breaker.lost(now, now.Sub(s.since) >= steady || p.answers > s.answers)
	}
	c.log.Warn("an MCP server's connection was lost", "server", c.id(), "tenant", p.tenant,
		"soon", p.breaker.flaps, "process", s.link.fate())
}

// answered notes that the server is well.
func (c *connector) answered(p *party) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.breaker.answered()
	p.problem, p.told = "", ""
	p.answers++
	c.note()
}

// detach makes the next caller start a new session.
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

// changed tells the watcher, and keeps the books. The connector's lock is held.
func (c *connector) changed() {
	c.note()
	c.poke()
}

// note takes down how the server stands with everybody. The connector's lock is held.
func (c *connector) note() {
	for _, p := range c.parties {
		p.note(p.state())
	}
	c.record.note(c.state())
}

// learn keeps what was listed last, and tells the watcher where that is news. There is one catalogue for all tenants: the
// one that the default tenant's connection lists. Where another's lists something else, that one is asked again.
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

// poke wakes the watcher. The connector's lock need not be held.
func (c *connector) poke() {
	select {
	case c.events <- struct{}{}:
	default:
	}
}

// catalogue returns what the server offers now, or why it cannot be asked.
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

// close ends the sessions that are in use, if any.
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
