package journal_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// read returns the number of valid lines.
func read(input []byte) (lines int, err error) {
	for _, err := range journal.ReadExport(bytes.NewReader(input)) {
		if err != nil {
			return lines, err
		}
		lines++
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
	e := journal.NewExportWriter(&out)
	for line := range bytes.Lines(b) {
		var l journal.ExportLine
		if json.Unmarshal(line, &l) == nil && l.End == nil {
			_ = e.Write(l)
		}
	}
	_ = e.Close()
	return out.Bytes()
}

// TestForgedExports checks what an export must be in itself, because anyone can compute its sums.
func TestForgedExports(t *testing.T) {
	for _, c := range []struct{ name, find, change, says string }{
		{"session.jsonl", `question of t1`, `question of t1`, ""},
		{"session.jsonl", `question of t2","turn_id`, `Question of t2","turn_id`, "hash chain does not hold"},
		{"session.jsonl", `"format":"everturn-session"`, `"format":"something-else"`, "not an export of a session"},
		{"session.jsonl", `"version":1`, `"version":4`, "newer version"},
		{"session.jsonl", `"session":{"id":"s"`, `"session":{"id":" "`, "the session ID"},
		{"session.jsonl", `"session":{"id":"s"`, `"session":{"id":"a\u0000b"`, "the session ID"},
		{"session.jsonl", `"session":{"id":"s"`, `"session":{"id":"tenant:b/x"`, "the session ID"},
		{"session.jsonl", `"session":{"id":"s"`, `"session":{"id":"--config=evil.toml"`, "begins with a dash"},
		{"session.jsonl", `"turn":{"id":"t1"`, `"turn":{"id":"\u001b[31m"`, "cannot be printed"},
		{"session.jsonl", `"turn":{"id":"t1"`, `"turn":{"id":"--dev"`, "begins with a dash"},
		{"session.jsonl", `"turn":{"id":"t3"`, `"turn":{"id":"t2"`, "is there already"},
		{"session.jsonl", `"reason":"answered"`, `"reason":"\u001b]0;x\u0007"`, "unknown finish reason"},
		{"session.jsonl", `"reason":"answered"`, `"reason":"answered","code":"\u001b[31m"`, "unknown code"},
		{"session.jsonl", `"outcome":"ok"`, `"outcome":"\u001b[31m"`, "unknown outcome"},
		{"session.jsonl", `"state":"running"`, `"state":"asleep"`, "unknown state"},
		{"session.jsonl", `"event":{"turn":"t3"`, `"event":{"turn":"t9"`, "does not have"},
		{"requests.jsonl", `"request":{`, `"request":{`, ""},
		{"requests.jsonl", `"request":{"turn":"u1-s2"`, `"request":{"turn":"u9"`, "does not have"},
		{"requests.jsonl", `"request":{"turn":"u2-s2","id":"q1"`,
			`"request":{"turn":"u1-s2","id":"q1"`, "is over"},
		{"requests.jsonl", `"risk":"`, `"risk":"\u001b[31m`, "unknown risk"},
		{"requests.jsonl", `"tool":"local/read_file","arguments":"{}","arguments_hash":"4`,
			`"tool":"local/read_file","arguments":"{","arguments_hash":"5`, "no arguments of request"},
		{"requests.jsonl", `"kind":"question"`, `"kind":"wish"`, "unknown kind"},
		{"requests.jsonl", `"grant":{"tool":"local/write_file"`, `"grant":{"tool":""`, "tool ID is empty"},
		{"requests.jsonl", `"status":"allowed"`, `"status":""`, "decision of request"},
		{"requests.jsonl", `"status":"allowed"`, `"status":"perhaps"`, "decision of request"},
		{"fork.jsonl", `"fork_seq":5`, `"fork_seq":4`, "not the fork point"},
		{"fork.jsonl", `"fork_seq":5`, `"fork_seq":99`, "does not fit"},
		{"fork.jsonl", `"fork_hash":"`, `"fork_hash":"0`, "not the fork point"},
		{"tools.jsonl", `"taint_source":{"turn":"w1"`, `"taint_source":{"turn":"w1"`, ""},
		{"tools.jsonl", `"bytes":"`, `"bytes":"AAAA`, "do not have its hash"},
		{"tools.jsonl", `"type":"image/png","bytes":12`, `"type":"image/png","bytes":13`, "12 bytes is given as 13"},
		{"tools.jsonl", `"media":[{"hash":"6157`, `"media":[{"hash":"6158`, "no blob"},
		{"tools.jsonl", `"call":"2.0","asked_at"`, `"call":"","asked_at"`, "an elicitation and a call"},
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

// TestForgedTimeIsRefused checks a time that JSON decodes and Go does not encode, so that its line has no sum.
func TestForgedTimeIsRefused(t *testing.T) {
	forged := bytes.Replace(sample(t, "session.jsonl"), []byte(`"started_at":"2026-02-03T04:05:24.000000789Z"`),
		[]byte(`"started_at":"2026-01-01T00:00:00+24:00"`), 1)
	_, err := read(forged)
	assert.ErrorContains(t, err, "line 4: not a line of an export")
}

func TestForgedExportsWithTooMuchAreRefused(t *testing.T) {
	calls := strings.Repeat(`{"id":"1.0","arguments":"{}"},`, journal.MaxCalls) + `{"id":"1.0","arguments":"{}"}`
	_, err := read(edit(t, "session.jsonl", `"text":"question of t1"`, `"text":"question of t1","tool_calls":[`+calls+`]`))
	assert.ErrorContains(t, err, "has 129 calls")

	grants := func(n int) error {
		var more bytes.Buffer
		for line := range bytes.Lines(sample(t, "requests.jsonl")) {
			more.Write(line)
			if bytes.HasPrefix(line, []byte(`{"grant":`)) {
				more.Write(bytes.Repeat(line, n))
				n = 0
			}
		}
		_, err := read(resum(more.Bytes()))
		return err
	}
	assert.NoError(t, grants(1000))
	assert.ErrorContains(t, grants(10_000), "more than 10000 grants")
}

func TestNewerExportIsToldFromGarbage(t *testing.T) {
	_, err := read([]byte(`{"header":{"format":"everturn-session","version":7,"colour":"red"},"sum":"x"}` + "\n"))
	assert.ErrorIs(t, err, journal.ErrNewer)
}

func TestLongLineIsRefusedBeforeItIsHeld(t *testing.T) {
	endless := zeros{}
	for _, err := range journal.ReadExport(endless) {
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
		var l journal.ExportLine
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
