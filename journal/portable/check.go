package portable

import (
	"errors"
	"fmt"
	"slices"

	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// exportCheck is the state of the checks of an import after the lines so far. They make sure that the file is one whole
// export, and that every name in it is safe to show and to look up. They do not make sure that a turn could have
// written it: anyone can write an export.
type exportCheck struct {
	lines   int64
	ended   bool
	header  ExportHeader
	blobs   map[string]int64 // their sizes, and those of the arguments of calls
	over    map[string]bool  // by turn
	running bool             // one of the turns is not over
	grants  int
	head    turn.Head
}

// maxGrants bounds the grants of an export: a user gave each of them.
const maxGrants = 10_000

// line checks the next line.
func (c *exportCheck) line(l Line) error {
	n := 0
	for _, set := range []bool{l.Header != nil, l.Blob != nil, l.Turn != nil, l.Message != nil, l.Inference != nil,
		l.Call != nil, l.LateResult != nil, l.Request != nil, l.Grant != nil, l.Compaction != nil, l.Event != nil,
		l.End != nil} {
		if set {
			n++
		}
	}
	switch {
	case n != 1:
		return fmt.Errorf("it sets %d of the known fields, not one", n)
	case c.ended:
		return errors.New("there is a line after the end line")
	case (l.Header != nil) != (c.lines == 0):
		return errors.New("an export has one header, in its first line")
	}
	err := c.content(l)
	c.lines++
	return err
}

func (c *exportCheck) content(l Line) error {
	switch {
	case l.Header != nil:
		return c.checkHeader(*l.Header)
	case l.Blob != nil:
		return c.checkBlob(*l.Blob)
	case l.Turn != nil:
		return c.checkTurn(*l.Turn)
	case l.Message != nil:
		return c.checkMessage(*l.Message)
	case l.Inference != nil:
		return errors.Join(c.checkTurnID(l.Inference.Key.Turn), badWord("code", l.Inference.FailedCode))
	case l.Call != nil:
		return errors.Join(c.checkTurnID(l.Call.Turn), checkShownID("call", l.Call.Call.ID),
			badWord("outcome", l.Call.Outcome), badWord("code", l.Call.Code), c.checkArtifacts(l.Call.FullBlob, l.Call.Media))
	case l.LateResult != nil:
		return errors.Join(c.checkTurnID(l.LateResult.Turn), badWord("outcome", l.LateResult.Outcome),
			c.checkArtifacts(l.LateResult.FullBlob, l.LateResult.Media))
	case l.Request != nil:
		return c.checkRequest(*l.Request)
	case l.Grant != nil:
		return c.checkGrant(*l.Grant)
	case l.Compaction != nil:
		return c.checkCompaction(*l.Compaction)
	case l.Event != nil:
		return c.checkTurnID(l.Event.Turn)
	}
	return c.checkEnd(*l.End)
}

func (c *exportCheck) checkHeader(h ExportHeader) error {
	c.header = h
	switch {
	case h.Format != Format:
		return fmt.Errorf("not an export of a session: the format is %q, not %q", h.Format, Format)
	case h.Version > Version:
		return newerExportError(h.Version)
	case h.Version < 1:
		return fmt.Errorf("unknown version %d", h.Version)
	}
	if at := h.Session.ForkSeq; at < 0 || at > h.Session.Head.Seq {
		return fmt.Errorf("its fork point %d does not fit the session", at)
	}
	return turn.CheckSession(h.Session.ID)
}

// checkShownID is CheckID for an ID that Everturn generates and shows to users.
func checkShownID(what, id string) error {
	if !turn.Printable(id) {
		return fmt.Errorf("the %s ID has characters that cannot be printed", what)
	}
	return record.CheckID(what, id)
}

func (c *exportCheck) checkBlob(b ExportBlob) error {
	if len(b.Bytes) > record.MaxBlobBytes {
		return fmt.Errorf("the blob is %d bytes; the maximum is %d", len(b.Bytes), record.MaxBlobBytes)
	}
	if record.HashOf(b.Bytes) != b.Hash {
		return errors.New("the blob's bytes do not have its hash")
	}
	c.blobs[b.Hash] = int64(len(b.Bytes))
	return nil
}

// checkArtifacts refuses blobs that have not appeared in the export, because the importing journal could have them from
// another session, and media that exceed the journal's bounds.
func (c *exportCheck) checkArtifacts(full string, media []turn.Media) error {
	if len(media) > record.MaxMedia {
		return fmt.Errorf("it has %d media; the maximum is %d", len(media), record.MaxMedia)
	}
	for _, m := range media {
		size, there := c.blobs[m.Hash]
		if !there {
			return fmt.Errorf("the export has no blob %q", record.Preview(m.Hash, 64))
		}
		if m.Bytes != size || size > record.MaxMediaBytes {
			return fmt.Errorf("a medium of %d bytes is given as %d bytes; the maximum is %d", size, m.Bytes,
				record.MaxMediaBytes)
		}
	}
	if _, there := c.blobs[full]; full != "" && !there {
		return fmt.Errorf("the export has no blob %q", record.Preview(full, 64))
	}
	return nil
}

func (c *exportCheck) checkTurn(t ExportTurn) error {
	_, known := c.over[t.ID]
	over := t.State.Terminal()
	switch {
	case known:
		return fmt.Errorf("turn %s is there already", t.ID)
	case !over && c.running:
		return fmt.Errorf("turn %s is running, and so is another one", t.ID)
	}
	c.running = c.running || !over
	c.over[t.ID] = over
	return errors.Join(checkShownID("turn", t.ID), record.CheckID("message", t.MessageID), badWord("state", t.State),
		badWord("finish reason", t.Reason), badWord("code", t.Code))
}

// badWord refuses a word that is not in a closed set. The empty word is valid.
func badWord[W interface {
	~string
	Known() bool
}](what string, w W) error {
	if w != "" && !w.Known() {
		return fmt.Errorf("unknown %s %q", what, record.Preview(string(w), 64))
	}
	return nil
}

func (c *exportCheck) checkGrant(g turn.Grant) error {
	if c.grants++; c.grants > maxGrants {
		return fmt.Errorf("there are more than %d grants", maxGrants)
	}
	return record.CheckID("tool", g.Tool)
}

func (c *exportCheck) checkMessage(e ExportMessage) error {
	m := e.Message
	if !slices.Contains([]turn.Role{turn.RoleUser, turn.RoleAssistant, turn.RoleTool}, m.Role) {
		return fmt.Errorf("unknown role %q", record.Preview(string(m.Role), 64))
	}
	if len(m.ToolCalls) > record.MaxCalls {
		return fmt.Errorf("the message has %d calls; the maximum is %d", len(m.ToolCalls), record.MaxCalls)
	}
	err := errors.Join(c.checkTurnID(m.TurnID), badWord("outcome", m.Outcome), c.checkArtifacts("", m.Media))
	if err != nil {
		return err
	}
	for _, call := range m.ToolCalls {
		c.blobs[record.HashOf([]byte(call.Arguments))] = int64(len(call.Arguments))
	}
	c.head = record.Next(c.head, m)
	if c.head.Seq != e.Seq || c.head.Hash != e.Hash {
		return fmt.Errorf("the hash chain does not hold: message %d should be %d with hash %s", e.Seq, c.head.Seq,
			c.head.Hash)
	}
	if h := c.header; h.Session.Parent != "" && e.Seq == h.Session.ForkSeq && e.Hash != h.ForkHash {
		return fmt.Errorf("message %d is not the fork point that the header names", e.Seq)
	}
	return nil
}

// checkTurnID returns an error if no line so far has that turn.
func (c *exportCheck) checkTurnID(id string) error {
	if _, known := c.over[id]; !known {
		return fmt.Errorf("it belongs to turn %q, which the export does not have", record.Preview(id, 64))
	}
	return nil
}

// checkRequest checks a request. The line has the beginning of its arguments; readers get the rest from the
// transcript's call, by their hash.
func (c *exportCheck) checkRequest(r record.RequestRecord) error {
	shown := int64(len(r.Arguments))
	if shown > turn.WaitArguments {
		return fmt.Errorf("request %s shows %d bytes of arguments; the maximum is %d", r.ID, shown, turn.WaitArguments)
	}
	if _, there := c.blobs[r.ArgumentsHash]; r.ArgumentsBytes > shown && !there {
		return fmt.Errorf("the export has no arguments of request %s", r.ID)
	}
	if r.Decision == nil && c.over[r.Turn] {
		return fmt.Errorf("request %s is open and turn %s is over", r.ID, r.Turn)
	}
	request := record.CleanRequest(r.Request)
	if r.Decision != nil {
		if _, err := record.CheckDecision(request, *r.Decision); err != nil {
			return fmt.Errorf("the decision of request %s: %w", r.ID, err)
		}
	}
	return errors.Join(c.checkTurnID(r.Turn), checkShownID("request", r.ID), badWord("risk", r.Risk),
		record.CheckRequest(request))
}

func (c *exportCheck) checkEnd(e ExportEnd) error {
	c.ended = true
	switch {
	case e.Lines != c.lines:
		return fmt.Errorf("the export has %d lines; its end line says %d", c.lines, e.Lines)
	case c.head != c.header.Session.Head:
		return fmt.Errorf("the last message is %d %.8s; the header says %d %.8s",
			c.head.Seq, c.head.Hash, c.header.Session.Head.Seq, c.header.Session.Head.Hash)
	}
	return nil
}
