package session

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
	// Order is the same for messages that were sent at once.
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

// Model is a session in memory. Its methods may be called at once.
type Model struct {
	Session string

	mu        sync.Mutex
	order     int
	numbers   int
	sent      []Sent
	decisions []*Decision
	replies   []*Reply
	allowed   []allowance // that somebody was about to give
	effects   map[string]int
	early     []string
}

// allowance is what an approval that is under way may let through.
type allowance struct {
	arguments string
	always    Verdict
}

// New makes the model of a session that has not begun.
func New(session string) *Model { return &Model{Session: session, effects: map[string]int{}} }

// Next returns an order for messages that are about to be sent at once, and a name for each.
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

// Take notes an accepted message.
func (m *Model) Take(s Sent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = append(m.sent, s)
}

// Sent returns what was accepted.
func (m *Model) Sent() []Sent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.sent)
}

// Deciding notes a decision before it is sent. Each gets a name that is its own.
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

// Decided notes whether it was accepted.
func (m *Model) Decided(d *Decision, accepted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d.Accepted = accepted
}

// HasDecided reports whether a decision about a call was accepted, which the journal may not show yet.
func (m *Model) HasDecided(turnID, call string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.decisions, func(d *Decision) bool { return d.Accepted && d.Turn == turnID && d.Call == call })
}

// Answering notes an answer before it is sent.
func (m *Model) Answering(r Reply) *Reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.By = fmt.Sprintf("user %d", len(m.replies)+1)
	m.replies = append(m.replies, &r)
	return &r
}

// Answered notes whether it was accepted.
func (m *Model) Answered(r *Reply, accepted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Accepted = accepted
}

// HasAnswered reports whether an answer to a question was accepted.
func (m *Model) HasAnswered(turnID, question string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.replies, func(r *Reply) bool { return r.Accepted && r.Turn == turnID && r.Question == question })
}

// Touched is called by the tool when it runs: that is the effect which people had to allow.
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

// Effects is how often the tool ran with this text.
func (m *Model) Effects(text string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.effects[text]
}

// verdictOf is what a decision comes to.
func verdictOf(d *Decision) turn.DecisionStatus {
	if d.Allow {
		return turn.StatusAllowed
	}
	return turn.StatusDenied
}

// isAnswer tells answers from messages by their ID.
func isAnswer(id string) bool { return strings.HasPrefix(id, "answer:") }
