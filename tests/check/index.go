package check

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	historypb "go.temporal.io/api/history/v1"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// checker joins the ledgers.
type checker struct {
	Ledgers
	found []Violation

	turns    map[string]*turnLedger
	callers  map[string]turn.Caller // of subagents, by session
	messages map[string]message     // what the client sent, by ID
	sessions map[string][]turn.Message

	// The following fields cache what is looked up repeatedly, so that judging a long run takes time proportional to its
	// length.
	sorted   []*turnLedger
	owning   map[owner][]*turnLedger
	requests map[request][]Request
	runs     map[string][]*historypb.History // by the ID of the turn
	texts    map[owner]string                // the text of a user's message in the transcript
	places   map[owner][]string              // the turns whose transcript holds a user's message, once for each occurrence
	asks     map[call]*asked
	// compacted counts the compactions that have a summary.
	compaction int
	ran        map[call]effects // the tool's ledger
}

// owner names a message, request a step by the message that it answers, and call a call or a question of a turn.
type (
	owner   struct{ session, message string }
	request struct {
		text string
		step int
	}
	call struct{ turn, id string }
)

// message is a message that the client sent.
type message struct {
	id, session, text string
	acknowledged      bool
	results           []Entry
}

// turnLedger is what the journal has about a turn.
type turnLedger struct {
	record     journal.ExportTurn
	session    string
	caller     turn.Caller    // of the session, if it is that of a subagent
	transcript []turn.Message // of the whole session
	inferences []journal.ExportInference
	calls      []journal.CallRecord
	late       []journal.LateResult
	events     []turn.Event
}

func newChecker(l Ledgers) *checker {
	c := &checker{Ledgers: l, turns: map[string]*turnLedger{}, callers: map[string]turn.Caller{}, messages: map[string]message{},
		sessions: map[string][]turn.Message{}}
	for _, s := range l.Sessions {
		c.index(s)
	}
	for _, e := range l.Client {
		m := c.messages[e.Message]
		m.id = e.Message
		switch e.Event {
		case Sending:
			m.session, m.text = e.Session, e.Text
		case Acknowledged:
			m.acknowledged = true
		case Answered:
			m.results = append(m.results, e)
		}
		c.messages[e.Message] = m
	}
	for _, t := range c.turns {
		for _, call := range t.calls {
			if strings.HasPrefix(call.Call.Tool, turn.AgentTools) {
				c.subagentCall(t, call)
			}
		}
	}
	c.join()
	return c
}

// subagentCall files the task of a call of an agent as a message to the agent's session, and the call's result as what
// its sender was told. The answer of a subagent in the background is a message to the caller's session.
func (c *checker) subagentCall(t *turnLedger, call journal.CallRecord) {
	session := turn.SubagentSession(call.Turn, call.Call.ID)
	c.callers[session] = turn.Caller{Session: t.session, Turn: call.Turn, Call: call.Call.ID}
	var arguments struct {
		Task       string
		Background bool
	}
	if err := json.Unmarshal([]byte(call.Call.Arguments), &arguments); err != nil {
		return // reported with the call
	}
	told := c.toldOf(session, session)
	ok, text := call.Outcome == turn.OutcomeOK, call.Text
	if arguments.Background {
		ok, text = c.deliveredLate(t, call, session)
	}
	if ok {
		told.State, told.Answer = string(turn.StateCompleted), text
	}
	c.messages[session] = message{id: session, session: session, text: arguments.Task, acknowledged: ok,
		results: []Entry{told}}
}

// toldOf returns what the sender of a message is told that began a turn of its own.
func (c *checker) toldOf(session, message string) Entry {
	told := Entry{Event: Answered, Session: session, Message: message}
	for id, t := range c.turns {
		if t.session == session && t.record.MessageID == message {
			told.Turn, told.State, told.Answer = id, string(t.record.State), t.record.Answer
		}
	}
	return told
}

// deliveredLate files the answer of a subagent in the background, which is a late result of its call, as a message to
// the caller's session. If no turn has begun with it, a turn has merged it, or the journal keeps it for one.
func (c *checker) deliveredLate(t *turnLedger, call journal.CallRecord, session string) (ok bool, text string) {
	for _, late := range t.late {
		if late.CallID != call.Call.ID {
			continue
		}
		ok, text = late.Outcome == turn.OutcomeOK, late.Text
		agent, id := strings.TrimPrefix(call.Call.Tool, turn.AgentTools), turn.SubagentAnswerID(session)
		m := message{id: id, session: t.session, text: journal.SubagentAnswer(agent, text),
			acknowledged: !late.NotifyModel, results: []Entry{c.toldOf(t.session, id)}}
		for _, other := range c.turns {
			joined := func(x turn.Message) bool { return x.ID == id && x.TurnID == other.record.ID }
			if other.session == t.session && other.record.MessageID != id && slices.ContainsFunc(other.transcript, joined) {
				m.results[0].Turn, m.results[0].State = other.record.ID, string(other.record.State)
				m.results[0].Answer = other.record.Answer
			}
		}
		c.messages[id] = m
	}
	return ok, text
}

// join builds the indexes over the filed lines.
func (c *checker) join() {
	c.owning, c.requests, c.runs = map[owner][]*turnLedger{}, map[request][]Request{}, map[string][]*historypb.History{}
	for _, id := range slices.Sorted(maps.Keys(c.turns)) {
		t := c.turns[id]
		c.sorted = append(c.sorted, t)
		key := owner{t.session, t.record.MessageID}
		c.owning[key] = append(c.owning[key], t)
	}
	for _, r := range c.Requests {
		if r.Summary {
			continue
		}
		key := request{r.Asked, r.Step}
		c.requests[key] = append(c.requests[key], r)
	}
	for _, h := range c.Histories {
		c.runs[turnOf(h)] = append(c.runs[turnOf(h)], h)
	}
	c.places, c.texts = map[owner][]string{}, map[owner]string{}
	for session, transcript := range c.sessions {
		for _, m := range transcript {
			if m.Role == turn.RoleUser && !isNotice(m) {
				key := owner{session, m.ID}
				c.places[key], c.texts[key] = append(c.places[key], m.TurnID), m.Text
			}
		}
	}
	c.indexWaits()
	c.indexEffects()
}

// index files an export's lines under their turns.
func (c *checker) index(s Session) {
	session := ""
	var caller turn.Caller
	var own []*turnLedger
	var transcript []turn.Message
	for _, l := range s.Lines {
		switch {
		case l.Header != nil:
			session, caller = l.Header.Session.ID, l.Header.Session.Caller
		case l.Turn != nil:
			t := &turnLedger{record: *l.Turn, session: session, caller: caller}
			c.turns[l.Turn.ID] = t
			own = append(own, t)
		case l.Message != nil:
			transcript = append(transcript, l.Message.Message)
		default:
			c.file(l)
		}
	}
	c.sessions[session] = transcript
	for _, t := range own {
		t.transcript = transcript
	}
}

// file files a line of a turn's ledgers. Lines of missing turns are reported as a problem of the export.
func (c *checker) file(l journal.ExportLine) {
	var t *turnLedger
	switch {
	case l.Inference != nil:
		if t = c.turns[l.Inference.Key.Turn]; t != nil {
			t.inferences = append(t.inferences, *l.Inference)
		}
	case l.Call != nil:
		if t = c.turns[l.Call.Turn]; t != nil {
			t.calls = append(t.calls, *l.Call)
		}
	case l.LateResult != nil:
		if t = c.turns[l.LateResult.Turn]; t != nil {
			t.late = append(t.late, *l.LateResult)
		}
	case l.Compaction != nil:
		if l.Compaction.Summary != "" {
			c.compaction++
		}
	case l.Event != nil:
		if t = c.turns[l.Event.Turn]; t != nil {
			t.events = append(t.events, *l.Event)
		}
	}
}

// sortedTurns returns the turns by ID, so that reports are reproducible.
func (c *checker) sortedTurns() []*turnLedger { return c.sorted }

func (c *checker) sortedMessages() []message {
	var out []message
	for _, id := range slices.Sorted(maps.Keys(c.messages)) {
		out = append(out, c.messages[id])
	}
	return out
}

// asked returns the provider's requests for one step of a turn, in order of arrival: those whose last user message is
// the turn's, followed by as many answers as the step needs. A step that failed has the same prompt as the next one:
// the first of their requests are its own.
func (c *checker) asked(t *turnLedger, step int) []Request {
	i := slices.IndexFunc(t.inferences, func(inf journal.ExportInference) bool { return inf.Key.Step == step })
	if i < 0 {
		return nil
	}
	if t.inferences[i].Completion.Plan { // the turn's plan has made it
		return nil
	}
	key := c.promptOf(t, t.inferences[i])
	all := c.requests[key]
	for _, before := range t.inferences[:i] {
		if !before.Completion.Plan && c.promptOf(t, before) == key {
			all = all[min(before.Attempt, len(all)):]
		}
	}
	if !t.inferences[i].Settled {
		all = all[:min(t.inferences[i].Attempt, len(all))]
	}
	return all
}

// promptOf returns what tells the requests of an inference from those of others. It is zero if no user message comes
// before the inference.
func (c *checker) promptOf(t *turnLedger, inf journal.ExportInference) request {
	answers := 0
	for at := min(int(inf.Base.Seq), len(t.transcript)) - 1; at >= 0; at-- {
		switch m := t.transcript[at]; m.Role {
		case turn.RoleUser:
			if isNotice(m) {
				continue
			}
			return request{c.messages[m.ID].text, answers + 1}
		case turn.RoleAssistant:
			if !m.ByPlan() {
				answers++
			}
		}
	}
	return request{}
}
