package chat

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"charm.land/bubbles/v2/list"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// Bounds on the history. historyEntry is in bytes.
const (
	historyEntries = 500
	historyEntry   = 16 << 10 // a longer text is not kept
)

// history holds the texts that the user has typed, the latest last. Its file has one JSON string per line, so that
// several chats may append to it. Errors of the file are ignored: without it, the history ends with the chat.
type history struct {
	file  string // empty: none
	texts []string
	at    int    // the index of the text that the arrow keys have reached; len(texts) is the draft
	draft string // the input before the arrow keys replaced it
}

// loadHistory reads the history from a file, which need not exist. It keeps the last historyEntries texts, and removes
// older ones from the file.
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
		if temporary := file + ".new"; os.WriteFile(temporary, b.Bytes(), 0o600) == nil {
			_ = os.Rename(temporary, file)
		}
	}
	h.at = len(h.texts)
	return h
}

func historyLine(text string) []byte {
	b, _ := json.Marshal(text) // strings always marshal
	return append(b, '\n')
}

// add appends a text to the history and its file, unless the text is empty, longer than historyEntry, or the same as
// the last one. The arrow keys then start from the draft again.
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

// matching returns the texts that contain a term, whatever its letter case, the latest first, at most shownChoices.
func (h *history) matching(term string) (items []list.Item) {
	seen := map[string]bool{}
	for _, text := range slices.Backward(h.texts) {
		if seen[text] || !strings.Contains(strings.ToLower(text), strings.ToLower(term)) {
			continue
		}
		seen[text] = true
		if items = append(items, choice{text: text, label: termsafe.Line(text, 200)}); len(items) == shownChoices {
			break
		}
	}
	return items
}

// move moves by a number of texts, negative for older ones, and returns the text there. It returns false if there is
// none. current is the text in the input: move keeps it as the draft when it moves away from the draft.
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
