package chat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHistoryOutlivesTheChat(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "history")
	one, two := loadHistory(file), loadHistory(file)
	one.add("first\nwith a line")
	two.add("from another terminal")
	one.add("first\nwith a line")
	one.add(strings.Repeat("x", historyEntry+1))
	assert.Equal(t, []string{"first\nwith a line", "from another terminal"}, loadHistory(file).texts)
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "only the user may read it")
}

func TestHistoryIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	h := loadHistory(file)
	for i := range 3 * historyEntries {
		h.add(strings.Repeat("word ", 200) + strings.Repeat("x", i%7))
	}
	assert.LessOrEqual(t, len(h.texts), historyEntries)
	again := loadHistory(file)
	assert.NotEmpty(t, again.texts)
	assert.Equal(t, h.texts[len(h.texts)-1], again.texts[len(again.texts)-1], "the last ones are kept")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, historyEntries, strings.Count(string(content), "\n"))
}

func TestABrokenHistoryCostsNothingElse(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "history")
	require.NoError(t, os.WriteFile(file, []byte("\"good\"\nnot JSON\n\x00\xff\n{\"a\":1}\n\"better\"\n\"half"), 0o600))
	assert.Equal(t, []string{"good", "better"}, loadHistory(file).texts)
	h := loadHistory(dir) // a folder
	h.add("kept for now")
	text, ok := h.move(-1, "draft")
	assert.True(t, ok)
	assert.Equal(t, "kept for now", text)
	text, _ = h.move(1, text)
	assert.Equal(t, "draft", text)
	_, ok = h.move(1, "draft")
	assert.False(t, ok)
}
