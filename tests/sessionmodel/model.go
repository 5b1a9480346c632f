package sessionmodel

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/everturn/everturn/tests/check"
	"github.com/everturn/everturn/workflows"
)

// Sent is a message that the session has accepted.
type Sent struct {
	ID    string
	After bool
	// Order is equal for messages that were sent at once.
	Order int
	Do    []string
}

// Model is a session in memory, and the ledgers of its users and of the tool that needs approval. Its methods may be
// called concurrently.
type Model struct {
	Session string

	mu      sync.Mutex
	order   int
	numbers int
	people  int
	sent    []Sent
	client  []check.Entry
	effects []check.Effect
}

// New returns the model of a session that has not begun.
func New(session string) *Model { return &Model{Session: session} }

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

// Person returns the name of another person.
func (m *Model) Person() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.people++
	return fmt.Sprintf("person%d", m.people)
}

// Take records an accepted message.
func (m *Model) Take(s Sent) {
	m.accepted(s.ID, Text(m.Session, s.ID, s.Do))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = append(m.sent, s)
}

// Answered records an accepted answer to a question.
func (m *Model) Answered(turnID, question, text string) {
	m.accepted(workflows.AnswerID(turnID, question), text)
}

func (m *Model) accepted(id, text string) {
	m.Note(check.Entry{Event: check.Sending, Message: id, Text: text})
	m.Note(check.Entry{Event: check.Acknowledged, Message: id})
}

// Accepted returns the IDs of all accepted messages and answers.
func (m *Model) Accepted() (ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.client {
		if e.Event == check.Acknowledged {
			ids = append(ids, e.Message)
		}
	}
	return ids
}

// Told records the result that the sender of a message gets.
func (m *Model) Told(message string, r workflows.Result) {
	m.Note(check.Entry{Event: check.Answered, Message: message, Turn: r.Turn, State: string(r.State),
		Reason: string(r.FinishReason), Answer: r.Answer})
}

// Sent returns the accepted messages.
func (m *Model) Sent() []Sent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.sent)
}

// Note adds a line to the ledger of the session's users.
func (m *Model) Note(e check.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.At, e.Session = time.Now(), m.Session
	m.client = append(m.client, e)
}

// HasDecided reports whether a decision about a call was accepted. The journal may not show it yet.
func (m *Model) HasDecided(turnID, call string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.client,
		func(e check.Entry) bool { return e.Event == check.Decided && e.Turn == turnID && e.Call == call })
}

// HasAnswered reports whether an answer to a question was accepted.
func (m *Model) HasAnswered(turnID, question string) bool {
	return slices.Contains(m.Accepted(), workflows.AnswerID(turnID, question))
}

// Touched is called by the tool when it runs: this is the effect that needs approval.
func (m *Model) Touched(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, event := range []string{"begun", "effect"} {
		m.effects = append(m.effects, check.Effect{Event: event, Text: text, At: time.Now()})
	}
}
