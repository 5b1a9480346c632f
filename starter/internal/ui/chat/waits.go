package chat

import (
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/starter/internal/ui"
)

// outage is a time in which the journal cannot be read. Its entry is nil if there is none.
type outage struct {
	entry *entry
	began time.Time
}

// showOutage shows in one line that the journal cannot be read, and for how long, or that it can be read again. Another
// outage before the next event has the same line.
func (m *Model) showOutage(msg itemsMsg) {
	o := &m.outage
	switch {
	case o.entry == nil && msg.err == nil:
		return
	case o.entry == nil:
		o.entry, o.began = m.add(&entry{kind: entryError}), m.now()
	}
	began, took := o.began.Format(time.TimeOnly), ui.Duration(m.now().Sub(o.began))
	o.entry.text = fmt.Sprintf("the journal could not be read from %s for %s", began, took)
	if msg.err != nil {
		o.entry.text = fmt.Sprintf("the journal cannot be read since %s (%s): %v. Turns continue", began, took, msg.err)
	}
	m.change(o.entry)
	if len(msg.items) > 0 {
		m.outage = outage{}
	}
}

// waits is what keeps a message or the running turn from being worked on.
type waits struct {
	why      string    // empty: nothing that is known
	checking bool      // the next check is scheduled, or runs
	heard    time.Time // when the last event arrived
}

// checkWaitsEvery is how long the chat hears nothing of a message or a turn before it looks what that waits for, and how
// often it looks again.
const checkWaitsEvery = 3 * time.Second

// waitsDueMsg arrives when a check is due, and waitsMsg has its result.
type (
	waitsDueMsg struct{}
	waitsMsg    struct{ why string }
)

// checkWaits schedules a check if a message or a turn is on its way and none is scheduled.
func (m *Model) checkWaits() tea.Cmd {
	if m.turn.id == "" && len(m.outbox.list) == 0 {
		m.waits.why = ""
		return nil
	}
	if m.o.Waits == nil || m.waits.checking {
		return nil
	}
	m.waits.checking = true
	return m.later(checkWaitsEvery, func(time.Time) tea.Msg { return waitsDueMsg{} })
}

// readWaits looks what the message or the turn waits for, unless it goes on or waits for the user.
func (m *Model) readWaits() tea.Cmd {
	silent := m.now().Sub(m.waits.heard) >= checkWaitsEvery
	if m.turn.id == "" && len(m.outbox.list) == 0 || !silent || m.currentRequest() != nil {
		m.waits.checking = false
		return nil
	}
	session := m.session
	return m.background(func(ctx context.Context) tea.Msg { return waitsMsg{m.o.Waits(ctx, session)} })
}

// showWaits keeps the result of a check for the status, unless the turn has gone on meanwhile.
func (m *Model) showWaits(msg waitsMsg) {
	m.waits.checking = false
	if m.now().Sub(m.waits.heard) >= checkWaitsEvery {
		m.waits.why = msg.why
	}
}
