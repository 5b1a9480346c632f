package journal

import (
	"errors"
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

// Bounds of an export's content. One blob can be named by many lines, so that a small file could fill the memory of its
// readers.
const (
	// MaxCalls bounds the tool calls of a message. The bytes of a message are at most MaxBlobBytes.
	MaxCalls = 128
	// maxBlobBytesNamed bounds the bytes of all blobs, each counted every time a line names it. maxBlobBytesPerByte allows
	// more bytes for each byte of the file so far.
	maxBlobBytesNamed   = 256 << 20
	maxBlobBytesPerByte = 4
	// maxGrants bounds the grants of an export: a user gave each of them.
	maxGrants = 10_000
)

// exportCheck is the state of the check after the lines so far.
type exportCheck struct {
	blob      func(hash string) ([]byte, error)
	lastRank  int // the kind of the last line: its rank in Line
	lines     int64
	read      int64 // bytes
	blobBytes int64 // bytes of blobs: see maxBlobBytesNamed
	ended     bool
	header    ExportHeader

	blobs              map[string]int64 // their sizes
	turns              map[string]*turnCheck
	running            bool // one of the turns is not over
	head               turn.Head
	callsWithoutResult []string // calls of the last assistant message that have no result yet
	grants             int
}

type turnCheck struct {
	over   bool
	chunks int64
}

func newExportCheck(blob func(string) ([]byte, error)) *exportCheck {
	return &exportCheck{blob: blob, blobs: map[string]int64{}, turns: map[string]*turnCheck{}}
}

// line checks the next line.
func (c *exportCheck) line(l Line) error {
	rank, err := rankOf(l)
	switch {
	case err != nil:
		return err
	case c.ended:
		return errors.New("there is a line after the end line")
	case rank < c.lastRank || (rank == 0) != (c.lines == 0):
		return errors.New("a line is out of order: header, blobs, turns, messages, inferences, calls, late results, " +
			"requests, grants, chunks, end")
	}
	c.lastRank = rank
	if err := c.content(l); err != nil {
		return err
	}
	c.lines++
	return nil
}

// rankOf returns which of the line's pointers is set.
func rankOf(l Line) (rank int, err error) {
	rank = -1
	set := []bool{l.Header != nil, l.Blob != nil, l.Turn != nil, l.Message != nil, l.Inference != nil, l.Call != nil,
		l.LateResult != nil,
		l.Request != nil, l.Grant != nil, l.Chunk != nil, l.End != nil}
	for i, is := range set {
		if is && rank >= 0 {
			return rank, errors.New("it sets more than one field")
		}
		if is {
			rank = i
		}
	}
	if rank < 0 {
		return rank, errors.New("it sets no known field")
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
	case l.LateResult != nil:
		return c.checkLate(*l.LateResult)
	case l.Request != nil:
		return c.checkRequest(*l.Request)
	case l.Grant != nil:
		return c.checkGrant(*l.Grant)
	case l.Chunk != nil:
		return c.checkChunk(*l.Chunk)
	}
	return c.checkEnd(*l.End)
}

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
	return turn.CheckSession(h.Session.ID)
}

// checkShownID is checkID for an ID that Everturn generates and shows to users.
func checkShownID(what, id string) error {
	if !turn.Printable(id) {
		return fmt.Errorf("the %s ID has characters that cannot be printed", what)
	}
	return checkID(what, id)
}

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

// media refuses media whose blobs have not appeared in the export, or that exceed the journal's bounds.
func (c *exportCheck) media(media []turn.Media) error {
	if len(media) > MaxMedia {
		return fmt.Errorf("it has %d media; the maximum is %d", len(media), MaxMedia)
	}
	for _, m := range media {
		if size, there := c.blobs[m.Hash]; there && (m.Bytes != size || size > MaxMediaBytes) {
			return fmt.Errorf("a medium of %d bytes is given as %d bytes; the maximum is %d", size, m.Bytes, MaxMediaBytes)
		}
		if err := c.countBlobs(m.Hash); err != nil || m.Hash == "" {
			return errors.Join(err, checkID("medium", m.Hash))
		}
	}
	return nil
}

// countBlobs counts the bytes of the blobs that a line names. It returns an error if a blob has not appeared in the
// export, or if the lines so far name too many bytes. Empty hashes are skipped.
func (c *exportCheck) countBlobs(hashes ...string) error {
	for _, hash := range hashes {
		size, there := c.blobs[hash]
		if hash != "" && !there {
			return fmt.Errorf("the export has no blob %q", Preview(hash, 64))
		}
		c.blobBytes += size
	}
	if most := maxBlobBytesNamed + maxBlobBytesPerByte*c.read; c.blobBytes > most {
		return fmt.Errorf("the lines so far name blobs of %d bytes in all; the maximum at this place is %d", c.blobBytes,
			most)
	}
	return nil
}

func (c *exportCheck) checkTurn(t ExportTurn) error {
	if err := errors.Join(checkShownID("turn", t.ID), checkID("message", t.MessageID),
		c.countBlobs(t.ConfigBlob)); err != nil {
		return err
	}
	over := t.State.Terminal()
	switch {
	case c.turns[t.ID] != nil:
		return fmt.Errorf("turn %s is there already", t.ID)
	case !over && c.running:
		return fmt.Errorf("turn %s is running, and so is another one", t.ID)
	}
	c.running = c.running || !over
	c.turns[t.ID] = &turnCheck{over: over}
	return errors.Join(badWord("state", t.State), badWord("finish reason", t.Reason), badWord("code", t.Code))
}

// badWord refuses a word that is not in a closed set. The empty word is valid.
func badWord[W interface {
	~string
	Known() bool
}](what string, w W) error {
	if w != "" && !w.Known() {
		return fmt.Errorf("unknown %s %q", what, Preview(string(w), 64))
	}
	return nil
}
