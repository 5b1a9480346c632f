package chat

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Bounds of the text files that a message includes, in bytes: of one, and of all.
const (
	maxTextFile  = 128 << 10
	maxTextFiles = 512 << 10
)

// ErrNotMedia means that a file is neither an image nor a PDF.
var ErrNotMedia = errors.New("it is neither an image nor a PDF")

// ReadAttachment reads an image or a PDF. It detects the media type by the content and ignores the name. The content of
// another file is returned with ErrNotMedia, at most client.MaxAttachmentBytes+1 bytes of it.
func ReadAttachment(path string) (a client.Attachment, err error) {
	f, err := os.Open(path)
	if err != nil {
		return a, err
	}
	defer f.Close()
	return readAttachment(f)
}

func readAttachment(f io.Reader) (a client.Attachment, err error) {
	a.Data, err = io.ReadAll(io.LimitReader(f, client.MaxAttachmentBytes+1)) // the client refuses what is longer
	if err != nil {
		return a, err
	}
	a.Type, _, _ = strings.Cut(http.DetectContentType(a.Data), ";")
	if !strings.HasPrefix(a.Type, "image/") && a.Type != "application/pdf" {
		return a, ErrNotMedia
	}
	return a, nil
}

// mention matches a word that begins with an @, and a path in quotes after an @.
var mention = regexp.MustCompile(`(?:^|\s)(@"[^"\n]+"|@\S+)`)

// pathLike matches a word that can only be meant as a path: it has a slash or an extension.
var pathLike = regexp.MustCompile(`^[\pL\pN_~.-]*(/[\pL\pN_~./-]*|\.[\pL\pN]{1,8})$`)

// attach reads the files that the user names after an @, relative to dir as openMentioned opens them. Images and PDFs become attachments of the message; the text of
// other files is appended to it. typed is the input, and out.text the same text with long pastes, whose words name no
// files. Two @ begin a word that names no file either. The error for a file that is missing or too large is for the
// user.
func (out *outgoing) attach(typed, dir string) error {
	files, size := "", 0
	seen := map[string]bool{}
	for _, found := range mention.FindAllStringSubmatch(typed, -1) {
		word := found[1]
		if seen[word] {
			continue
		}
		seen[word] = true
		if strings.HasPrefix(word, "@@") {
			out.text = strings.Replace(out.text, word, word[1:], 1)
			continue
		}
		name, a, err := readMention(dir, word)
		switch {
		case name == "":
			continue
		case err != nil && !errors.Is(err, ErrNotMedia):
			return fmt.Errorf("@%s: %w", name, err)
		case len(a.Data) > client.MaxAttachmentBytes || err != nil && len(a.Data) > maxTextFile:
			return fmt.Errorf("@%s is too large: a message takes images and PDFs of %s and text of %s; name the file without "+
				"the @, and the model reads it with its tools", name, ui.Bytes(client.MaxAttachmentBytes), ui.Bytes(maxTextFile))
		case err == nil:
			out.media = append(out.media, a)
		case !utf8.Valid(a.Data) || strings.ContainsRune(string(a.Data), 0):
			return fmt.Errorf("@%s is neither text, nor an image, nor a PDF", name)
		default:
			size += len(a.Data)
			out.added = append(out.added, fmt.Sprintf("%s, %s", name, ui.Bytes(int64(len(a.Data)))))
			files += fmt.Sprintf("\n\n<file path=%q>\n%s\n</file>", name, strings.TrimSuffix(string(a.Data), "\n"))
		}
	}
	switch {
	case len(out.media) > workflows.MaxAttachments:
		return fmt.Errorf("the message has %d images and PDFs; the maximum is %d", len(out.media), workflows.MaxAttachments)
	case size > maxTextFiles:
		return fmt.Errorf("the files of the message have %s of text; the maximum is %s", ui.Bytes(int64(size)),
			ui.Bytes(maxTextFiles))
	}
	out.text += files
	return nil
}

// readMention reads the file that a word names after its @, without punctuation at the end of the word if there is no
// such file. name is empty if the word means something else: a directory, or a word that is no path.
func readMention(dir, word string) (name string, a client.Attachment, err error) {
	name = strings.Trim(word[1:], `"`)
	f, err := openMentioned(dir, name)
	if bare := strings.TrimRight(name, ".,;:!?)"); bare != name && errors.Is(err, fs.ErrNotExist) {
		name = bare
		f, err = openMentioned(dir, name)
	}
	var info fs.FileInfo
	if err == nil {
		defer f.Close()
		info, err = f.Stat()
	}
	switch {
	case err == nil && info.IsDir(), err != nil && !pathLike.MatchString(name) && word[1] != '"':
		return "", a, nil
	case errors.Is(err, fs.ErrNotExist):
		return name, a, errors.New("there is no such file; @@ begins a word that names none")
	case err == nil && !info.Mode().IsRegular():
		err = errors.New("it is not a regular file")
	}
	if err == nil {
		a, err = readAttachment(f)
	}
	return name, a, err
}

// openMentioned opens the file that a message names. A relative path is one in dir, which no link may leave, because the
// session has made what is there; if dir is empty, it is one in the current directory.
func openMentioned(dir, name string) (*os.File, error) {
	const flags = os.O_RDONLY | syscall.O_NONBLOCK // opening a pipe would wait for its writer
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			name = filepath.Join(home, rest)
		}
	}
	if dir == "" || filepath.IsAbs(name) {
		return os.OpenFile(name, flags, 0)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenFile(name, flags, 0)
}

// tree returns the directory of the session's tree, whose files messages name; "" if it has none on this machine.
func (m *Model) tree() string {
	if m.o.Canvases == nil || m.o.Workspace == nil {
		return ""
	}
	dir := m.o.Workspace(m.session)
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir
}

// marks describes the attachments of the message, as ui.Media does, and what the chat has added to its text.
func (out *outgoing) marks() string {
	media := make([]turn.Media, len(out.media))
	for i, a := range out.media {
		media[i] = turn.Media{Type: a.Type, Bytes: int64(len(a.Data))}
	}
	marks := ui.Media(media)
	for _, what := range out.added {
		marks += " [" + termsafe.Line(what, 80) + "]"
	}
	return marks
}
