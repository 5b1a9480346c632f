package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// read reads an export as a store does, and returns the number of valid lines.
func read(input []byte) (lines int, err error) {
	blobs := map[string][]byte{}
	load := func(hash string) ([]byte, error) {
		b, ok := blobs[hash]
		if !ok {
			return nil, fmt.Errorf("blob %s was never yielded", hash)
		}
		return b, nil
	}
	for l, err := range journal.ReadExport(bytes.NewReader(input), load) {
		if err != nil {
			return lines, err
		}
		lines++
		if l.Blob != nil {
			blobs[l.Blob.Hash] = l.Blob.Bytes
		}
	}
	return lines, nil
}

// keptExports are exports of sessions. The fork is one of the session in the first file.
var keptExports = []string{"session.jsonl", "requests.jsonl", "fork.jsonl", "tools.jsonl"}

func sample(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return b
}

// update recomputes the sums of the files in testdata after their lines were edited by hand.
var update = flag.Bool("update", false, "write new sums into testdata")

func TestKeptExportIsReadable(t *testing.T) {
	for _, name := range keptExports {
		if *update {
			require.NoError(t, os.WriteFile("testdata/"+name, resum(sample(t, name)), 0o644))
		}
		lines, err := read(sample(t, name))
		require.NoError(t, err)
		assert.Equal(t, bytes.Count(sample(t, name), []byte("\n")), lines)
	}
}

// edit changes one line and recomputes all sums after it, as an attacker who knows the format does.
func edit(t *testing.T, name, find, change string) []byte {
	t.Helper()
	lines := strings.SplitAfter(string(sample(t, name)), "\n")
	found := false
	for i, line := range lines {
		if strings.Contains(line, find) && !found {
			found = true
			lines[i] = strings.Replace(line, find, change, 1)
		}
	}
	require.True(t, found, find)
	return resum([]byte(strings.Join(lines, "")))
}

// resum rewrites the lines that decode, with correct sums and a correct end.
func resum(b []byte) []byte {
	var out bytes.Buffer
	e := journal.NewExporter(&out)
	for line := range bytes.Lines(b) {
		var l journal.Line
		if json.Unmarshal(line, &l) == nil && l.End == nil {
			_ = e.Write(l)
		}
	}
	_ = e.Close()
	return out.Bytes()
}

// TestEditedExports checks that an export is consistent in itself, because anyone can compute its sums.
func TestEditedExports(t *testing.T) {
	for _, c := range []struct{ find, change, says string }{
		{`question of t1`, `question of t1`, ""},
		{`question of t2","turn_id`, `Question of t2","turn_id`, "hash chain does not hold"},
		{`"format":"everturn-session"`, `"format":"something-else"`, "not an export of a session"},
		{`"version":1`, `"version":4`, "newer version"},
		{`"session":{"id":"s"`, `"session":{"id":" "`, "the session ID"},
		{`"session":{"id":"s"`, `"session":{"id":"a\u0000b"`, "the session ID"},
		{`"session":{"id":"s"`, `"session":{"id":"tenant:b/x"`, "the session ID"},
		{`"turn":{"id":"t1"`, `"turn":{"id":"\u001b[31m"`, "cannot be printed"},
		{`"bytes":"`, `"bytes":"AAAA`, "do not have its hash"},
		{`"text_blob":"`, `"text_blob":"0`, "no blob"},
		{`"index":3,`, `"index":4,`, "index 4; the next one is 3"},
		{`"reason":"answered"`, `"reason":"\u001b]0;x\u0007"`, "unknown finish reason"},
		{`"reason":"answered"`, `"reason":"answered","code":"\u001b[31m"`, "unknown code"},
		{`"outcome":"ok"`, `"outcome":"\u001b[31m"`, "unknown outcome"},
		{`"state":"running"`, `"state":"asleep"`, "unknown state"},
		{`"chunk":{"turn":"t3"`, `"chunk":{"turn":"t9"`, "does not have"},
	} {
		_, err := read(edit(t, "session.jsonl", c.find, c.change))
		if c.says == "" {
			assert.NoError(t, err)
			continue
		}
		assert.ErrorContains(t, err, c.says)
		assert.ErrorContains(t, err, "line ")
	}
}

// TestEditedPeople checks the same for grants, requests and decisions.
func TestEditedPeople(t *testing.T) {
	for _, c := range []struct{ name, find, change, says string }{
		{"requests.jsonl", `"request":{`, `"request":{`, ""},
		{"requests.jsonl", `"request":{"session":"","turn":"u1-s2"`, `"request":{"session":"","turn":"u9"`, "does not have"},
		{"requests.jsonl", `"request":{"session":"","turn":"u2-s2","id":"q1"`,
			`"request":{"session":"","turn":"u1-s2","id":"q1"`, "is over"},
		{"requests.jsonl", `"risk":"`, `"risk":"\u001b[31m`, "unknown risk"},
		{"requests.jsonl", `"kind":"question"`, `"kind":"wish"`, "unknown kind"},
		{"requests.jsonl", `"grant":{"tool":"local/write_file"`, `"grant":{"tool":""`, "tool ID is empty"},
		{"fork.jsonl", `"fork_seq":5`, `"fork_seq":4`, "not the fork point"},
		{"fork.jsonl", `"fork_seq":5`, `"fork_seq":99`, "does not fit"},
		{"fork.jsonl", `"fork_hash":"`, `"fork_hash":"0`, "not the fork point"},
	} {
		_, err := read(edit(t, c.name, c.find, c.change))
		if c.says == "" {
			assert.NoError(t, err)
			continue
		}
		assert.ErrorContains(t, err, c.says, c.find)
		assert.ErrorContains(t, err, "line ")
	}
}

// TestEditedTools checks the same for the records of tool calls.
func TestEditedTools(t *testing.T) {
	for _, c := range []struct{ find, change, says string }{
		{`"taint_source":{"turn":"w1"`, `"taint_source":{"turn":"w1"`, ""},
		{`"type":"image/png","bytes":12`, `"type":"image/png","bytes":13`, "12 bytes is given as 13"},
		{`"media":[{"hash":"6157`, `"media":[{"hash":"6158`, "no blob"},
		{`"media":[{"hash":"dd29442deca69f52c50006b831cb216edf78a7da33748f0a80ff19f2ebe57ecd"`, `"media":[{"hash":""`,
			"medium ID is empty"},
		{`"call":"2.0","asked_at"`, `"call":"","asked_at"`, "an elicitation and a call"},
	} {
		_, err := read(edit(t, "tools.jsonl", c.find, c.change))
		if c.says == "" {
			assert.NoError(t, err)
			continue
		}
		assert.ErrorContains(t, err, c.says, c.find)
	}
}

// bounded returns an export of one blob of size bytes and of messages and inferences that refer to it.
func bounded(size, inferences int, messages ...journal.ExportMessage) []byte {
	var out bytes.Buffer
	e := journal.NewExporter(&out)
	header := journal.ExportHeader{Format: journal.ExportFormat, Version: journal.ExportVersion}
	header.Session.ID = "s"
	content := bytes.Repeat([]byte("a"), size)
	lines := []journal.Line{{Header: &header}, {Blob: &journal.ExportBlob{Hash: journal.HashOf(content), Bytes: content}}}
	record := journal.TurnRecord{ID: "t", MessageID: "m", MessageSeq: 1, State: turn.StateRunning}
	lines = append(lines, journal.Line{Turn: &journal.ExportTurn{TurnRecord: record}})
	head := turn.Head{}
	for _, m := range messages {
		m.Message.TurnID = "t"
		for i := range m.Calls {
			m.Calls[i].ArgumentsBlob = journal.HashOf(content)
		}
		head = journal.Next(head, m.Message)
		m.Seq, m.Hash = head.Seq, head.Hash
		lines = append(lines, journal.Line{Message: &m})
	}
	for range inferences {
		inf := journal.ExportInference{RawBlob: journal.HashOf(content)}
		inf.Key.Turn = "t"
		lines = append(lines, journal.Line{Inference: &inf})
	}
	for _, l := range lines {
		_ = e.Write(l)
	}
	_ = e.Close()
	return out.Bytes()
}

// TestExportsThatMultiplyABlob checks that sizes are counted before a blob is loaded, so that a small file cannot fill
// the reader's memory.
func TestExportsThatMultiplyABlob(t *testing.T) {
	user := journal.ExportMessage{Message: turn.Message{ID: "m", Role: turn.RoleUser}}
	calls := func(n int) journal.ExportMessage {
		return journal.ExportMessage{Message: turn.Message{Role: turn.RoleAssistant}, Calls: make([]journal.StoredCall, n)}
	}
	for name, c := range map[string]struct {
		export []byte
		says   string
	}{
		"more calls than a turn has": {bounded(10, 0, user, calls(journal.MaxCalls+1)), "129 calls; the maximum is 128"},
		"a message of several blobs": {bounded(1<<20, 0, user, calls(100)),
			"the message is 104857600 bytes; the maximum is 67108864"},
		"lines that repeat a blob": {bounded(8<<20, 40, user), "name blobs of 318767104 bytes in all"},
	} {
		err := error(nil)
		load := func(string) ([]byte, error) { return nil, errors.New("a blob was loaded") }
		for _, err = range journal.ReadExport(bytes.NewReader(c.export), load) {
			assert.True(t, err == nil || strings.Contains(err.Error(), c.says), "%s: %v", name, err)
		}
		assert.Error(t, err, name)
	}
}

func TestNewerExportIsToldFromGarbage(t *testing.T) {
	_, err := read([]byte(`{"header":{"format":"everturn-session","version":7,"colour":"red"},"sum":"x"}` + "\n"))
	assert.ErrorIs(t, err, journal.ErrNewer)
}

func TestLongLineIsRefusedBeforeItIsHeld(t *testing.T) {
	endless := zeros{}
	for _, err := range journal.ReadExport(endless, nil) {
		assert.ErrorContains(t, err, "line 1: it is longer than")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// FuzzReadExport checks that no input causes a panic or a hang, and that an accepted export can be written and read
// again. It tries inputs both as they are and with correct sums, because the sums alone reveal nearly every change.
// Every change of a valid export must be detected, unless the content stays the same.
func FuzzReadExport(f *testing.F) {
	var kept [][]byte
	for k, name := range keptExports {
		export := sample(f, name)
		kept = append(kept, export)
		_, err := read(export)
		require.NoError(f, err, "or nothing is tried below")
		f.Add(export, uint32(0), uint32(0), byte(0))
		for i, line := range bytes.SplitAfter(export, []byte("\n")) {
			f.Add(line, uint32(0), uint32(0), byte(0))
			f.Add([]byte{}, uint32(i), uint32(i+1), byte(5*k+2+i%3))
		}
		for at := uint32(0); at < uint32(len(export)); at += 397 {
			f.Add([]byte{}, at, uint32(1)<<(at%7), byte(5*k+1))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, at, to uint32, how byte) {
		if how%5 > 0 {
			export := kept[int(how/5)%len(kept)]
			requireFound(t, export, tamper(export, at, to, how%5))
			return
		}
		_, bad := read(b)
		again := resum(b)
		_, err := read(again)
		if bad == nil {
			require.NoError(t, err, "what was taken can be written and taken again")
		}
		if err == nil {
			require.Equal(t, string(again), string(resum(again)))
		}
	})
}

// requireFound checks that an export is refused if its content changed or, if its sums were recomputed, if its
// transcript changed.
func requireFound(t *testing.T, kept, changed []byte) {
	t.Helper()
	forged := resum(changed)
	if _, err := read(changed); err == nil {
		require.Equal(t, string(kept), string(forged), "a change was not found")
	}
	if _, err := read(forged); err == nil {
		head, messages := transcript(forged)
		wasHead, were := transcript(kept)
		require.Equal(t, wasHead, head, "another head than the messages come to")
		require.Equal(t, were, messages, "with right sums, a changed message was not found")
	}
}

// transcript returns the head and the messages of an export.
func transcript(export []byte) (head turn.Head, messages []string) {
	for line := range bytes.Lines(export) {
		var l journal.Line
		if json.Unmarshal(line, &l) != nil {
			continue
		}
		switch {
		case l.Header != nil:
			head = l.Header.Session.Head
		case l.Message != nil:
			l.Sum = ""
			text, _ := json.Marshal(l) // it was decoded from JSON
			messages = append(messages, string(text))
		}
	}
	return head, messages
}

// tamper changes a byte of an export (1), omits a line (2), duplicates it (3) or moves it (4).
func tamper(export []byte, at, to uint32, how byte) []byte {
	if how == 1 {
		changed := bytes.Clone(export)
		changed[int(at)%len(changed)] ^= byte(to)
		return changed
	}
	lines := bytes.SplitAfter(bytes.TrimSuffix(export, []byte("\n")), []byte("\n"))
	from := int(at) % len(lines)
	line := lines[from]
	if how != 3 {
		lines = slices.Delete(lines, from, from+1)
	}
	if how != 2 {
		lines = slices.Insert(lines, int(to)%len(lines), line)
	}
	return bytes.Join(lines, nil)
}

// TestADecisionWithoutAStatusIsRefused covers exports whose sums fit, but which have a decision that leaves its request
// open.
func TestADecisionWithoutAStatusIsRefused(t *testing.T) {
	export := sample(t, "requests.jsonl")
	for _, status := range []string{"", "perhaps"} {
		edited := bytes.Replace(export, []byte(`"status":"allowed"`), []byte(`"status":"`+status+`"`), 1)
		require.NotEqual(t, export, edited)
		_, err := read(resum(edited))
		assert.ErrorContains(t, err, "decision of request", status)
	}
}
