package journal

import (
	"errors"
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

func (c *exportCheck) checkMessage(e ExportMessage) error {
	m, err := c.restore(e)
	if err != nil {
		return err
	}
	head := Next(c.head, m)
	if head.Seq != e.Seq || head.Hash != e.Hash {
		return fmt.Errorf("the hash chain does not hold: message %d should be %d with hash %s", e.Seq, head.Seq, head.Hash)
	}
	if c.turns[m.TurnID] == nil {
		return fmt.Errorf("message %d is of turn %q, which the export does not have", e.Seq, m.TurnID)
	}
	if opens := c.openers[e.Seq]; opens != "" {
		if m.TurnID != opens || m.Role != turn.RoleUser || m.ID != c.turns[opens].record.MessageID {
			return fmt.Errorf("message %d is not the one that turn %s begins with", e.Seq, opens)
		}
		delete(c.openers, e.Seq)
	}
	if err := c.checkShared(e, m.TurnID); err != nil {
		return err
	}
	c.head = head
	c.hashes = append(c.hashes, head.Hash)
	return c.follow(m)
}

// checkShared keeps the past that a fork shares apart from what is its own.
func (c *exportCheck) checkShared(e ExportMessage, turnID string) error {
	h := c.header
	at := h.Session.ForkSeq
	switch {
	case h.Session.Parent == "":
		return nil
	case (e.Seq <= at) != (c.turns[turnID].record.MessageSeq <= at):
		return fmt.Errorf("message %d and its turn %s are not on the same side of the fork point %d", e.Seq, turnID, at)
	case e.Seq == at && (e.Hash != h.ForkHash || turnID != h.ForkTurn):
		return fmt.Errorf("message %d is not the fork point that the header names", e.Seq)
	}
	return nil
}

func (c *exportCheck) restore(e ExportMessage) (m turn.Message, err error) {
	m = e.Message
	if len(m.ToolCalls) > 0 || (m.Text != "" && e.TextBlob != "") {
		return m, errors.New("the message has its calls or its text in two places")
	}
	if err := errors.Join(c.known(e.TextBlob), c.media(m.Media), badWord("outcome", m.Outcome)); err != nil {
		return m, err
	}
	if e.TextBlob != "" {
		b, err := c.blob(e.TextBlob)
		if err != nil {
			return m, err
		}
		m.Text = string(b)
	}
	m.ToolCalls, err = RestoreCalls(e.Calls, func(hash string) ([]byte, error) {
		if err := c.known(hash); err != nil {
			return nil, err
		}
		return c.blob(hash)
	})
	return m, err
}

// follow keeps I3: after the model has asked for calls come their results, one each, in request order, and nothing else.
func (c *exportCheck) follow(m turn.Message) error {
	switch {
	case m.Role == turn.RoleTool && len(c.awaiting) > 0 && m.CallID == c.awaiting[0] && m.Outcome != "":
		c.awaiting = c.awaiting[1:]
		return nil
	case m.Role == turn.RoleTool:
		return fmt.Errorf("a result of call %q, which is not the next one awaited", m.CallID)
	case len(c.awaiting) > 0:
		return fmt.Errorf("call %s has no result", c.awaiting[0])
	case m.Role != turn.RoleUser && m.Role != turn.RoleAssistant:
		return fmt.Errorf("there is no role %q", m.Role)
	}
	for _, call := range m.ToolCalls {
		c.awaiting = append(c.awaiting, call.ID)
	}
	return nil
}

func (c *exportCheck) checkInference(e ExportInference) error {
	if c.turns[e.Key.Turn] == nil || e.Key.Step < 1 || e.Attempt < 1 {
		return fmt.Errorf("there is no step %d, attempt %d of turn %q", e.Key.Step, e.Attempt, e.Key.Turn)
	}
	if e.Settled != (len(e.Stored) > 0 || e.StoredBlob != "") {
		return errors.New("settled and answer do not fit")
	}
	if !c.inChain(e.Base) || (e.Settled && !c.inChain(e.Head)) {
		return errors.New("its base or its head is not in the transcript")
	}
	if len(e.Stored) > 0 {
		if _, err := RestoreAnswer(e.Stored, ""); err != nil {
			return err
		}
	}
	return errors.Join(c.known(e.StoredBlob, e.RawBlob), badWord("code", e.FailedCode))
}

func (c *exportCheck) inChain(h turn.Head) bool {
	return h.Seq >= 1 && h.Seq <= int64(len(c.hashes)) && c.hashes[h.Seq-1] == h.Hash
}

func (c *exportCheck) checkCall(e ExportCall) error {
	if c.turns[e.Turn] == nil {
		return fmt.Errorf("call %q is of turn %q, which the export does not have", e.Call.ID, e.Turn)
	}
	if e.Late {
		return errors.New("late is no property of the ledger's record")
	}
	c.calls[[2]string{e.Turn, e.Call.ID}] = e.Outcome
	if e.Suspended < 0 || e.Suspended > e.Attempt {
		return fmt.Errorf("call %s was suspended in attempt %d and has had %d", e.Call.ID, e.Suspended, e.Attempt)
	}
	return errors.Join(badName("call", e.Call.ID), badWord("outcome", e.Outcome), badWord("code", e.Code),
		c.known(e.ArgumentsBlob, e.TextBlob, e.FullBlob), c.media(e.Media))
}

func (c *exportCheck) checkLate(e ExportLate) error {
	outcome, there := c.calls[[2]string{e.Turn, e.CallID}]
	if e.Due && (outcome != turn.OutcomeUnknown || e.Outcome == outcome) {
		return fmt.Errorf("the model is to be told of call %q, of which it knows the outcome", e.CallID)
	}
	if !there {
		return fmt.Errorf("a late result of call %q of turn %q, which the export does not have", e.CallID, e.Turn)
	}
	return errors.Join(badWord("outcome", e.Outcome), c.known(e.TextBlob, e.FullBlob), c.media(e.Media))
}

func (c *exportCheck) checkChunk(k turn.Chunk) error {
	t := c.turns[k.Turn]
	switch {
	case t == nil:
		return fmt.Errorf("the chunk is of turn %q, which the export does not have", k.Turn)
	case t.chunks == 0 && k.Kind == turn.ChunkTurnCompleted && k.Index >= 0: // the others were removed
	case k.Index != t.chunks:
		return fmt.Errorf("the chunk has index %d where %d comes next", k.Index, t.chunks)
	case t.done:
		return errors.New("there is a chunk after turn_completed")
	}
	t.chunks++
	t.done = k.Kind == turn.ChunkTurnCompleted
	return nil
}

func (c *exportCheck) checkEnd(e ExportEnd) error {
	c.ended = true
	switch {
	case e.Lines != c.lines:
		return fmt.Errorf("there were %d lines where %d were written", c.lines, e.Lines)
	case c.head != c.header.Session.Head:
		return fmt.Errorf("the messages end at %d %.8s, the header says %d %.8s",
			c.head.Seq, c.head.Hash, c.header.Session.Head.Seq, c.header.Session.Head.Hash)
	case len(c.openers) > 0:
		return errors.New("a turn's message is missing")
	}
	running := false
	for id, t := range c.turns {
		running = running || !t.done
		if t.record.State.Terminal() != t.done {
			return fmt.Errorf("turn %s and its chunks do not agree on whether it is over", id)
		}
	}
	if len(c.awaiting) > 0 && !running {
		return fmt.Errorf("call %s has no result, and its turn is over", c.awaiting[0])
	}
	return nil
}
