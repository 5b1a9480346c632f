package chat

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
)

// Bounds on the history. historyEntry is in bytes.
const (
	historyEntries = 500
	historyEntry   = 16 << 10 // a longer text is not kept
)

// history holds the typed texts, the latest last. It is kept in a file with one JSON string per line, to which several
// chats may append. If the file cannot be read or written, only the history is lost.
type history struct {
	file  string
	texts []string
	at    int    // the entry that the arrow keys have reached; len(texts) is the draft
	draft string // the input before the arrow keys replaced it
}

// loadHistory reads the file, and shortens a file with many more entries than are kept.
func loadHistory(file string) *history {
	h := &history{file: file}
	content, _ := os.ReadFile(file)
	for line := range bytes.Lines(content) {
		var text string
		if json.Unmarshal(line, &text) == nil && text != "" {
			h.texts = append(h.texts, text)
		}
	}
	if len(h.texts) > historyEntries {
		h.texts = h.texts[len(h.texts)-historyEntries:]
		var b bytes.Buffer
		for _, text := range h.texts {
			b.Write(historyLine(text))
		}
		if part := file + ".new"; os.WriteFile(part, b.Bytes(), 0o600) == nil {
			_ = os.Rename(part, file)
		}
	}
	h.at = len(h.texts)
	return h
}

func historyLine(text string) []byte {
	b, _ := json.Marshal(text) // strings always marshal
	return append(b, '\n')
}

// add appends a text unless it is empty, longer than historyEntry, or the same as the last one.
func (h *history) add(text string) {
	defer func() { h.at, h.draft = len(h.texts), "" }()
	if text == "" || len(text) > historyEntry || len(h.texts) > 0 && h.texts[len(h.texts)-1] == text {
		return
	}
	h.texts = append(h.texts, text)
	h.texts = h.texts[max(0, len(h.texts)-historyEntries):]
	if h.file == "" || os.MkdirAll(filepath.Dir(h.file), 0o700) != nil {
		return
	}
	f, err := os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.Write(historyLine(text))
}

// move moves by entries and returns the text there; false if there is none. current is the text in the input, which
// move keeps as the draft when it leaves the draft.
func (h *history) move(by int, current string) (string, bool) {
	to := h.at + by
	if to < 0 || to > len(h.texts) {
		return "", false
	}
	if h.at == len(h.texts) {
		h.draft = current
	}
	h.at = to
	if to == len(h.texts) {
		return h.draft, true
	}
	return h.texts[to], true
}
