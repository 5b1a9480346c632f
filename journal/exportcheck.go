package journal

import (
	"errors"
	"fmt"
	"slices"

	"github.com/everturn/everturn/workflows/turn"
)

// exportCheck holds what the lines so far have said.
type exportCheck struct {
	blob   func(hash string) ([]byte, error)
	place  int // the kind of the last line, as its rank in Line
	lines  int64
	ended  bool
	header ExportHeader

	blobs    map[string]int64 // their sizes
	turns    map[string]*turnCheck
	openers  map[int64]string // the turn that begins with the message of this seq
	head     turn.Head
	hashes   []string // of the messages, by seq-1
	awaiting []string // calls of the last assistant message without a result yet
	calls    map[[2]string]turn.Outcome
	waits    map[[2]string]bool
	rules    map[[2]string]bool
}

type turnCheck struct {
	record TurnRecord
	chunks int64
	done   bool // turn_completed was seen
}

func newExportCheck(blob func(string) ([]byte, error)) *exportCheck {
	return &exportCheck{
		blob: blob, blobs: map[string]int64{}, turns: map[string]*turnCheck{}, openers: map[int64]string{},
		calls: map[[2]string]turn.Outcome{}, waits: map[[2]string]bool{}, rules: map[[2]string]bool{},
	}
}

// line checks the next line.
func (c *exportCheck) line(l Line) error {
	rank, err := rankOf(l)
	switch {
	case err != nil:
		return err
	case c.ended:
		return errors.New("there is a line after the end line")
	case rank < c.place || (rank == 0) != (c.lines == 0):
		return errors.New("it is out of order: header, blobs, turns, messages, inferences, calls, late results, waits, rules, chunks, end")
	}
	c.place = rank
	if err := c.content(l); err != nil {
		return err
	}
	c.lines++
	return nil
}

// rankOf returns which of the line's pointers is set.
func rankOf(l Line) (rank int, err error) {
	rank = -1
	set := []bool{l.Header != nil, l.Blob != nil, l.Turn != nil, l.Message != nil, l.Inference != nil, l.Call != nil, l.Late != nil,
		l.Wait != nil, l.Rule != nil, l.Chunk != nil, l.End != nil}
	for i, is := range set {
		if is && rank >= 0 {
			return rank, errors.New("it holds more than one thing")
		}
		if is {
			rank = i
		}
	}
	if rank < 0 {
		return rank, errors.New("it holds nothing that is known")
	}
	return rank, nil
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
		return c.checkInference(*l.Inference)
	case l.Call != nil:
		return c.checkCall(*l.Call)
	case l.Late != nil:
		return c.checkLate(*l.Late)
	case l.Wait != nil:
		return c.checkWait(*l.Wait)
	case l.Rule != nil:
		return c.checkRule(*l.Rule)
	case l.Chunk != nil:
		return c.checkChunk(*l.Chunk)
	}
	return c.checkEnd(*l.End)
}

func (c *exportCheck) checkHeader(h ExportHeader) error {
	c.header = h
	switch {
	case h.Format != ExportFormat:
		return fmt.Errorf("the format is %q, not %q: this is no export of a session", h.Format, ExportFormat)
	case h.Version > ExportVersion:
		return newerExport(h.Version)
	case h.Version < 1:
		return fmt.Errorf("there is no version %d", h.Version)
	}
	return errors.Join(turn.CheckSession(h.Session.ID), checkForkHeader(h), checkMark(h.Mark))
}

func checkForkHeader(h ExportHeader) error {
	s := h.Session
	if s.Parent == "" {
		if s.ForkSeq != 0 || h.ForkHash != "" || h.ForkTurn != "" {
			return errors.New("it names a fork point and no session that was forked")
		}
		return nil
	}
	if s.ForkSeq < 1 || s.ForkSeq > s.Head.Seq || h.ForkHash == "" || h.ForkTurn == "" {
		return fmt.Errorf("its fork point %d does not fit the session", s.ForkSeq)
	}
	return nil
}

// checkMark bounds a mark. Its turn may be one of a session that this one was forked from.
func checkMark(m *Mark) error {
	if m == nil {
		return nil
	}
	if m.Tool == "" || len(m.Tool) > MaxIDBytes {
		return errors.New("its mark names no tool")
	}
	return errors.Join(badID("turn", m.Turn), badID("call", m.CallID))
}

func badID(what, id string) error {
	if id == "" || len(id) > MaxIDBytes {
		return fmt.Errorf("the %s's ID has %d bytes: at least 1 and at most %d", what, len(id), MaxIDBytes)
	}
	return nil
}

// badName is badID for an ID that this product gives, which is shown to people.
func badName(what, id string) error {
	if !turn.Printable(id) {
		return fmt.Errorf("the %s's ID has characters that cannot be printed", what)
	}
	return badID(what, id)
}

func (c *exportCheck) checkBlob(b ExportBlob) error {
	if len(b.Bytes) > MaxBlobBytes {
		return fmt.Errorf("the blob has %d bytes: at most %d", len(b.Bytes), MaxBlobBytes)
	}
	if HashOf(b.Bytes) != b.Hash {
		return errors.New("the blob's bytes do not have its hash")
	}
	c.blobs[b.Hash] = int64(len(b.Bytes))
	return nil
}

// media refuses media that are not as a journal keeps them, or whose blobs no line has brought.
func (c *exportCheck) media(media []turn.Media) error {
	if len(media) > MaxMedia || !slices.EqualFunc(media, KeptMedia(media), sameMedia) {
		return errors.New("its media are not as a journal keeps them")
	}
	for _, m := range media {
		if err := c.known(m.Hash); err != nil {
			return err
		}
		if m.Hash == "" || m.Bytes != c.blobs[m.Hash] || m.Bytes > MaxMediaBytes {
			return fmt.Errorf("a medium is said to have %d bytes, and its blob has others", m.Bytes)
		}
	}
	return nil
}

func sameMedia(a, b turn.Media) bool {
	return a.Hash == b.Hash && a.Type == b.Type && a.Bytes == b.Bytes
}

// known refuses names of blobs that no line has brought. Empty names name nothing.
func (c *exportCheck) known(hashes ...string) error {
	for _, hash := range hashes {
		if _, there := c.blobs[hash]; hash != "" && !there {
			return fmt.Errorf("the export has no blob %q", Preview(hash, 64))
		}
	}
	return nil
}

func (c *exportCheck) checkTurn(t ExportTurn) error {
	if err := errors.Join(badName("turn", t.ID), badID("message", t.MessageID), c.known(t.PinsBlob)); err != nil {
		return err
	}
	if c.turns[t.ID] != nil || c.openers[t.MessageSeq] != "" {
		return fmt.Errorf("turn %s, or one that begins with message %d, is there already", t.ID, t.MessageSeq)
	}
	if !validState(t.State) || t.State.Terminal() == t.EndedAt.IsZero() {
		return fmt.Errorf("its state %q and its end do not fit", t.State)
	}
	if err := errors.Join(badWord("finish reason", t.Reason), badWord("code", t.Code)); err != nil {
		return err
	}
	c.turns[t.ID] = &turnCheck{record: t.TurnRecord}
	c.openers[t.MessageSeq] = t.ID
	return nil
}

// badWord refuses a word that is none of a closed set. An empty one says nothing.
func badWord[W interface {
	~string
	Known() bool
}](what string, w W) error {
	if w != "" && !w.Known() {
		return fmt.Errorf("there is no %s %q", what, Preview(string(w), 64))
	}
	return nil
}

func validState(s turn.State) bool {
	switch s {
	case turn.StateRunning, turn.StateWaiting, turn.StateCompleted, turn.StateFailed, turn.StateCancelled, turn.StateClosed:
		return true
	}
	return false
}
