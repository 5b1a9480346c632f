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
	if err := c.checkTurnID(m.TurnID); err != nil {
		return err
	}
	if h := c.header; h.Session.Parent != "" && e.Seq == h.Session.ForkSeq && e.Hash != h.ForkHash {
		return fmt.Errorf("message %d is not the fork point that the header names", e.Seq)
	}
	c.head = head
	return c.checkResultOrder(m)
}

// restore returns a line's message. It checks the size before it loads a blob.
func (c *exportCheck) restore(e ExportMessage) (m turn.Message, err error) {
	m = e.Message
	switch {
	case len(m.ToolCalls) > 0 || (m.Text != "" && e.TextBlob != ""):
		return m, errors.New("the message has its calls or its text in two places")
	case len(e.Calls) > MaxCalls:
		return m, fmt.Errorf("the message has %d calls; the maximum is %d", len(e.Calls), MaxCalls)
	}
	size, named := int64(len(m.Text))+c.blobs[e.TextBlob], []string{e.TextBlob}
	for _, call := range e.Calls {
		size += int64(len(call.ID)+len(call.WireID)+len(call.Tool)+len(call.Arguments)) + c.blobs[call.ArgumentsBlob]
		named = append(named, call.ArgumentsBlob)
	}
	if size > MaxBlobBytes {
		return m, fmt.Errorf("the message is %d bytes; the maximum is %d", size, MaxBlobBytes)
	}
	if err := errors.Join(c.countBlobs(named...), c.media(m.Media), badWord("outcome", m.Outcome)); err != nil {
		return m, err
	}
	if e.TextBlob != "" {
		b, err := c.blob(e.TextBlob)
		if err != nil {
			return m, err
		}
		m.Text = string(b)
	}
	m.ToolCalls, err = restoreCalls(e.Calls, c.blob)
	return m, err
}

// checkResultOrder checks I3: the messages after an assistant message with calls are their results, one for each call,
// in request order.
func (c *exportCheck) checkResultOrder(m turn.Message) error {
	switch {
	case m.Role == turn.RoleTool && len(c.callsWithoutResult) > 0 && m.CallID == c.callsWithoutResult[0] &&
		m.Outcome != "":
		c.callsWithoutResult = c.callsWithoutResult[1:]
		return nil
	case m.Role == turn.RoleTool:
		return fmt.Errorf("a result of call %q, which is not the next call without a result", m.CallID)
	case len(c.callsWithoutResult) > 0:
		return fmt.Errorf("call %s has no result", c.callsWithoutResult[0])
	case m.Role != turn.RoleUser && m.Role != turn.RoleAssistant:
		return fmt.Errorf("unknown role %q", m.Role)
	}
	for _, call := range m.ToolCalls {
		c.callsWithoutResult = append(c.callsWithoutResult, call.ID)
	}
	return nil
}

// checkTurnID returns an error if no line so far has that turn.
func (c *exportCheck) checkTurnID(id string) error {
	if c.turns[id] == nil {
		return fmt.Errorf("it belongs to turn %q, which the export does not have", Preview(id, 64))
	}
	return nil
}

func (c *exportCheck) checkInference(e ExportInference) error {
	return errors.Join(c.checkTurnID(e.Key.Turn), c.countBlobs(e.StoredBlob, e.RawBlob), badWord("code", e.FailedCode))
}

func (c *exportCheck) checkCall(e ExportCall) error {
	return errors.Join(c.checkTurnID(e.Turn), checkShownID("call", e.Call.ID), badWord("outcome", e.Outcome),
		badWord("code", e.Code),
		c.countBlobs(e.ArgumentsBlob, e.TextBlob, e.FullBlob), c.media(e.Media))
}

func (c *exportCheck) checkLate(e ExportLateResult) error {
	return errors.Join(c.checkTurnID(e.Turn), badWord("outcome", e.Outcome), c.countBlobs(e.TextBlob, e.FullBlob),
		c.media(e.Media))
}

// checkRequest checks a request. The line has the beginning of its arguments; the journal reads the rest from the blob
// that their hash names.
func (c *exportCheck) checkRequest(e ExportRequest) error {
	shown := int64(len(e.Arguments)) + c.blobs[e.ArgumentsBlob]
	if shown > turn.WaitArguments {
		return fmt.Errorf("request %s shows %d bytes of arguments; the maximum is %d", e.ID, shown, turn.WaitArguments)
	}
	named := []string{e.ArgumentsBlob}
	if e.ArgumentsBytes > shown {
		named = append(named, e.ArgumentsHash)
	}
	if err := c.checkTurnID(e.Turn); err != nil {
		return err
	}
	if e.Decision == nil && c.turns[e.Turn].over {
		return fmt.Errorf("request %s is open and turn %s is over", e.ID, e.Turn)
	}
	request := CleanRequest(e.Request)
	if e.Decision != nil {
		if _, err := CheckDecision(request, *e.Decision); err != nil {
			return fmt.Errorf("the decision of request %s: %w", e.ID, err)
		}
	}
	return errors.Join(checkShownID("request", e.ID), badWord("risk", e.Risk), checkRequest(request),
		c.countBlobs(named...))
}

func (c *exportCheck) checkGrant(r turn.Grant) error {
	if c.grants++; c.grants > maxGrants {
		return fmt.Errorf("there are more than %d grants", maxGrants)
	}
	return checkID("tool", r.Tool)
}

func (c *exportCheck) checkChunk(k turn.Chunk) error {
	t := c.turns[k.Turn]
	switch {
	case t == nil:
		return fmt.Errorf("the chunk belongs to turn %q, which the export does not have", k.Turn)
	case t.chunks == 0 && k.Kind == turn.ChunkTurnCompleted && k.Index >= 0: // the turn's other chunks were pruned
	case k.Index != t.chunks:
		return fmt.Errorf("the chunk has index %d; the next one is %d", k.Index, t.chunks)
	}
	t.chunks++
	return nil
}

func (c *exportCheck) checkEnd(e ExportEnd) error {
	c.ended = true
	switch {
	case e.Lines != c.lines:
		return fmt.Errorf("the export has %d lines; its end line says %d", c.lines, e.Lines)
	case c.head != c.header.Session.Head:
		return fmt.Errorf("the last message is %d %.8s; the header says %d %.8s",
			c.head.Seq, c.head.Hash, c.header.Session.Head.Seq, c.header.Session.Head.Hash)
	case len(c.callsWithoutResult) > 0 && !c.running:
		return fmt.Errorf("call %s has no result, and its turn has ended", c.callsWithoutResult[0])
	}
	return nil
}
