package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/fakellm"
)

var quiet = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

// harness is one Everturn with everything around it that can break.
type harness struct {
	programs programs
	dir      string
	seed     uint64
	rng      *rand.Rand
	server   *server
	model    *fakellm.Server
	// temporal, users and provider are the links worker–server, client–server and worker–provider.
	temporal, users, provider *link
	remote                    *link      // worker–MCP; nil if there is none
	journalLink               *link      // worker–Postgres; nil for a journal in SQLite
	remoteServer              *process   // nil if there is none
	direct, client            sdk.Client // past the links, and through them
	journal                   *journal.DB
	database                  database
	user                      *user
	queue                     string
	settings                  settings
	workers                   []*process
	closers                   []func()

	// target is the turn in which the fault occurs; companion runs beside it in another session.
	target, companion *turnPlan
	gate, rival       *fakellm.Gate

	mu    sync.Mutex
	plans map[string]*turnPlan // by the text of the message
	// adapt changes the provider's answers; nil changes nothing.
	adapt    func(q fakellm.Request, t *turnPlan, reply fakellm.Reply) fakellm.Reply
	readers  sync.WaitGroup
	reading  context.Context // ends when nothing is under way any more
	stopRead context.CancelFunc
	stopped  []string // messages whose turns the schedule has cancelled
	failing  []string // messages whose turns the schedule makes fail
	// stopWithin is how soon a stopped turn must be settled once a worker has seen the stop; 0: nothing is promised.
	stopWithin time.Duration
	die        func(context.Context, *harness) error // see database.insert
	figures    string                                // of the run, printed with its outcome
	second     *turnPlan                             // a message for the target's session in the middle of its turn
	answering  *turnPlan                             // the schedule's answer to a question
	decisions  atomic.Int64                          // that were begun
	attending  sync.Once
	asked      chan error
	agents     []string // the sessions of agents that were called, once the journal is read
	asking     int
}

// settings are the parts of the configuration that points change.
type settings struct {
	toolTimeout time.Duration
	path        string       // a directory that is first in the workers' PATH
	runtime     string       // lines for the section [runtime]
	llm         string       // lines for the section [llm]
	worker      string       // lines for the section [worker]
	connect     string       // timeouts.connect of the MCP servers
	remote      string       // URL of an MCP server over HTTP; empty for none
	stateless   bool         // the server speaks the newest protocol, which has no sessions
	taint       string       // policy.taint
	append      string       // lines for the tool append of the server once
	older       string       // timeouts.elicitation of the server once, which then knows only older protocols
	trusted     bool         // its servers are trusted: their text taints no session, and their annotations are believed
	stateful    bool         // there is a server that keeps state
	tools       []toolServer // all servers of the harness; nil for the usual ones
	extra       string       // sections of further servers, which need not be there at the end
}

// newHarness starts everything except the workers.
func newHarness(ctx context.Context, ps programs, s *server, dir string, seed uint64, rng *rand.Rand) (r *harness, err error) {
	r = &harness{programs: ps, server: s, dir: dir, seed: seed, rng: rng, gate: fakellm.NewGate(),
		plans: map[string]*turnPlan{},
		queue: "q-" + filepath.Base(dir), settings: settings{toolTimeout: 15 * time.Second, connect: "1m", taint: "off"}}
	for _, sub := range []string{"", "ledgers", "ledgers/sinks", "ledgers/journal", "ledgers/histories", "workspace"} {
		if err := os.MkdirAll(inDir(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	for _, step := range []func(context.Context) error{r.openModel, r.openLinks, r.openClients, r.openJournal,
		r.openUser} {
		if err := step(ctx); err != nil {
			r.close()
			return nil, fmt.Errorf("building the harness: %w", err)
		}
	}
	return r, nil
}

func (r *harness) close() {
	for _, w := range r.workers {
		w.kill()
	}
	for i := len(r.closers) - 1; i >= 0; i-- {
		r.closers[i]()
	}
}

func (r *harness) onClose(f func()) { r.closers = append(r.closers, f) }

func (r *harness) openModel(context.Context) (err error) {
	r.model, err = fakellm.NewServer("127.0.0.1:0", fakellm.Func(r.reply))
	if err == nil {
		r.onClose(func() { _ = r.model.Close() }) // nothing depends on its end
	}
	return err
}

// reply plays the plan of the turn that sends the request.
func (r *harness) reply(q fakellm.Request) fakellm.Reply {
	if isSummary(q) {
		return summary()
	}
	r.mu.Lock()
	t, adapt := r.plans[q.Chat.Asked()], r.adapt
	r.mu.Unlock()
	if t == nil {
		return fakellm.Status(400, "unplanned", "no plan has this message")
	}
	reply := t.reply(q)
	if adapt != nil {
		reply = adapt(q, t, reply)
	}
	return reply
}

func (r *harness) openLinks(context.Context) (err error) {
	provider := strings.TrimSuffix(strings.TrimPrefix(r.model.URL(), "http://"), "/v1")
	for _, l := range []struct {
		link     **link
		upstream string
	}{{&r.temporal, r.server.address}, {&r.users, r.server.address}, {&r.provider, provider}} {
		if *l.link, err = newLink(filepath.Base(r.dir), l.upstream); err != nil {
			return err
		}
		r.onClose((*l.link).down)
	}
	return nil
}

func (r *harness) openClients(ctx context.Context) (err error) {
	for to, address := range map[*sdk.Client]string{&r.direct: r.server.address, &r.client: r.users.address()} {
		c, err := sdk.DialContext(ctx, sdk.Options{HostPort: address, Logger: quiet})
		if err != nil {
			return err
		}
		*to = c
		r.onClose(c.Close)
	}
	return nil
}

func (r *harness) openUser(context.Context) error {
	sent, err := openLedger(inDir(r.dir, "ledgers", "client.jsonl"))
	if err != nil {
		return err
	}
	read, err := openLedger(inDir(r.dir, "ledgers", "stream.jsonl"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stopRead = cancel
	r.asked = make(chan error, 64)
	r.reading = ctx
	people := client.New(r.client, client.Options{TaskQueue: r.queue, Agent: "default", Journal: r.journal})
	r.user = &user{client: r.client, people: people, journal: r.journal, ledger: sent, taskQueue: r.queue,
		acknowledged: func(_ turnPlan, turnID string) {
			r.readers.Go(func() { read.follow(ctx, r.journal, turnID) })
		}}
	return nil
}

// sessions returns the sessions that have plans, in order.
func (r *harness) sessions() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]bool{}
	for _, t := range r.plans {
		all[t.session] = true
	}
	delete(all, "") // of the tasks of agents, whose sessions the journal knows
	for _, s := range r.agents {
		all[s] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// plan makes the turn known to the provider.
func (r *harness) plan(t turnPlan) *turnPlan {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plans[t.text] = &t
	return &t
}

// converse sends a turn's message in the background; settle waits for it.
func (r *harness) converse(ctx context.Context, t *turnPlan, byUpdate bool) {
	r.asking++
	go func() {
		err := r.user.send(ctx, *t, byUpdate)
		if err != nil {
			err = fmt.Errorf("message %s: %w", t.id, err)
		}
		r.asked <- err
	}()
}

// settle waits for the results of everything that was sent.
func (r *harness) settle() error {
	var first error
	for ; r.asking > 0; r.asking-- {
		if err := <-r.asked; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// ask arms the points of the workers and sends the target, and beside it the companion.
func (r *harness) ask(ctx context.Context) error {
	if err := r.arm(); err != nil {
		return err
	}
	r.converse(ctx, r.companion, false)
	r.converse(ctx, r.target, r.rng.IntN(2) == 0)
	return nil
}

func (r *harness) arm() error { return os.WriteFile(inDir(r.dir, "armed"), nil, 0o600) }

// release releases tool calls that wait on a side of their effect.
func (r *harness) release() error { return os.WriteFile(inDir(r.dir, "release"), nil, 0o600) }
