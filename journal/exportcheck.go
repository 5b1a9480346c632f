package journal

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// exportCheck checks the lines of an export one after the other, with what the lines so far contain. It accepts a file
// only if it is one whole export, and every name in it is safe to show and to look up. It does not check that a turn
// could have produced the content: anyone can write an export.
type exportCheck struct {
	lines     int64 // checked so far
	ended     bool  // the end line was checked
	header    ExportHeader
	blobs     map[string]int64 // by hash: the sizes of blobs, and of the arguments of calls in messages
	turnEnded map[string]bool  // by turn ID: whether the turn has ended
	running   bool             // one of the turns has not ended
	grants    int
	head      turn.Head // of the messages so far
}

// maxGrants bounds the grants of an export: a user gave each of them.
const maxGrants = 10_000

// checkLine checks the next line: that it sets one field, that it may follow the lines before, and its content.
func (c *exportCheck) checkLine(l ExportLine) error {
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
	err := c.checkContent(l)
	c.lines++
	return err
}

// checkContent checks the content of a line of any kind.
func (c *exportCheck) checkContent(l ExportLine) error {
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
		return errors.Join(c.checkTurnID(l.Inference.Key.Turn), checkKnown("code", l.Inference.FailedCode))
	case l.Call != nil:
		return errors.Join(c.checkTurnID(l.Call.Turn), checkShownID("call", l.Call.Call.ID),
			checkKnown("outcome", l.Call.Outcome), checkKnown("code", l.Call.Code), c.checkArtifacts(l.Call.FullBlob, l.Call.Media))
	case l.LateResult != nil:
		return errors.Join(c.checkTurnID(l.LateResult.Turn), checkKnown("outcome", l.LateResult.Outcome),
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

// checkHeader checks the format, the version, the fork point and the session ID of the header.
func (c *exportCheck) checkHeader(h ExportHeader) error {
	c.header = h
	switch {
	case h.Format != ExportFormat:
		return fmt.Errorf("not an export of a session: the format is %q, not %q", h.Format, ExportFormat)
	case h.Version > ExportVersion:
		return newerExportError(h.Version)
	case h.Version < 1:
		return fmt.Errorf("unknown version %d", h.Version)
	}
	if at := h.Session.ForkSeq; at < 0 || at > h.Session.Head.Seq {
		return fmt.Errorf("its fork point %d does not fit the session", at)
	}
	caller := h.Session.Caller
	switch {
	case caller.IsZero():
		return turn.CheckSession(h.Session.ID)
	case h.Session.ID != turn.SubagentSession(caller.Turn, caller.Call):
		return errors.New("its session is not the one of the subagent that its caller started")
	}
	return errors.Join(turn.CheckSession(h.Session.ID), turn.CheckSession(caller.Session))
}

// checkShownID is checkID for an ID that Everturn shows to users and prints in commands: it must also be
// printable, and begin with no dash, because a command would read it as a flag. kind names the ID in the error.
func checkShownID(kind, id string) error {
	if strings.HasPrefix(id, "-") {
		return fmt.Errorf("the %s ID begins with a dash", kind)
	}
	if !turn.Printable(id) {
		return fmt.Errorf("the %s ID has characters that cannot be printed", kind)
	}
	return checkID(kind, id)
}

// checkBlob checks the size and the hash of a blob.
func (c *exportCheck) checkBlob(b ExportBlob) error {
	if len(b.Bytes) > MaxBlobBytes {
		return fmt.Errorf("the blob is %d bytes; the maximum is %d", len(b.Bytes), MaxBlobBytes)
	}
	if HashOf(b.Bytes) != b.Hash {
		return errors.New("the blob's bytes do not have its hash")
	}
	c.blobs[b.Hash] = int64(len(b.Bytes))
	return nil
}

// checkArtifacts returns an error if the export has not had the blob full (unless it is empty) or a blob of media, or
// if media exceed the journal's bounds. A hash without its blob must not be imported: the importing journal could
// have the blob from another session, which would then become readable.
func (c *exportCheck) checkArtifacts(full string, media []turn.Media) error {
	if len(media) > MaxMedia {
		return fmt.Errorf("it has %d media; the maximum is %d", len(media), MaxMedia)
	}
	for _, m := range media {
		size, exists := c.blobs[m.Hash]
		if !exists {
			return fmt.Errorf("the export has no blob %q", preview(m.Hash, 64))
		}
		if m.Bytes != size || size > MaxMediaBytes {
			return fmt.Errorf("a medium of %d bytes is given as %d bytes; the maximum is %d", size, m.Bytes,
				MaxMediaBytes)
		}
	}
	if _, exists := c.blobs[full]; full != "" && !exists {
		return fmt.Errorf("the export has no blob %q", preview(full, 64))
	}
	return nil
}

// checkTurn checks a turn's IDs and enums, and that the export has each turn once and at most one that runs.
func (c *exportCheck) checkTurn(t ExportTurn) error {
	_, known := c.turnEnded[t.ID]
	ended := t.State.Terminal()
	switch {
	case known:
		return fmt.Errorf("turn %s is there already", t.ID)
	case !ended && c.running:
		return fmt.Errorf("turn %s is running, and so is another one", t.ID)
	}
	c.running = c.running || !ended
	c.turnEnded[t.ID] = ended
	return errors.Join(checkShownID("turn", t.ID), checkID("message", t.MessageID), checkKnown("state", t.State),
		checkKnown("finish reason", t.Reason), checkKnown("code", t.Code))
}

// checkKnown returns an error if an enum such as turn.State has an unknown value. The empty value is valid. kind
// names the enum in the error.
func checkKnown[W interface {
	~string
	Known() bool
}](kind string, w W) error {
	if w != "" && !w.Known() {
		return fmt.Errorf("unknown %s %q", kind, preview(string(w), 64))
	}
	return nil
}

// checkGrant checks the number of grants and the tool ID of a grant.
func (c *exportCheck) checkGrant(g turn.Grant) error {
	if c.grants++; c.grants > maxGrants {
		return fmt.Errorf("there are more than %d grants", maxGrants)
	}
	return checkID("tool", g.Tool)
}

// checkMessage checks a message and that it continues the transcript's hash chain. It also remembers the arguments of
// the message's calls, which a request may need: see checkRequest.
func (c *exportCheck) checkMessage(e ExportMessage) error {
	m := e.Message
	if !slices.Contains([]turn.Role{turn.RoleUser, turn.RoleAssistant, turn.RoleTool}, m.Role) {
		return fmt.Errorf("unknown role %q", preview(string(m.Role), 64))
	}
	if len(m.ToolCalls) > MaxCalls {
		return fmt.Errorf("the message has %d calls; the maximum is %d", len(m.ToolCalls), MaxCalls)
	}
	err := errors.Join(c.checkTurnID(m.TurnID), checkKnown("outcome", m.Outcome), c.checkArtifacts("", m.Media))
	if err != nil {
		return err
	}
	for _, call := range m.ToolCalls {
		c.blobs[HashOf([]byte(call.Arguments))] = int64(len(call.Arguments))
	}
	c.head = Next(c.head, m)
	if c.head.Seq != e.Seq || c.head.Hash != e.Hash {
		return fmt.Errorf("the hash chain does not hold: message %d should be %d with hash %s", e.Seq, c.head.Seq,
			c.head.Hash)
	}
	if h := c.header; h.Session.Parent != "" && e.Seq == h.Session.ForkSeq && e.Hash != h.ForkHash {
		return fmt.Errorf("message %d is not the fork point that the header names", e.Seq)
	}
	return nil
}

// checkTurnID returns an error if the export has not had a turn with this ID so far.
func (c *exportCheck) checkTurnID(id string) error {
	if _, known := c.turnEnded[id]; !known {
		return fmt.Errorf("it belongs to turn %q, which the export does not have", preview(id, 64))
	}
	return nil
}

// checkRequest checks a request and its decision. The line has only the beginning of long arguments, so a message of
// the export must have a call with all of them: readers find them by their hash.
func (c *exportCheck) checkRequest(r turn.Request) error {
	shown := int64(len(r.Arguments))
	if shown > turn.WaitArguments {
		return fmt.Errorf("request %s shows %d bytes of arguments; the maximum is %d", r.ID, shown, turn.WaitArguments)
	}
	if _, exists := c.blobs[r.ArgumentsHash]; r.ArgumentsBytes > shown && !exists {
		return fmt.Errorf("the export has no arguments of request %s", r.ID)
	}
	if r.Decision == nil && c.turnEnded[r.Turn] {
		return fmt.Errorf("request %s is open and turn %s is over", r.ID, r.Turn)
	}
	request := CleanRequest(r)
	if r.Decision != nil {
		if _, err := checkDecision(request, *r.Decision); err != nil {
			return fmt.Errorf("the decision of request %s: %w", r.ID, err)
		}
	}
	return errors.Join(c.checkTurnID(r.Turn), checkShownID("request", r.ID), checkKnown("risk", r.Risk),
		checkRequest(request))
}

// checkEnd checks that the export is whole: that it has as many lines as its end line says, and ends with the head that
// its header names.
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

// checkCompaction checks the enums, the range of messages and the turn of a compaction. importCompaction checks its
// hashes.
func (c *exportCheck) checkCompaction(x ExportCompaction) error {
	err := errors.Join(checkKnown("reason", x.Reason), checkKnown("method", x.Method))
	switch {
	case err != nil:
		return err
	case x.From < 0 || x.From > x.To || x.To > x.At.Seq || x.At.Seq < 1 || x.At.Seq > c.header.Session.Head.Seq:
		return fmt.Errorf("its messages %d to %d of %d do not fit the session", x.From, x.To, x.At.Seq)
	case x.Turn == "":
		return checkID("request", x.Request)
	}
	return c.checkTurnID(x.Turn)
}
