package chat

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
)

// files writes files into a folder and makes it the current one.
func files(t *testing.T, content map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range content {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
}

const png = "\x89PNG\r\n\x1a\n and the rest"

func TestFilesThatAMessageNamesAreAttached(t *testing.T) {
	s := newStage(t, 80, 30)
	s.o.SeesImages = func(requested string) bool { return requested != "" }
	files(t, map[string]string{"shot.png": png, "two words.png": png, "doc/spec.pdf": "%PDF-1.7 x", "a.go": "package a\n"})
	s.says(`What is @shot.png, @"two words.png", @doc/spec.pdf and @a.go? Ask @alice in @doc, not @@a.go.`)
	s.until("it is sent", func() bool { return len(s.messages) == 1 })
	assert.Equal(t, `What is @shot.png, @"two words.png", @doc/spec.pdf and @a.go? Ask @alice in @doc, not @a.go.`+
		"\n\n<file path=\"a.go\">\npackage a\n</file>", s.messages[0].Message.Text)
	assert.Equal(t, []client.Attachment{{Type: "image/png", Data: []byte(png)}, {Type: "image/png", Data: []byte(png)},
		{Type: "application/pdf", Data: []byte("%PDF-1.7 x")}}, s.messages[0].Attachments)
	s.prints("the model takes no images")
	s.begin(s.messages[0].Message.ID, s.messages[0].Message.Text)
	s.prints("[image/png, 21 B] [image/png, 21 B] [application/pdf, 10 B] [a.go, 10 B]")
	assert.NotContains(t, s.all(), "package a")
	s.press(ctrlO)
	assert.Contains(t, s.all(), "package a", "what the chat has added can be seen")
}

func TestAFileThatCannotBeAttachedKeepsTheMessage(t *testing.T) {
	s := newStage(t, 120, 30)
	files(t, map[string]string{"big.txt": strings.Repeat("x", maxTextFile+1), "program": "\x7fELF\x00",
		"big.png": png + strings.Repeat("x", client.MaxAttachmentBytes)})
	require.NoError(t, syscall.Mkfifo("pipe", 0o600))
	for line, want := range map[string]string{
		"see @none.png": "there is no such file", "see @sub/none": "there is no such file", "see @big.txt": "too large",
		"see @big.png": "too large", "see @program": "neither text, nor an image, nor a PDF",
		"see @pipe": "not a regular file", `see @"no such"`: "there is no such file",
	} {
		s.says(line)
		s.prints(want)
		assert.Equal(t, line, s.input.Value(), "the message stays in the input")
		s.press(ctrlU)
	}
	assert.Empty(t, s.messages)
	s.take(tea.PasteMsg{Content: strings.Repeat("@app.route /x\n", 20)})
	s.press(enter)
	s.until("it is sent", func() bool { return len(s.messages) == 1 })
}

func TestTheMenuNamesAFileWithSpaces(t *testing.T) {
	s := newStage(t, 80, 24)
	files(t, map[string]string{"my shot.png": png, `a"b.txt`: "x"})
	s.types("@shot")
	s.shows(`> @"my shot.png"`)
	s.press(enter, enter)
	s.until("it is sent", func() bool { return len(s.messages) == 1 })
	assert.Len(t, s.messages[0].Attachments, 1)
}

func TestTooManyAttachments(t *testing.T) {
	s := newStage(t, 80, 24)
	content, line := map[string]string{}, "see"
	for _, name := range strings.Split("a b c d e f g h i", " ") {
		content[name+".png"] = png
		line += " @" + name + ".png"
	}
	files(t, content)
	s.says(line)
	s.prints("the message has 9 images and PDFs; the maximum is 8")
	assert.Empty(t, s.messages)
}

func TestALongMessageIsFolded(t *testing.T) {
	s := newStage(t, 80, 24)
	s.begin("m1", strings.Repeat("a line\n", 100)+"its end")
	s.prints("more rows; Ctrl-O or a click shows them")
	assert.NotContains(t, s.all(), "its end")
	s.press(ctrlO)
	assert.Contains(t, s.all(), "its end")
}
