package sessionmodel

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/everturn/everturn/workflows/turn"
)

// Sent is a message that the session has accepted.
type Sent struct {
	ID    string
	After bool
	// Order is equal for messages that were sent at once.
	Order int
	Do    []string
}

// Decision is a decision about a call, as it was sent.
type Decision struct {
	By, Turn, Call, Arguments string
	Verdict                   Verdict
	Allow                     bool
	Accepted                  bool
}

// Reply is an answer to a question, as it was sent.
type Reply struct {
	By, Turn, Question string
	Accepted           bool
}

// Model is a session in memory. Its methods may be called concurrently.
type Model struct {
	Session string

	mu        sync.Mutex
	order     int
	numbers   int
	sent      []Sent
	decisions []*Decision
	replies   []*Reply
	allowed   []allowance // approvals that were about to be sent
	effects   map[string]int
	early     []string
}

// allowance is what an approval may let through once its sending begins.
type allowance struct {
	arguments string
	always    Verdict
}

// New returns the model of a session that has not begun.
func New(session string) *Model { return &Model{Session: session, effects: map[string]int{}} }

// Next returns an order for messages that are about to be sent at once, and an ID for each.
func (m *Model) Next(n int) (order int, ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.order++
	for range n {
		m.numbers++
		ids = append(ids, fmt.Sprintf("m%d", m.numbers))
	}
	return m.order, ids
}

// Take records an accepted message.
func (m *Model) Take(s Sent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = append(m.sent, s)
}

// Sent returns the accepted messages.
func (m *Model) Sent() []Sent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.sent)
}

// Deciding records a decision before it is sent. Each gets a unique name.
func (m *Model) Deciding(d Decision) *Decision {
	m.mu.Lock()
	defer m.mu.Unlock()
	d.By = fmt.Sprintf("person %d", len(m.decisions)+1)
	m.decisions = append(m.decisions, &d)
	if d.Allow && !d.Verdict.Wrong() {
		m.allowed = append(m.allowed, allowance{d.Arguments, d.Verdict})
	}
	return &d
}

// Decided records whether the decision was accepted.
func (m *Model) Decided(d *Decision, accepted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d.Accepted = accepted
}

// HasDecided reports whether a decision about a call was accepted. The journal may not show it yet.
func (m *Model) HasDecided(turnID, call string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.decisions,
		func(d *Decision) bool { return d.Accepted && d.Turn == turnID && d.Call == call })
}

// Answering records an answer before it is sent.
func (m *Model) Answering(r Reply) *Reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.By = fmt.Sprintf("user %d", len(m.replies)+1)
	m.replies = append(m.replies, &r)
	return &r
}

// Answered records whether the answer was accepted.
func (m *Model) Answered(r *Reply, accepted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Accepted = accepted
}

// HasAnswered reports whether an answer to a question was accepted.
func (m *Model) HasAnswered(turnID, question string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.replies, func(r *Reply) bool {
		return r.Accepted && r.Turn == turnID &&
			r.Question == question
	})
}

// Touched is called by the tool when it runs: this is the effect that needs approval.
func (m *Model) Touched(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.effects[text]++
	b, _ := json.Marshal(Arguments{Text: text}) // strings always marshal
	covers := func(a allowance) bool { return a.always == AlwaysTool || a.arguments == string(b) }
	if !slices.ContainsFunc(m.allowed, covers) {
		m.early = append(m.early, text)
	}
}

// verdictOf returns the status that a decision leads to.
func verdictOf(d *Decision) turn.DecisionStatus {
	if d.Allow {
		return turn.StatusAllowed
	}
	return turn.StatusDenied
}

// isAnswer reports whether a message ID is that of an answer.
func isAnswer(id string) bool { return strings.HasPrefix(id, "answer:") }
